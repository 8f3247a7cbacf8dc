"""Protocols on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine.conftest import refused
from tests.engine.nn.patients import make_patient, write_corpus

PLAN = """
title = "Birds"
question = "Which head?"
[corpora]
own = ["birds.txt"]
[every_pass]
corpus = ["own"]
length = 16
generate = false
[[arm]]
name = "one"
[[arm.pass]]
targets = "L1-H0"
[[arm]]
name = "two"
[[arm.pass]]
targets = "L2-H3 & {more}"
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    make_patient(tmp_path / "tiny")
    write_corpus(tmp_path / "birds.txt")
    path = tmp_path / "birds.toml"
    path.write_text(PLAN.format(more="all"), "utf-8")
    return path


def test_a_protocol_leaves_a_session_for_each_arm(run, plan: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    done = run("operate", "tiny", "--plan", plan, "--steps", "2")
    assert done.code == 0
    (trial,) = (tmp_path / "sessions").iterdir()
    assert trial.name.split("-", 3)[3].startswith("birds-tiny-")
    assert "one: pass 1 completed" in done.err
    assert f"Birds: sessions/{trial.name}" in done.out
    assert (trial / "one" / "session.toml").exists()
    assert f"{trial.name}/two" in run("sessions").out
    again = run("resume", trial)
    assert again.code == 0
    assert "pass 1" not in again.err  # there was nothing left to do


def test_an_arm_that_fails_is_named_and_the_rest_is_done(run, plan: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    plan.write_text(PLAN.format(more="dead"), "utf-8")
    failed = run("operate", "tiny", "--plan", plan, "--steps", "2")
    (trial,) = (tmp_path / "sessions").iterdir()
    assert failed.code == 1
    assert "1 of 2 arms did not come to their end; two: the targets 'L2-H3 & dead' select no head" in failed.err
    assert f"headsurgeon resume sessions/{trial.name}" in failed.err
    assert (trial / "one" / "pass-1" / "best.safetensors").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["tiny", "--plan", "birds.toml", "--corpus", "no.txt"], "corpus not found: no.txt"),
        (["tiny", "--plan", "paper"], "there is no layer"),
        (["tiny", "--plan", "to-passes"], "plan not found: to-passes; name a TOML file, or one of two-passes"),
        (["--plan", "birds.toml"], "the plan names no patient; name it: headsurgeon operate MODEL"),
        (["--targets", "all"], "name the patient"),
        (["tiny", "--plan", "gradients-only", "--no-reinit"], "reinit differs between the passes of gradients-only"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_begun(  # type: ignore[no-untyped-def]
    run,
    plan: Path,
    tmp_path: Path,
    arguments: list[str],
    says: str,
) -> None:
    assert says in refused(run("operate", *arguments))
    assert not (tmp_path / "sessions").exists()


def test_options_that_belong_to_one_session(run, plan: Path, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    run("operate", "tiny", "--plan", plan, "--steps", "1")
    (trial,) = (tmp_path / "sessions").iterdir()
    assert "set options where one stands: resume" in refused(run("resume", trial, "--micro-batch", "2"))


def test_plans_are_listed_and_printed(run) -> None:  # type: ignore[no-untyped-def]
    listed = run("plans").out
    assert "gradients-only: Gradients only\n" in listed
    assert "band, band and Hn for each column n" in listed
    assert max(map(len, listed.splitlines())) <= 80
    assert run("plans", "relapse").out.startswith('title = "Relapse"\n')
    assert "plan not found: relaps" in refused(run("plans", "relaps"))
