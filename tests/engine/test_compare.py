"""Sessions side by side: figures as their records tell them, shared settings once."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import engine.cli_compare  # noqa: F401  (its commands join the app)
from engine import events
from engine.chart import read_chart
from engine.cli import app
from engine.compare import column_names, compare, compare_csv, compare_json, compare_markdown, compare_text
from engine.errors import InputError
from engine.protocol import read_protocol, runs_of
from engine.record import build
from engine.tables import Record
from engine.trial import create_trial
from tests.engine import story

SESSIONS = Path(__file__).parents[2] / "sessions"
PAIR = [str(SESSIONS / "2026-11-30-demo-7d17"), str(SESSIONS / "2026-11-30-demo-f0d0")]


def record(folder: Path, told: list[events.Event]) -> Record:
    session = story.tell(folder, told, keep_record=False)
    made = build(read_chart(session))
    made.session.id = folder.name
    return made


@pytest.fixture
def whole(tmp_path: Path) -> Record:
    return record(tmp_path / "whole", story.WHOLE_PASS)


def test_figures_are_the_records(whole, tmp_path):
    other = record(tmp_path / "begun", [*story.DIAGNOSED, story.started(reinit=False)])
    found = compare_json(compare([whole, other]))
    assert found["columns"] == ["whole", "begun"]
    assert found["common"]["targets"] == "L1 x H2-3" and found["common"]["target_heads"] == 2
    figures = found["figures"]
    assert figures["reinit"] == [True, False]
    assert figures["healthy"] == [{"stock": 6, "after": 8}, {"stock": 6, "after": None}]
    assert figures["woken"] == [{"heads": 2, "of": 2}, None]
    assert figures["ablation_loss"][0] == {"stock": 0.03, "cut": 0.0, "after": 0.744}
    assert figures["heldout_perplexity"][0] == {"stock": 128.98, "cut": 132.89, "after": 55.2}
    assert figures["heldout_perplexity"][1] == {"stock": 128.98, "cut": None, "after": None}
    assert figures["perplexity.austen"][0] == {"stock": 18.51, "after": 27.2}
    assert figures["drift.outside.worst"][0] == {"drift": 0.07, "head": "L2-H2"}
    assert figures["memory_bytes_peak"] == [1_340_000_000, None]
    written = {side: whole.generation[stage].figures for side, stage in (("stock", "stock"), ("after", "pass-1"))}
    assert figures["generation.code"] == [
        {side: its["code"] for side, its in written.items()},
        {"stock": None, "after": None},
    ]
    assert figures["trained_tokens"] == [40_960, None]
    assert found["notes"] == [
        "The corpora differ: the perplexities are on different texts, and so is what heads are worth."
    ]


def test_text_fits_a_terminal_and_shared_settings_stand_once(whole, tmp_path):
    long = record(tmp_path / ("a-session-of-" + "very-" * 8 + "long-name"), story.WHOLE_PASS)
    text = compare_text(compare([whole, long]))
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("learning rate") == 1
    assert "128.98 → 132.89 → 55.20" in text
    top = text.split("\n\n")[0]
    assert "patient" in top and "seed" in top and "healthy" not in top


def test_another_patient_and_another_way_of_cutting_are_said(whole, tmp_path):
    loaded = replace(story.LOADED, weights_sha256="12" * 32)
    told = [loaded if event is story.LOADED else event for event in story.WHOLE_PASS]
    notes = compare([whole, record(tmp_path / "other", told)]).notes
    assert notes == ["The patients differ: their figures stand on different models."]
    short = [*story.DIAGNOSED, story.started(length=64)]
    usual = [*story.DIAGNOSED, story.started()]
    notes = compare([record(tmp_path / "short", short), record(tmp_path / "usual", usual)]).notes
    assert notes == ["The held-out parts were cut differently: the perplexities are on different samples."]


def test_unusual_settings_are_told_where_there_are_any(tmp_path):
    def pass_of(name, **plan):
        return record(tmp_path / name, [*story.DIAGNOSED, story.started(**plan)])

    usual, few = pass_of("usual"), pass_of("few", samples=1600, layout="one_line")
    alike = [pass_of("one", vocabulary=2000), pass_of("two", vocabulary=2000)]
    young = record(tmp_path / "young", story.DIAGNOSED)
    names = {"classes", "samples", "vocabulary", "layout"}
    found = compare_json(compare([usual, usual, young]))
    assert not names & {*found["common"], *found["figures"]}
    found = compare_json(compare([usual, few, young]))
    told = {name: values for name, values in found["figures"].items() if name in names}
    assert told == {"samples": ["all", 1600, None], "layout": ["kept", "one_line", None]}
    assert {name: value for name, value in compare_json(compare(alike))["common"].items() if name in names} == {
        "vocabulary": 2000
    }
    text = compare_text(compare([usual, few]))
    assert [line.split() for line in text.splitlines() if line.startswith("different samples")] == [
        ["different", "samples", "all", "1", "600"]
    ]


def test_a_corpus_read_less_far_is_told_from_another_one(tmp_path):
    def pass_on(name, **source):
        started = story.started()
        its = replace(started.corpus[0], **source)
        return record(tmp_path / name, [*story.DIAGNOSED, replace(started, corpus=[its])])

    whole, less = pass_on("whole"), pass_on("less", sha256="34" * 32, documents=2, train_tokens=100)
    other = pass_on("other", sha256="34" * 32, heldout_tokens=999)
    sentence = "Not all read equally far into the corpus; what is held out of it is the same."
    assert compare([whole, less]).notes == [sentence]
    assert [note[:19] for note in compare([whole, other]).notes] == ["The corpora differ:"]
    repeated = pass_on("twice", source="bible.txt@2", repeat=2)
    assert compare_json(compare([whole, repeated]))["figures"]["corpus"] == [["bible.txt"], ["bible.txt@2"]]
    assert compare([whole, repeated]).notes == []


def test_the_last_pass_that_stands_or_all(tmp_path):
    second = [story.started(2, "L2-H2", ["L2-H2"]), story.ended(2, woken=1)]
    told = [*story.ONE_PASS, *second]
    both, undone = record(tmp_path / "both", told), record(tmp_path / "undone", [*told, events.Undone(number=2)])
    assert compare_json(compare([both, undone]))["figures"]["target_heads"] == [1, 2]
    every = compare([both, undone], all_passes=True)
    assert every.columns == ["both pass 1", "both pass 2", "undone pass 1", "undone pass 2"]
    assert compare_json(every)["figures"]["outcome"] == ["completed", "completed", "completed", "undone"]


@pytest.mark.parametrize("told", [story.DIAGNOSED[:1], story.DIAGNOSED])
def test_sessions_without_a_pass_show_what_they_have(whole, tmp_path, told):
    text = compare_text(compare([whole, record(tmp_path / "young", told)]))
    (row,) = [line for line in text.splitlines() if line.startswith("woken after")]
    assert row.split() == ["woken", "after", "2", "of", "2", "–"]


def test_text_from_outside_is_obeyed_by_no_reader(whole, tmp_path):
    other = whole.model_copy(deep=True)
    other.session.id = "=1+1"
    other.session.model = "a|b\x1b[31m`<i>"
    found = compare([whole, other])
    assert "\x1b" not in compare_text(found) + compare_markdown(found) + compare_csv(found)
    rows = list(csv.reader(io.StringIO(compare_csv(found))))
    assert rows[0] == ["figure", "whole", "'=1+1"]
    assert ["heldout_perplexity.cut", "132.89", "132.89"] in rows
    table = [line for line in compare_markdown(found).splitlines() if line.startswith("|")]
    assert {line.replace("\\|", "").count("|") for line in table} == {4}
    assert "\\<i>" in compare_markdown(found)


def test_the_command_on_the_committed_sessions(tmp_path):
    run = CliRunner().invoke
    assert "29 → 30" in run(app, ["compare", *PAIR]).stdout
    figures = json.loads(run(app, ["compare", *PAIR, "--json"]).stdout)["figures"]
    assert figures["reinit"] == [False, True] and figures["woken_at_cut"][1] == {"heads": 19, "of": 19}
    for name in ("side.md", "side.csv"):
        assert run(app, ["compare", *PAIR, "--to", str(tmp_path / name)]).stdout.strip() == str(tmp_path / name)
        assert "29.74" in (tmp_path / name).read_text("utf-8") or "29.736612" in (tmp_path / name).read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (PAIR[:1], "name two or more"),
        ([*PAIR, "--to", "side.xls"], "neither .md nor .csv"),
        ([*PAIR, "--to", "/nowhere/side.md"], "folder not found: /nowhere"),
        ([PAIR[0], "/nowhere"], "session not found: /nowhere"),
    ],
)
def test_wrong_input_is_refused_in_a_sentence(arguments, sentence):
    error = CliRunner().invoke(app, ["compare", *arguments]).exception
    assert isinstance(error, InputError) and sentence in str(error)


def test_verify_leaves_with_1_where_a_claim_does_not_hold(tmp_path):
    run = CliRunner().invoke
    assert run(app, ["verify", PAIR[0]]).exit_code == 0
    session = story.tell(tmp_path / "story", story.ONE_PASS)  # its patient is made up
    ran = run(app, ["verify", str(session.folder), "--json"])
    assert ran.exit_code == 1 and json.loads(ran.stdout)["holds"] is False


# -- trials


@pytest.fixture
def trial(tmp_path):
    """Two arms of two seeds, and a third arm that waits."""
    path = tmp_path / "birds.toml"
    arms = "".join(
        f'[[arm]]\nname = "{arm}"\n[[arm.pass]]\ntargets = "sick"\ncorpus = ["birds.txt"]\n'
        for arm in ("cut", "control", "late")
    )
    path.write_text(f'title = "Birds"\nquestion = "Do they wake?"\nseeds = [1, 2]\n{arms}', "utf-8")
    protocol = read_protocol(path)
    made = create_trial(tmp_path / "sessions", protocol, runs_of(protocol, "demo"), "cpu")
    for run in made.runs[:4]:
        created = replace(story.CREATED, protocol="Birds", arm=run.arm, seed=run.seed)
        story.tell(made.folder / run.name, [created, *story.ONE_PASS[1:]])
    return made.folder


def test_columns_are_named_by_arm_and_by_seed_where_there_are_several(tmp_path):
    def run(arm, seed=42, protocol="Birds"):
        created = replace(story.CREATED, protocol=protocol, arm=arm, seed=seed)
        return record(tmp_path / f"{arm}-{seed}-{protocol}", [created, *story.ONE_PASS[1:]])

    cut, again, control = run("cut"), run("cut", 43), run("control")
    assert column_names([cut, control]) == ["cut", "control"]
    assert column_names([cut, again, control]) == ["cut seed 42", "cut seed 43", "control"]
    for others in ([cut, run("cut", protocol="Bees")], [cut, cut], [cut, run("")]):
        assert column_names(others) == [other.session.id for other in others]
    assert compare([cut, again]).columns == ["cut seed 42", "cut seed 43"]


def test_many_columns_stand_in_blocks_that_fit_a_terminal(trial):
    text = CliRunner().invoke(app, ["compare", str(trial)]).stdout
    assert max(map(len, text.splitlines())) <= 80
    rows = [line for line in text.splitlines() if line.startswith("woken after")]
    assert [row.split("after")[1].split() for row in rows] == [3 * ["2", "of", "2"], ["2", "of", "2"]]
    both = CliRunner().invoke(app, ["compare", PAIR[0], str(trial), "--json"]).stdout
    assert len(json.loads(both)["columns"]) == 5


def test_every_session_of_a_trial_is_verified(trial):
    ran = CliRunner().invoke(app, ["verify", str(trial), "--json"])
    told = json.loads(ran.stdout)
    assert ran.exit_code == 1 and told["holds"] is False and told["trial"] == trial.name  # its patient is made up
    assert [one["session"] for one in told["sessions"]] == [f"{trial.name}/{name}" for name in
        ("cut-1", "cut-2", "control-1", "control-2")]  # fmt: skip
    text = CliRunner().invoke(app, ["verify", str(trial)]).stdout
    assert len([line for line in text.splitlines() if " claims, " in line]) == 4


def test_a_report_on_a_trial_on_several_sessions_and_on_one(trial, tmp_path):
    def report(*folders):
        ran = CliRunner().invoke(app, ["report", *map(str, folders), "--to", str(tmp_path / "out")])
        assert ran.exit_code == 0, ran.exception
        return (tmp_path / "out" / "report.md").read_text("utf-8").split("\n\n")

    assert report(trial)[:2] == [
        "# Birds",
        "- **question**: Do they wake?\n- **patient**: `demo`\n- **arms**: `cut`, `control`\n- **seeds**: 1, 2\n"
        "- **sessions**: 4: 4 operated",
    ]
    assert report(*PAIR)[0] == "# Sessions side by side"
    assert report(trial / "cut-1")[0] == "# Head surgery on `demo`"
