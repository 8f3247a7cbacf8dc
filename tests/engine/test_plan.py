import pytest

from engine.errors import InputError
from engine.plan import make_plan, read_plans


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


def test_a_plan_file_holds_several_passes(tmp_path):
    path = tmp_path / "plan.toml"
    path.write_text('[[pass]]\ntargets = "sick & band"\nlr = 1e-4\n\n[[pass]]\ntargets = "sick"\n', "utf-8")
    first, second = read_plans(path, {"lr": 1e-3, "steps": 7})
    assert (first.targets, first.lr, first.steps) == ("sick & band", 1e-4, 7)
    assert (second.targets, second.lr, second.steps) == ("sick", 1e-3, 7)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[[pass]\n", "is not TOML"),
        (b"\xff\xfe", "is not TOML"),
        ("", "holds no pass"),
        ("pass = 3", "holds no pass"),
        ("pass = [1, 2]", "holds no pass"),
        ('[[pass]]\ntargets = "all"\n[[pass]]\ntargets = "all"\nsteps = -1\n', "pass 2 of .*steps"),
    ],
)
def test_a_wrong_plan_file_is_refused_in_words(tmp_path, content, says):
    path = tmp_path / "plan.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=says):
        read_plans(path, {})


def test_a_missing_plan_is_named(tmp_path):
    with pytest.raises(InputError, match="plan not found"):
        read_plans(tmp_path / "no.toml", {})
    with pytest.raises(InputError, match="cannot read the plan"):
        read_plans(tmp_path, {})
