"""The app in a real terminal of 80×24, with the real worker and the demo patient, by keys alone."""

from __future__ import annotations

import os
import signal
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from engine.chart import gaps, read_chart
from engine.events import Step
from engine.journal import Reader
from engine.session import Session
from tests.e2e.terminal import Terminal

PROGRAM = [sys.executable, "-m", "engine"]
Start = Callable[..., Terminal]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the program in a terminal; ends what it has started."""
    terminals: list[Terminal] = []

    def run(*arguments: str, **options: int) -> Terminal:
        environment = {"HEADSURGEON_SESSIONS": str(tmp_path)}
        terminals.append(Terminal([*PROGRAM, *arguments], env=environment, **options))
        return terminals[-1]

    yield run
    for terminal in terminals:
        terminal.close()
    for folder in tmp_path.iterdir():
        holder = Session(folder).holder()
        if holder:
            os.kill(holder, signal.SIGKILL)


def only_session(root: Path) -> Session:
    (folder,) = root.iterdir()
    return Session(folder)


def wait_until(condition: Callable[[], bool], what: str, timeout: float = 60.0) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"{what} did not come within {timeout} s"
        time.sleep(0.05)


def plan(terminal: Terminal, steps: str, check_every: str) -> None:
    """From the diagnosis to a pass with so many steps, planned in the form."""
    terminal.send("enter")
    terminal.wait_for("0 of 48 heads")
    terminal.send("s")
    terminal.wait_for("targets / sick")
    terminal.send("e")
    terminal.wait_for("Plan of the pass")
    terminal.send("down", *["backspace"] * 4, steps)
    terminal.send(*["down"] * 6, *["backspace"] * 4, check_every, "enter")
    terminal.wait_for(f"{steps} steps")
    terminal.wait_for(f"every {check_every} steps")


def test_from_the_demo_patient_to_a_saved_record_by_keys_alone(start: Start, tmp_path: Path) -> None:
    terminal = start("--demo")
    terminal.wait_for("sick at", 60)
    assert "demo fp32 cpu 6×8" in terminal.text
    plan(terminal, "40", "20")
    terminal.send("enter")
    terminal.wait_for("operating", 60)
    terminal.send("n")
    terminal.wait_for("enter writes it")
    terminal.send("a note from the table", "enter")
    terminal.wait_for("the pass has ended", 120)
    shown = terminal.wait_for("step 40 of 40")
    assert "stopped" not in shown
    terminal.send("enter")
    shown = terminal.wait_for("before: stock")
    assert "hashes equal" in shown and "repaired" not in shown
    terminal.send("a")
    terminal.wait_for("pass 1 accepted")

    session = only_session(tmp_path)
    # the screen follows the journal, and the record is written after it
    wait_until(lambda: "\naccepted = true\n" in session.record.read_text("utf-8"), "the record of the acceptance")
    record = tomllib.loads(session.record.read_text("utf-8"))
    (done,) = record["pass"]
    assert (done["targets"], done["steps"], done["outcome"], done["accepted"]) == ("sick", 40, "completed", True)
    assert [check["step"] for check in done["check"]] == [20, 40]
    assert record["note"][0]["text"] == "a note from the table"
    before, after = (record["diagnosis"][stage]["counts"]["healthy"] for stage in ("stock", "pass-1"))
    assert f"healthy {before} → {after}" in terminal.text
    assert session.patch(1).exists()

    terminal.send("u", "y")
    terminal.wait_for("pass 1 undone")
    terminal.send("q")
    assert terminal.wait_until_left() == 0
    assert f"headsurgeon open {session.folder}" in terminal.text.replace("\n", "")
    wait_until(lambda: session.holder() is None, "the idle worker's leaving")


def test_the_pass_goes_on_without_the_screen_and_coming_back_shows_every_event(start: Start, tmp_path: Path) -> None:
    terminal = start("--demo")
    terminal.wait_for("sick at")
    plan(terminal, "300", "20")
    terminal.send("enter")
    terminal.wait_for("operating")
    session = only_session(tmp_path)
    wait_until(lambda: read_chart(session).passes[0].step >= 5, "step 5")
    worker = session.holder()

    terminal.hang_up()
    wait_until(lambda: os.waitpid(terminal.pid, os.WNOHANG)[0] != 0, "the screen's leaving")
    terminal.code = 0  # it has been waited for
    at = read_chart(session).passes[0].step
    wait_until(lambda: read_chart(session).passes[0].step > at, "the pass's going on")
    assert session.holder() == worker

    back = start("open", str(session.folder))
    back.wait_for("operating")
    back.send("q")
    assert back.wait_until_left() == 0
    left = back.text.replace("\n", "")
    assert "Pass 1 goes on at step" in left and f"headsurgeon open {session.folder}" in left
    assert session.holder() == worker

    again = start("open", str(session.folder))
    again.wait_for("operating")
    wait_until(lambda: len(read_chart(session).passes[0].checks) >= 2, "the second check")
    again.send("s")
    again.wait_for("keep the best")
    again.send("y")
    again.wait_for("the pass has ended")
    entries = list(Reader(session.journal).entries())
    assert gaps(entries) == []
    (done,) = read_chart(session).passes
    assert [entry.event.step for entry in entries if isinstance(entry.event, Step)] == list(range(1, done.step + 1))
    assert done.outcome == "stopped"
    assert f"step {done.step} of 300" in again.text
    assert f"{done.checks[-1].woken}/{len(done.targets)}" in again.text
    again.send("q")
    assert again.wait_until_left() == 0


def test_the_terminal_is_left_as_it_was_found_and_the_mouse_is_never_asked_for(start: Start) -> None:
    terminal = start()
    terminal.wait_for("no sessions yet")
    os.kill(terminal.pid, signal.SIGTERM)
    assert terminal.wait_until_left() == 0
    for on, off in ((b"\x1b[?1049h", b"\x1b[?1049l"), (b"\x1b[?25l", b"\x1b[?25h"), (b"\x1b[?2004h", b"\x1b[?2004l")):
        assert terminal.raw.rindex(off) > terminal.raw.rindex(on)
    assert b"\x1b[?1000h" not in terminal.raw and b"\x1b[?1003h" not in terminal.raw
