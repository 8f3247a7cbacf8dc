"""The app on a real terminal, measured beside its targets: ``python -m benchmarks.tui``.

The sessions are synthetic (tests/tui/story.py and tests/tui/large.py); no worker runs, its events are played
into the journal. All times are this machine's, with whatever else runs on it; each is also of the terminal's
reader, this process. Two to three minutes.
"""

from __future__ import annotations

import contextlib
import os
import select
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from engine import events
from engine.journal import Writer
from engine.session import Session
from tests.e2e.terminal import KEYS, Terminal
from tests.tui import large, story

PROGRAM = [sys.executable, "-m", "engine"]
SMALL, LARGE = (80, 24), (240, 75)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        print(f"{'':<52}{'measured':>22}   target")
        row("--help", seconds(help_times()), "≤ 0.2 s")
        first, usable = start_times(root / "empty")
        row("start: first byte", seconds(first), "≤ 0.5 s")
        row("start: usable screen (list of sessions)", seconds(usable), "≤ 1.0 s")
        small = story.write_session(root / "small", until=40)
        big = large.write_session(root / "large", 60)
        first, usable = open_times(small, SMALL, "perplexity")
        row("start: 24×16 session usable", seconds(usable), "≤ 1.0 s")
        first, usable = open_times(big, LARGE, "step 60 of")
        row("start: 70×112 session of 60 steps usable", seconds(usable), "≤ 1.0 s")
        for session, size, shape in ((small, SMALL, "24×16 at 80×24"), (big, LARGE, "70×112 at 240×75")):
            for step, name in (("2", "Diagnose"), ("3", "Target"), ("5", "Record")):
                if step == "5" and session is big:
                    continue  # its pass has not ended
                middle, worst = cursor_bytes(session, size, step)
                row(f"bytes per cursor key, {name}, {shape}", f"{middle:.0f}, worst {worst:.0f}", "≤ 300")
        quiet, busy = idle(small)
        row("idle: bytes/s, CPU", f"{quiet:.0f}, {busy:.2f} %", "0, < 1 %")
        rate, _, memory = live(root / "a", SMALL, False)
        row("a pass running, 24×16 at 80×24: KB/s", f"{rate / 1000:.2f}", "≤ 4")
        row("UI memory then", f"{memory / 1e6:.0f} MB", "≤ 60 MB")
        rate, keys, memory = live(root / "b", LARGE, True)
        row("a pass running, 70×112 at 240×75: KB/s", f"{rate / 1000:.2f}", "≤ 12")
        row("key to first byte then: median", f"{1000 * statistics.median(keys):.1f} ms", "≤ 10 ms")
        row("key to first byte then: p99", f"{1000 * quantile(keys, 0.99):.1f} ms of {len(keys)} keys", "≤ 50 ms")
        row("UI memory then", f"{memory / 1e6:.0f} MB", "≤ 60 MB")
        gone, back = hang_up(root / "c")
        row("hang-up: UI gone after", f"{gone:.2f} s", "≤ 1 s")
        row("back after the hang-up, with every event", f"{back:.2f} s", "≤ 2 s")


def row(what: str, measured: str, target: str) -> None:
    print(f"{what:<52}{measured:>22}   {target}", flush=True)


def seconds(times: list[float]) -> str:
    return f"{statistics.median(times):.2f} s ({min(times):.2f}–{max(times):.2f})"


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def help_times() -> list[float]:
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        subprocess.run([*PROGRAM, "--help"], check=True, capture_output=True)
        times.append(time.perf_counter() - begun)
    return times


@contextmanager
def terminal(*arguments: str, size: tuple[int, int] = SMALL, **environment: str) -> Iterator[Terminal]:
    """The program in a terminal; it is ended at the end."""
    opened = Terminal([*PROGRAM, *arguments], columns=size[0], lines=size[1], env=environment)
    try:
        yield opened
    finally:
        opened.close()


def start_times(root: Path) -> tuple[list[float], list[float]]:
    return _times(lambda: terminal(HEADSURGEON_SESSIONS=str(root)), "no sessions yet")


def open_times(session: Session, size: tuple[int, int], words: str) -> tuple[list[float], list[float]]:
    with session.held():
        return _times(lambda: terminal("open", str(session.folder), size=size), words)


def _times(
    start: Callable[[], contextlib.AbstractContextManager[Terminal]], words: str
) -> tuple[list[float], list[float]]:
    """Seconds from the start to the first byte, and until the screen shows ``words``."""
    first, usable = [], []
    for _ in range(5):
        begun = time.perf_counter()
        with start() as opened:
            select.select([opened.master], [], [], 60)
            first.append(time.perf_counter() - begun)
            while words not in opened.text:
                opened.read(0.005)
                if time.perf_counter() - begun > 60:
                    raise SystemExit(f"{words!r} did not come; the screen shows:\n{opened.text}")
            usable.append(time.perf_counter() - begun)
    return first, usable


def cursor_bytes(session: Session, size: tuple[int, int], step: str) -> tuple[float, float]:
    """Median and worst over a walk along the edges of the grid and into it."""
    costs = []
    with session.held(), terminal("open", str(session.folder), size=size) as opened:
        opened.wait_for("q leave")
        settle(opened)
        opened.send(step)
        settle(opened, 1.5)
        for key in [*["right"] * 17, *["down"] * 25, *["left"] * 6, *["up"] * 6]:
            before = len(opened.raw)
            os.write(opened.master, KEYS[key].encode())
            select.select([opened.master], [], [], 0.5)
            settle(opened, 0.06)
            costs.append(len(opened.raw) - before)
    moved = [cost for cost in costs if cost]
    return statistics.median(moved), max(moved)


def settle(opened: Terminal, quiet: float = 0.7) -> None:
    """Read until nothing has come for so long."""
    while select.select([opened.master], [], [], quiet)[0]:
        opened.read(0.001)


def idle(session: Session) -> tuple[float, float]:
    """Bytes per second and CPU in percent where nothing happens."""
    with terminal("open", str(session.folder)) as opened:
        opened.wait_for("perplexity")
        settle(opened, 2.0)
        process = psutil.Process(opened.pid)
        before, begun = process.cpu_times(), time.perf_counter()
        got = 0
        while time.perf_counter() - begun < 10:
            got += opened.read(0.5)
        after, lasted = process.cpu_times(), time.perf_counter() - begun
        busy = after.user + after.system - before.user - before.system
        return got / lasted, 100 * busy / lasted


class Player(threading.Thread):
    """Plays a worker: two steps a second and their checks, into the journal."""

    def __init__(self, session: Session, told: Iterator[list[events.Event]]) -> None:
        super().__init__(daemon=True)
        self.session, self.told, self.over = session, told, threading.Event()

    def run(self) -> None:
        writer = Writer(self.session.journal)
        for step in self.told:
            for event in step:
                writer.append(event)
            if self.over.wait(0.5):
                break
        writer.close()


def small_steps() -> Iterator[list[events.Event]]:
    known = list(story.operation(0))
    for number in range(1, story.STEPS + 1):
        told = list(story.operation(number))
        yield told[len(known) :]
        known = told


def live(root: Path, size: tuple[int, int], big: bool) -> tuple[float, list[float], int]:
    """Bytes per second of a running pass, seconds from keys to their first bytes, memory of the app."""
    if big:
        session, words = large.write_session(root, 60), "step 60 of"
        told = (list(large.step(number)) for number in range(61, large.STEPS + 1))
    else:
        session, words, told = story.write_session(root, until=0, ended=False), "step 0 of", small_steps()
    keys: list[float] = []
    with session.held(), terminal("open", str(session.folder), size=size) as opened:
        opened.wait_for(words)
        settle(opened)
        player = Player(session, told)
        player.start()
        begun, before = time.perf_counter(), len(opened.raw)
        while time.perf_counter() - begun < 20:
            opened.read(0.2)
        rate = (len(opened.raw) - before) / (time.perf_counter() - begun)
        if big:
            keys = key_times(opened)
        memory = psutil.Process(opened.pid).memory_info().rss
        player.over.set()
        player.join()
    return rate, keys, memory


def key_times(opened: Terminal) -> list[float]:
    """Seconds from a cursor key to the first byte of what it draws, while events come."""
    found = []
    for number in range(200):
        opened.read(0.03)
        while select.select([opened.master], [], [], 0.02)[0]:  # what the pass draws is not the key's
            opened.read(0.001)
        begun = time.perf_counter()
        os.write(opened.master, KEYS["right" if number % 20 < 10 else "left"].encode())
        if select.select([opened.master], [], [], 5)[0]:
            found.append(time.perf_counter() - begun)
    return found


def hang_up(root: Path) -> tuple[float, float]:
    """Seconds from a lost line until the app has left, and from coming back until it shows what happened."""
    session = story.write_session(root, until=10, ended=False)
    with session.held():
        opened = Terminal([*PROGRAM, "open", str(session.folder)])
        opened.wait_for("step 10 of")
        begun = time.perf_counter()
        opened.hang_up()
        while os.waitpid(opened.pid, os.WNOHANG)[0] == 0:
            time.sleep(0.005)
        gone = time.perf_counter() - begun
        story.append(session, iter(list(story.operation(30))[len(list(story.operation(10))) :]))
        _, usable = _times(lambda: terminal("open", str(session.folder)), "step 30 of")
    return gone, statistics.median(usable)


if __name__ == "__main__":
    main()
