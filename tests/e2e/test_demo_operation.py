"""The demo operation, on fewer samples and steps than the README tells of; and what survives a kill of the program."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine import cli
from engine.journal import Reader
from engine.session import Session

PROGRAM = [sys.executable, "-m", "engine"]
PLAN = """
[[pass]]
targets = "sick"
heldout_samples = 16
check_every = 50
generate = false
watch = []
"""
"""The demo's own plan, evaluated on fewer samples."""


def only_session(root: Path) -> Session:
    (folder,) = root.iterdir()
    return Session(folder)


def carry_out(*arguments: object) -> None:
    """Run a command in the tests' own process, which has the libraries loaded."""
    assert cli.run([*map(str, arguments)]) == 0


def operation(root: Path, *arguments: object) -> tuple[object, ...]:
    """The words of the command line that operate on the demo's sick heads."""
    plan = root.with_suffix(".toml")
    plan.write_text(PLAN, "utf-8")
    return ("operate", "demo", "--plan", plan, "--sessions", root, *arguments)


def operate(root: Path, *arguments: object) -> dict[str, Any]:
    """Operate on the demo's sick heads; the record."""
    carry_out(*operation(root, *arguments))
    return tomllib.loads(only_session(root).record.read_text("utf-8"))


def timeless(record: dict[str, Any]) -> dict[str, Any]:
    """A record without what differs between two runs: times, the random name, memory."""
    record["session"] = {k: v for k, v in record["session"].items() if k not in ("id", "created", "updated")}
    measured = ("started", "ended", "memory_bytes_peak", "training_seconds")
    record["pass"] = [{k: v for k, v in p.items() if k not in measured} for p in record["pass"]]
    return record


def test_the_operation_wakes_the_targets_and_puts_them_to_work(tmp_path: Path) -> None:
    record = operate(tmp_path / "demo", "--steps", 100)
    (done,) = record["pass"]
    n = len(done["target_heads"])
    assert n >= 12
    assert done["woken"] >= 0.95 * n
    assert done["heldout_perplexity"] < done["heldout_perplexity_stock"]
    assert done["ablation_loss_after"] > done["ablation_loss_stock"]
    assert done["frozen_sha256_before"] == done["frozen_sha256_after"]
    for zone in ("outside", "in_band_frozen"):
        for drift in ("drift_cut", "drift_training", "drift"):
            assert set(done[drift][zone]) == {"heads", "drifting", "mean", "worst", "worst_head"}
    assert done["drift"]["outside"]["heads"] + done["drift"]["in_band_frozen"]["heads"] + n == 48
    assert [c["step"] for c in done["check"]] == [50, 100]
    assert record["diagnosis"]["pass-1"]["counts"]["healthy"] > record["diagnosis"]["stock"]["counts"]["healthy"]


def test_without_reinitialisation_few_wake(tmp_path: Path) -> None:
    (done,) = operate(tmp_path / "demo", "--no-reinit", "--steps", 100)["pass"]
    n = len(done["target_heads"])
    assert done["reinit"] is False
    assert done["woken_at_cut"] == 0
    assert done["woken"] < n / 3
    assert done["heldout_perplexity"] < done["heldout_perplexity_stock"]


def test_without_reinitialisation_at_the_papers_rate_none_wakes(tmp_path: Path) -> None:
    (done,) = operate(tmp_path / "demo", "--no-reinit", "--lr", "5e-5", "--steps", 50)["pass"]
    assert done["woken"] == 0


SHORT = ("--steps", 24, "--check-every", 8, "--micro-batch", 2, "--length", 32)


def command(root: Path, *arguments: object) -> list[str]:
    """What starts the real program on a short pass."""
    return [*PROGRAM, *map(str, operation(root, *SHORT, *arguments))]


def test_killed_in_mid_pass_and_resumed_it_ends_as_the_run_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone = operate(tmp_path / "alone", *SHORT)
    quiet = {"stderr": subprocess.DEVNULL, "stdout": subprocess.DEVNULL}
    running = subprocess.Popen(command(tmp_path / "torn"), **quiet)
    session = wait_for_step(tmp_path / "torn", 12)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert session.holder() is None
    capsys.readouterr()
    carry_out("resume", session.folder)
    assert "goes on from step 8" in capsys.readouterr().err
    untouched = only_session(tmp_path / "alone")
    assert session.patch(1).read_bytes() == untouched.patch(1).read_bytes()
    torn = tomllib.loads(session.record.read_text("utf-8"))
    assert timeless(torn) == timeless(alone)
    seqs = [entry.seq for entry in Reader(session.journal).entries()]
    assert seqs == list(range(1, len(seqs) + 1))


def wait_for_step(root: Path, step: int) -> Session:
    """The only session of a root, once its journal holds a step; fails after two minutes."""

    def there() -> Session | None:
        for folder in root.glob("*"):
            found = [e.event for e in Reader(folder / "journal.jsonl").entries() if e.event.kind == "step"]
            if any(getattr(e, "step", 0) >= step for e in found):
                return Session(folder)
        return None

    return wait_until(there)


def wait_until(there: Callable[[], Session | None]) -> Session:
    for _ in range(1200):
        found = there()
        if found is not None:
            return found
        time.sleep(0.1)
    raise AssertionError("it did not come to pass within two minutes")


def test_a_full_disk_is_one_sentence_and_the_session_goes_on_afterwards(tmp_path: Path) -> None:
    def small_files() -> None:  # the state of the pass is larger than that
        resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))

    torn = command(tmp_path / "torn")
    ran = subprocess.run(torn, capture_output=True, text=True, check=False, preexec_fn=small_files)
    assert ran.returncode == 2
    assert "no room left on the disk while writing" in ran.stderr
    assert "Traceback" not in ran.stderr
    session = only_session(tmp_path / "torn")
    assert sorted(f.name for f in session.folder.iterdir()) == [
        "journal.jsonl",
        "pass-1",
        "session.toml",
        "worker.lock",
    ]
    assert list(session.pass_folder(1).iterdir()) == []
    carry_out("resume", session.folder)
    assert tomllib.loads(session.record.read_text("utf-8"))["pass"][0]["outcome"] == "completed"


def test_an_interrupt_is_code_130_and_says_how_to_go_on(tmp_path: Path) -> None:

    def heed_interrupts() -> None:  # a program that is started in the background inherits that it does not
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    pipes = {"stderr": subprocess.PIPE, "stdout": subprocess.PIPE}
    long = command(tmp_path / "torn", "--steps", 2000)  # so many that it cannot end before it hears of the interrupt
    running = subprocess.Popen(long, **pipes, text=True, preexec_fn=heed_interrupts)
    session = wait_for_step(tmp_path / "torn", 3)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    assert running.returncode == 130
    assert f"headsurgeon resume {session.folder}" in said
    assert "Traceback" not in said
