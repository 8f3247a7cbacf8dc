"""What goes over the line: bytes, counted in a real terminal of 80×24 on a 24×16 patient."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from engine import events
from engine.journal import Writer
from engine.session import Session
from tests.e2e.terminal import Terminal
from tests.tui import story

KEY, LIVE = 300, 4096
"""Bytes per cursor key; bytes per second while a pass runs."""
PACE = 0.2
"""Seconds between two steps of the pass that the test plays."""


def opened(session: Session) -> Terminal:
    return Terminal([sys.executable, "-m", "engine", "open", str(session.folder)])


@pytest.fixture
def finished(tmp_path: Path) -> Iterator[Terminal]:
    terminal = opened(story.write_session(tmp_path, until=40))
    terminal.wait_for("perplexity")
    yield terminal
    terminal.close()


@pytest.mark.parametrize("step", ["2", "3", "5"])
def test_a_cursor_key_costs_little_anywhere_on_the_grid(finished: Terminal, step: str) -> None:
    finished.send(step, pause=1.0)
    costs = {}
    for key in ["right"] * 15 + ["down"] * 23 + ["left"] * 4 + ["up"] * 4:
        before = len(finished.raw)
        finished.send(key, pause=0.15)
        costs[key] = max(costs.get(key, 0), len(finished.raw) - before)
    assert all(0 < cost <= KEY for cost in costs.values()), costs


def test_a_screen_that_nothing_happens_on_sends_nothing(finished: Terminal) -> None:
    finished.read(1.5)
    assert finished.read(4.0) == 0


def test_a_running_pass_stays_within_a_slow_line(tmp_path: Path) -> None:
    session = story.write_session(tmp_path, until=0, ended=False)
    writer = Writer(session.journal)
    with session.held():  # this test is the worker
        terminal = opened(session)
        terminal.wait_for("step 0 of 40")
        terminal.read(1.0)
        before = len(terminal.raw)
        for step in range(1, 41):
            for event in list(story.operation(step))[-1 if step % 10 else -3 :]:
                writer.append(replace(event, columns=[0.01] * 16) if isinstance(event, events.Check) else event)
            terminal.read(PACE)
        terminal.wait_for("step 40 of 40")
        rate = (len(terminal.raw) - before) / (40 * PACE)
        terminal.close()
    writer.close()
    assert 50 < rate <= LIVE
