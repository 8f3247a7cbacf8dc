"""A session told again from its journal, at a chosen pace. Nothing of it can be changed."""

from __future__ import annotations

import time
from collections import deque
from datetime import datetime
from typing import Any

from engine import events
from engine.journal import Entry
from engine.session import Session
from tui.live import Live

PACES = (1.0, 4.0, 16.0, 64.0, 256.0)
"""How many times faster than it was."""
LONGEST = 5.0
"""Seconds that a silence of the journal lasts at most, before it is made shorter by the pace."""
MINOR = (events.Step, events.Progress, events.Saved)
"""Told on the way to the next milestone."""


class Replay(Live):
    """Gives out the entries that the journal holds now, each when its time has come."""

    replaying = True

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.coming = deque(self.reader.entries())
        self.total = len(self.coming)
        self.pace_index = 1
        self.halted = False
        self.last_look = time.monotonic()
        self.clock = 0.0
        """Seconds of the journal's own time that have passed since the last entry."""
        self.former_time = ""
        self.skipped: list[Entry] = []

    def poll(self) -> list[Entry]:
        """What has come due since the last look."""
        now = time.monotonic()
        if not self.halted:
            self.clock += (now - self.last_look) * PACES[self.pace_index]
        self.last_look = now
        due, self.skipped = self.skipped, []
        while self.coming and not self.halted:
            wait = gap(self.former_time, self.coming[0].time)
            if self.clock < wait:
                break
            self.clock -= wait
            due.append(self._next())
        if not self.coming:
            self.clock = 0.0
        return due

    def _next(self) -> Entry:
        entry = self.coming.popleft()
        self.former_time = entry.time
        self.take(entry)
        return entry

    def skip(self) -> None:
        """On to the next milestone at once; ``poll`` gives out what lay between."""
        while self.coming:
            entry = self._next()
            self.skipped.append(entry)
            if not isinstance(entry.event, MINOR):
                break
        self.clock = 0.0

    def turn(self, step: int) -> None:
        """Faster (1), slower (-1), or halt and go on (0)."""
        if step:
            self.pace_index = max(0, min(len(PACES) - 1, self.pace_index + step))
        else:
            self.halted = not self.halted

    @property
    def words(self) -> str:
        """Where the replay is."""
        done = self.total - len(self.coming)
        if not self.coming:
            return f"replay: at its end, {self.total} events"
        state = "halted" if self.halted else f"{PACES[self.pace_index]:.0f} times as fast"
        return f"replay {done}/{self.total}, {state} — , halts  . next  < > pace"

    # no worker belongs to a replay

    def look_for_worker(self) -> bool:
        return False

    def start_worker(self) -> None:
        """A replay changes nothing."""

    def ask(self, command: str, **values: Any) -> None:
        """Nobody is there to ask."""

    def farewell(self) -> str:
        return f"The session is in {self.session.folder}"

    @property
    def listening(self) -> bool:
        return False

    @property
    def gone(self) -> bool:
        return False


def gap(before: str, after: str) -> float:
    """Seconds between two times of the journal, at most ``LONGEST``."""
    if not before or not after:
        return 0.0
    seconds = (datetime.fromisoformat(after) - datetime.fromisoformat(before)).total_seconds()
    return max(0.0, min(LONGEST, seconds))
