"""The line between the app and its terminal: dropped, resized, handed over by tmux, and given back as it was."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine.session import Session
from tests.e2e.terminal import Terminal
from tests.tui.story import write_session

PROGRAM = [sys.executable, "-m", "engine"]
BROKEN = """
import sys
from pathlib import Path
from tui.app import Headsurgeon
from tui.screens.base import StepScreen

def broken(self):
    raise RuntimeError("broken on purpose")

StepScreen.action_help = broken
app = Headsurgeon(Path(sys.argv[1]))
app.run(mouse=True)
sys.exit(app.return_code)
"""
"""The app with a step that cannot show its help."""


@pytest.fixture
def recorded(tmp_path: Path) -> Iterator[Session]:
    """A finished session, held, so that no worker is started for it."""
    session = write_session(tmp_path, until=40)
    with session.held():
        yield session


@pytest.fixture
def start() -> Iterator[Callable[..., Terminal]]:
    terminals: list[Terminal] = []

    def run(*command: str, **options: Any) -> Terminal:
        terminals.append(Terminal(list(command), **options))
        return terminals[-1]

    yield run
    for terminal in terminals:
        terminal.close()


def until(condition: Callable[[], bool], what: str, timeout: float = 60.0) -> None:
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, f"{what} did not come within {timeout} s"
        time.sleep(0.02)


def test_the_app_leaves_when_the_line_is_dropped(recorded: Session, start: Callable[..., Terminal]) -> None:
    terminal = start(*PROGRAM, "open", str(recorded.folder))
    terminal.wait_for("perplexity")
    terminal.hang_up()
    left: list[int] = []

    def gone() -> bool:
        pid, status = os.waitpid(terminal.pid, os.WNOHANG)
        left.extend([status] if pid else [])
        return bool(pid)

    until(gone, "the app's leaving")
    terminal.code = os.waitstatus_to_exitcode(left[0])
    assert terminal.code >= 0  # it left by itself; SIGHUP did not end it


@pytest.mark.parametrize("way", ["key", "signal", "crash"])
def test_however_it_ends_the_terminal_is_as_it_was_found(
    tmp_path: Path, start: Callable[..., Terminal], way: str
) -> None:
    command = [sys.executable, "-c", BROKEN, str(tmp_path)] if way == "crash" else PROGRAM
    terminal = start(*command, *([] if way == "crash" else ["--sessions", str(tmp_path)]))
    before = termios.tcgetattr(terminal.master)
    terminal.wait_for("no sessions yet")
    raw = termios.tcgetattr(terminal.master)
    assert not raw[3] & (termios.ECHO | termios.ICANON)
    if way == "signal":
        os.kill(terminal.pid, signal.SIGTERM)
    else:
        terminal.send("?" if way == "crash" else "q")
    assert terminal.wait_until_left() == (1 if way == "crash" else 0)
    now = termios.tcgetattr(terminal.master)
    assert now[3] & termios.ECHO and now[3] & termios.ICANON and now[:4] == before[:4]
    for on, off in (
        (b"\x1b[?1049h", b"\x1b[?1049l"),  # the other screen
        (b"\x1b[?25l", b"\x1b[?25h"),  # the cursor
        (b"\x1b[?2004h", b"\x1b[?2004l"),  # marks around what is pasted
        (b"\x1b[?1004h", b"\x1b[?1004l"),  # reports of focus
        (b"\x1b[?1000h", b"\x1b[?1000l"),  # the mouse
        (b"\x1b[?1003h", b"\x1b[?1003l"),
        (b"\x1b[?1006h", b"\x1b[?1006l"),
    ):
        assert terminal.raw.rfind(off) >= terminal.raw.rfind(on), off
    if way == "crash":
        assert b"broken on purpose" in terminal.raw[terminal.raw.rfind(b"\x1b[?1049l") :]  # to be read afterwards
        assert b"\x1b[?1003h" in terminal.raw  # this one had asked for the mouse


def test_a_storm_of_sizes_leaves_the_screen_whole(recorded: Session, start: Callable[..., Terminal]) -> None:
    terminal = start(*PROGRAM, "open", str(recorded.folder))
    terminal.wait_for("perplexity")
    terminal.read(0.5)
    calm = terminal.text
    rng = random.Random(3)
    keys = ["2", "?", "escape", "3", ":", "escape", "4", "5", "f", "escape"]
    for number in range(60):
        terminal.resize(rng.choice((2, 20, 79, 80, 81, 120, 200)), rng.choice((1, 5, 23, 24, 25, 60)))
        terminal.send(keys[number % len(keys)], pause=rng.choice((0.0, 0.0, 0.03)))
    terminal.resize(60, 20)
    terminal.wait_for("this terminal is 60×20")
    terminal.resize(80, 24)
    terminal.send("escape", "escape", pause=0.3)
    terminal.send("5")
    terminal.wait_for("before: stock")
    until(lambda: bool(terminal.read(0.2) is not None and terminal.text == calm), f"{calm}\n(now {terminal.text})", 20)


def test_where_only_ascii_can_be_shown_nothing_else_is_written(
    recorded: Session, start: Callable[..., Terminal], tmp_path: Path
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('glyphs = "ascii"\n', "utf-8")
    terminal = start(*PROGRAM, "open", str(recorded.folder), env={"HEADSURGEON_CONFIG": str(config)})
    terminal.wait_for("before: stock")
    for step, words in (("2", "95 %"), ("3", "of 384 heads"), ("5", "in-band frozen")):
        terminal.send(step)
        terminal.wait_for(words)
    terminal.send("q")
    assert terminal.wait_until_left() == 0
    left = re.sub(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])", b"", terminal.raw)
    assert len(left) > 2000
    assert {byte for byte in left if not 0x20 <= byte < 0x7F} <= set(b"\r\n")


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not on this machine")
def test_tmux_may_detach_and_attach_in_another_size(
    recorded: Session, start: Callable[..., Terminal], tmp_path: Path
) -> None:
    tmux = ["tmux", "-S", str(tmp_path / "socket"), "-f", "/dev/null"]
    app = " ".join([sys.executable, "-m", "engine", "open", str(recorded.folder)])
    first = start(*tmux, "new-session", "-s", "surgery", app, lines=25)  # one line is tmux's own
    try:
        first.wait_for("before: stock")
        first.send("3")
        first.wait_for("of 384 heads")
        first.send("s")
        first.wait_for("targets / sick")
        first.hang_up()  # as when the connection is lost; the server and the app stay
        pane = subprocess.run([*tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True).stdout
        assert "targets / sick" in pane
        second = start(*tmux, "attach", columns=120, lines=40)
        second.wait_for("targets / sick")
        until(lambda: bool(second.read(0.2) is not None and " L23 " in second.text), "one layer to a row")
        second.send("right", "down")
        second.wait_for("L1-H1")
        second.send("\x02d")  # detach by tmux's own key
        assert second.wait_until_left() == 0
        third = start(*tmux, "attach", lines=25)
        third.wait_for("L1-H1")
        third.send("q")
        third.wait_until_left()
    finally:
        subprocess.run([*tmux, "kill-server"], capture_output=True, check=False)
