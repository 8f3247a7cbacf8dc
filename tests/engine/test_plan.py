import pytest

from engine.errors import InputError
from engine.plan import Plan, make_plan, over
from engine.treatments import ALL


def test_defaults_are_the_method_s():
    plan = make_plan({"targets": "sick & band"})
    assert (plan.lr, plan.length, plan.micro_batch, plan.accumulate, plan.clip) == (5e-5, 512, 1, 8, 1.0)
    assert (plan.init, plan.parts, plan.reinit, plan.seed) == ("xavier_normal", "qkv", True, 42)
    assert plan.tokens_per_step == 4096


@pytest.mark.parametrize("parts", ["q", "k", "v", "qk", "qv", "kv", "qkv"])
def test_parts_that_can_be_chosen(parts):
    assert make_plan({"targets": "all", "parts": parts}).parts == parts


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({}, "targets"),
        ({"targets": "  "}, "names no targets"),
        ({"targets": "all", "step": 10}, "step:"),
        ({"targets": "all", "steps": 0}, "steps:"),
        ({"targets": "all", "lr": 0}, "lr:"),
        ({"targets": "all", "lr": float("inf")}, "lr:"),
        ({"targets": "all", "lr": float("nan")}, "lr:"),
        ({"targets": "all", "clip": -1}, "clip:"),
        ({"targets": "all", "length": 1}, "length:"),
        ({"targets": "all", "init": "zeros"}, "init:"),
        ({"targets": "all", "parts": ""}, "parts:"),
        ({"targets": "all", "parts": "vq"}, "parts:"),
        ({"targets": "all", "parts": "qkvo"}, "parts:"),
        ({"targets": "all", "heldout_share": 1.0}, "heldout_share:"),
        ({"targets": "all", "steps": "many"}, "steps:"),
    ],
)
def test_a_wrong_value_is_named(values, says):
    with pytest.raises(InputError, match=says):
        make_plan(values)


def test_the_rate_that_suits_a_treatment() -> None:
    assert Plan(targets="sick", treatment="sink_logit").lr == 0.1
    assert Plan(targets="sick", treatment="sink_logit", lr=3.0).lr == 3.0
    assert Plan(targets="sick", treatment="prune").lr == Plan(targets="sick").lr == 5e-5
    assert not Plan(targets="sick", treatment="prune").trains
    with pytest.raises(InputError, match="reinit = false is the control of reinitialising; the treatment is"):
        make_plan({"targets": "sick", "treatment": "prune", "reinit": False})


def test_what_a_treatment_touches() -> None:
    touched = {t: Plan(targets="sick", treatment=t, parts="qk").touched for t in ALL}  # type: ignore[arg-type]
    assert touched == {"reinitialise": "qko", "sink_logit": "s", "placeholder": "e", "prune": "o", "nothing": ""}


def test_values_over_one_another() -> None:
    demo = {"lr": 1e-3, "steps": 300}
    assert over(demo, {"targets": "sick"}) == {"lr": 1e-3, "steps": 300, "targets": "sick"}
    assert over(demo, {"epochs": 2}) == {"lr": 1e-3, "epochs": 2}
    assert over(demo, {"treatment": "placeholder"}) == {"steps": 300, "treatment": "placeholder"}
    assert over(demo, {"treatment": "placeholder"}, {"seed": 1, "lr": 2.0})["lr"] == 2.0
    assert over({"treatment": "placeholder", "lr": 0.5}, {"seed": 1})["lr"] == 0.5
    assert over(demo, {"treatment": "reinitialise"})["lr"] == 1e-3
