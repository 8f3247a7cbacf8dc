import pytest

from engine.errors import InputError
from engine.plan import make_plan


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
