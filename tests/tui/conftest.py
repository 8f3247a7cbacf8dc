"""The app over a told session, without any worker."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from engine.session import Session
from tests.tui.story import write_session
from tui.app import Headsurgeon


class Idle:
    """Stands for a worker process: alive until ``left``."""

    def __init__(self) -> None:
        self.left = False

    def wait(self, timeout: float) -> int:
        self.left = True
        return 0

    def poll(self) -> int | None:
        return 0 if self.left else None


@pytest.fixture
def workers(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Idle]]:
    """Workers that the app has started; none of them is a process."""
    started: list[Idle] = []

    def start(session: Session) -> Idle:
        started.append(Idle())
        return started[-1]

    monkeypatch.setattr(Session, "start_worker", start)
    yield started


@pytest.fixture
def told(tmp_path: Path) -> Any:
    """Writes a session: ``told(until=…, ended=…)``."""

    def write(**options: Any) -> Session:
        return write_session(tmp_path, **options)

    return write


def opened(session: Session, size: tuple[int, int] = (80, 24)) -> AbstractAsyncContextManager[Pilot[str]]:
    """The app on a session, at a size."""
    return Headsurgeon(session.folder.parent, session.folder).run_test(size=size)


def text(pilot: Pilot[str]) -> str:
    """What the screen shows."""
    return "\n".join(strip.text for strip in pilot.app.screen._compositor.render_strips())


async def settled(pilot: Pilot[str]) -> str:
    """What the screen shows once everything asked for is drawn."""
    for _ in range(3):
        await pilot.pause()
    return text(pilot)


async def until(pilot: Pilot[str], wanted: str) -> str:
    """Wait until the screen shows ``wanted``."""
    for _ in range(100):
        if wanted in text(pilot):
            return text(pilot)
        await pilot.pause(0.05)
    raise AssertionError(f"{wanted!r} did not come; the screen shows:\n{text(pilot)}")
