from pathlib import Path

import pytest

from engine.errors import InputError
from tests.tui.story import beginning, chart_of, operation
from tui.plans import FIELDS, as_plan, first_values, read, repaced, written


def test_a_plan_survives_the_form() -> None:
    values = {"corpus": ["c4", "wiki"], "steps": 12, "lr": 5e-5, "reinit": False, "init": "xavier_uniform"}
    plan = as_plan(values, "sick")
    assert as_plan(read(written(plan)), "sick") == plan
    assert written(plan)["corpus"] == "c4 ; wiki" and written(plan)["reinit"] == "no"


def test_an_empty_field_means_the_default_and_a_wrong_one_is_named() -> None:
    empty = {field.name: "" for field in FIELDS}
    assert as_plan(read(empty), "sick") == as_plan({}, "sick")
    for name, text, sentence in (
        ("steps", "many", "steps: 'many' is not a whole number"),
        ("lr", "fast", "lr: 'fast' is not a number like 5e-5"),
        ("reinit", "maybe", "reinit: write yes or no, not 'maybe'"),
    ):
        with pytest.raises(InputError, match=sentence):
            read({**empty, name: text})
    with pytest.raises(InputError, match="lr"):
        as_plan(read({**empty, "lr": "-1"}), "sick")


def test_a_file_is_named_in_full_so_that_a_resume_from_elsewhere_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "text.txt").write_text("words")
    monkeypatch.chdir(tmp_path)
    empty = {field.name: "" for field in FIELDS}
    assert read({**empty, "corpus": "text.txt ; hub/name"})["corpus"] == [str(tmp_path / "text.txt"), "hub/name"]


def test_the_form_begins_with_what_suits_the_patient_or_with_the_pass_before() -> None:
    demo = chart_of(beginning("s", model="demo"))
    assert first_values(demo)["steps"] == 300
    other = chart_of(beginning("s"))
    assert first_values(other) == {}
    after = chart_of(iter([*beginning("s"), *operation(10)]))
    assert first_values(after)["steps"] == 40 and "targets" not in first_values(after)


def test_another_treatment_brings_the_rate_that_suits_it() -> None:
    demo, began = {"lr": 1e-3, "steps": 300}, {"lr": 1e-3, "steps": 300}
    chosen = {**began, "treatment": "sink_logit"}
    assert as_plan(repaced(chosen, began, demo), "all").lr == 0.1
    assert repaced({**chosen, "lr": 2.0}, began, demo)["lr"] == 2.0  # the operator's own
    assert repaced({**began, "steps": 5}, began, demo) == {**began, "steps": 5}
    back = {**as_plan(chosen | {"lr": 0.1}, "all").model_dump(), "treatment": "reinitialise"}
    before = {**back, "treatment": "sink_logit"}
    assert repaced(back, before, demo)["lr"] == 1e-3
    assert as_plan(repaced(back, before, {}), "all").lr == 5e-5
