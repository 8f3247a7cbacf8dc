from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InputError
from engine.plan import Plan
from engine.protocol import BUILT_IN, Protocol, Run, find_protocol, read_protocol, runs_of
from engine.targets import Model, check, resolve, zone_of, zones

TWO_ARMS = """
title = "Does it matter"
seeds = [1, 2]
[corpora]
own = ["birds.txt@2"]
[every_pass]
corpus = ["own"]
targets = "sick"
steps = 7
[[arm]]
name = "With a cut"
[[arm.pass]]
[[arm]]
name = "Without"
[[arm.pass]]
reinit = false
[demo]
corpora.own = ["demo:devil.txt"]
every_pass = { steps = 3 }
"""


def written(tmp_path: Path, text: str, name: str = "plan.toml") -> Path:
    path = tmp_path / name
    path.write_text(text, "utf-8")
    return path


def read(tmp_path: Path, text: str, model: str = "m") -> Protocol:
    return read_protocol(written(tmp_path, text), model)


def only(runs: list[Run]) -> Plan:
    (run,) = runs
    (plan,) = run.plans
    return plan


def test_every_arm_is_run_once_per_seed(tmp_path):
    runs = runs_of(read(tmp_path, TWO_ARMS), "some/model")
    assert [run.name for run in runs] == ["with-a-cut-1", "with-a-cut-2", "without-1", "without-2"]
    assert [(run.arm, run.seed, run.plans[0].seed) for run in runs[:2]] == [("With a cut", 1, 1), ("With a cut", 2, 2)]
    assert [run.plans[0].reinit for run in runs] == [True, True, False, False]
    assert {run.model for run in runs} == {"some/model"}


def test_the_demo_patient_gets_its_own_values(tmp_path):
    demo, other = (runs_of(read(tmp_path, TWO_ARMS, model), model)[0].plans[0] for model in ("demo", "m"))
    assert (demo.steps, demo.corpus, demo.lr, demo.length) == (3, ["demo:devil.txt"], 1e-3, 128)
    assert (other.steps, other.corpus, other.lr, other.length) == (7, ["birds.txt@2"], 5e-5, 512)


def test_sources_are_taken_from_the_plan_s_own_folder(tmp_path, monkeypatch):
    (tmp_path / "birds.txt").write_text("a\n", "utf-8")
    monkeypatch.chdir("/")
    assert runs_of(read(tmp_path, TWO_ARMS), "m")[0].plans[0].corpus == [f"{tmp_path}/birds.txt@2"]


@pytest.mark.parametrize(
    ("given_corpora", "own", "more"),
    [
        (["x/y"], ["x/y"], ["c/d"]),  # without a name: the first
        (["more=x/y"], ["a/b"], ["x/y"]),
        (["own=x/y", "own=z/z", "more=v/w"], ["x/y", "z/z"], ["v/w"]),
        (["other=x/y"], ["other=x/y"], ["c/d"]),  # no corpus of the plan: part of a source's name
    ],
)
def test_corpora_that_are_given_take_the_place_of_the_plan_s(tmp_path, given_corpora, own, more):
    text = """
        [corpora]
        own = ["a/b"]
        more = ["c/d"]
        [[pass]]
        targets = "all"
        corpus = ["own"]
        watch_heldout = ["more"]
    """
    plan = only(runs_of(read(tmp_path, text), "m", corpora=given_corpora))
    assert (plan.corpus, plan.watch_heldout) == (own, more)


def test_what_is_given_holds_whatever_the_plan_says(tmp_path):
    runs = runs_of(read(tmp_path, TWO_ARMS), "m", base={"clip": 3, "lr": 9}, given={"lr": 1e-4, "seed": 5})
    assert [run.name for run in runs] == ["with-a-cut", "without"]
    assert {(run.seed, run.plans[0].seed, run.plans[0].lr, run.plans[0].clip) for run in runs} == {(5, 5, 1e-4, 3)}


def test_what_makes_the_arms_differ_cannot_be_given(tmp_path):
    with pytest.raises(InputError, match="reinit differs between the passes of plan"):
        runs_of(read(tmp_path, TWO_ARMS), "m", given={"reinit": False})


@pytest.mark.parametrize(("given_", "steps", "epochs"), [({}, None, 2), ({"epochs": 4}, None, 4), ({"steps": 9}, 9, 2)])
def test_a_pass_counted_by_epochs_is_not_held_to_the_steps_below_it(tmp_path, given_, steps, epochs):
    text = '[[pass]]\ntargets = "all"\nepochs = 2\n'
    plan = only(runs_of(read(tmp_path, text, "demo"), "demo", given=given_))
    assert (plan.steps, plan.epochs) == (steps, epochs)


def test_passes_alone_are_one_session(tmp_path):
    text = '[[pass]]\ntargets = "sick & band"\nlr = 1e-4\n\n[[pass]]\ntargets = "sick"\n'
    protocol = read(tmp_path, text)
    (run,) = runs_of(protocol, "m", base={"lr": 1e-3, "steps": 7})
    first, second = run.plans
    assert protocol.single
    assert (first.targets, first.lr, first.steps) == ("sick & band", 1e-4, 7)
    assert (second.targets, second.lr, second.steps, second.seed) == ("sick", 1e-3, 7, 42)
    assert not read(tmp_path, f"seeds = [1, 2]\n{text}").single


def test_an_arm_for_each_column(tmp_path):
    text = """
        column = 3
        [[arm]]
        name = "H{column}"
        each_column = true
        [[arm.pass]]
        targets = "sick | H{column}"
        [[arm]]
        name = "only H{column}, again"
        [[arm.pass]]
        targets = "H{column}"
    """
    runs = runs_of(read(tmp_path, text), "m", n_heads=2)
    assert [(run.arm, run.plans[0].targets) for run in runs] == [
        ("H0", "sick | H0"),
        ("H1", "sick | H1"),
        ("only H3, again", "H3"),
    ]


def test_an_arm_without_a_pass_is_only_diagnosed(tmp_path):
    text = '[[arm]]\nname = "a"\nmodel = "one"\ndtype = "bfloat16"\n[[arm]]\nname = "b"\ntexts = "mine.txt"\n'
    (tmp_path / "mine.txt").write_text("Hello.\n", "utf-8")
    a, b = runs_of(read(tmp_path, text), "two", dtype="float32")
    assert (a.model, a.dtype, a.texts, a.plans) == ("one", "bfloat16", "", [])
    assert (b.model, b.dtype, b.texts) == ("two", "float32", str(tmp_path / "mine.txt"))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("[[pass]\n", "is not TOML"),
        (b"\xff\xfe", "is not TOML"),
        ("", "holds no pass"),
        ("pass = 3", "holds no pass"),
        ("pass = [1, 2]", "holds no pass"),
        ('[[pass]]\ntargets = "all"\n[[arm]]\nname = "a"\n', "both passes and arms"),
        ('[[arm]]\nname = "a"\nstep = 3\n', "arm.0.step"),
        ('seed = 3\n[[pass]]\ntargets = "all"\n', "seed"),
        ('[[arm]]\nname = ""\n', "arm.0.name"),
    ],
)
def test_a_wrong_plan_file_is_refused_in_words(tmp_path, content, says):
    path = tmp_path / "plan.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=says):
        read_protocol(path)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[[pass]]\ntargets = "all"\n[[pass]]\ntargets = "all"\nsteps = -1\n', "pass 2 of plan: steps"),
        ('[[arm]]\nname = "a b"\n[[arm.pass]]\nlr = 1.0\n', "pass 1 of the arm a b: .*names no targets"),
        ('[[arm]]\nname = "a b"\n[[arm]]\nname = "A-b"\n', "two arms are named a-b"),
        ('[[pass]]\ntargets = "all"\ncorpus = "birds.txt"\n', "corpus"),
    ],
)
def test_a_wrong_pass_is_named_with_its_arm(tmp_path, text, says):
    with pytest.raises(InputError, match=says):
        runs_of(read(tmp_path, text), "m")


def test_a_missing_plan_is_named(tmp_path):
    with pytest.raises(InputError, match=r"plan not found: .*no\.toml"):
        read_protocol(tmp_path / "no.toml")
    with pytest.raises(InputError, match="cannot read the plan"):
        read_protocol(tmp_path)
    with pytest.raises(InputError, match="plan not found: to-passes; name a TOML file, or one of two-passes, "):
        find_protocol("to-passes")


@pytest.mark.parametrize("name", BUILT_IN)
@pytest.mark.parametrize("model", ["demo", "some/model"])
def test_the_built_in_plans_can_be_read_for_any_patient(name, model):
    protocol = read_protocol(find_protocol(name), model)
    n_layers, n_heads = (6, 8) if model == "demo" else (24, 16)
    runs = runs_of(protocol, model, n_heads=n_heads)
    assert protocol.title and protocol.question.strip().endswith(("?", "."))
    if (name, model) != ("paper", "demo"):
        for plan in (plan for run in runs for plan in run.plans):
            check(plan.targets, n_layers, n_heads)
            assert plan.corpus


def test_the_paper_s_targets_are_its_own():
    """arXiv 2603.09616: 108 targets of pass 1, and 126 of the extended surgery."""
    runs = runs_of(read_protocol(find_protocol("paper")), "")
    model = Model(24, 16)
    one, extended = (resolve(run.plans[0].targets, model) for run in runs)
    assert {run.model for run in runs} == {"bigscience/bloom-1b7"}
    assert (len(one), len(extended)) == (108, 126)
    assert zone_of(one) == ((5, 22), (9, 15))
    assert [len(heads) for heads in zones(one, model)] == [108, 18, 258]
    by_layer = [sum(head.layer == layer for head in one) for layer in range(5, 23)]
    assert by_layer == [2, 7, 6, 5, 7, 7, 6, 7, 7, 6, 5, 6, 6, 7, 7, 7, 5, 5]


@given(st.text(max_size=60))
def test_any_text_is_a_protocol_or_refused_in_a_sentence(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("plans") / "plan.toml"
    path.write_text(text, "utf-8", errors="replace")
    try:
        runs_of(read_protocol(path), "m")
    except InputError as error:
        assert str(error)
