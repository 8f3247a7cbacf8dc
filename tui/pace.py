"""How fast a pass goes, taken from the journal's clock so that checks and saving count too."""

from __future__ import annotations

from collections import deque
from datetime import datetime

from engine import events
from engine.journal import Entry

WINDOW = 240
"""Steps looked back on: long enough to span several checks, so that the time left settles."""


class Pace:
    """Speed over the last steps of the running pass."""

    def __init__(self) -> None:
        self.marks: deque[tuple[float, int, int]] = deque(maxlen=WINDOW)  # (seconds, step, tokens)

    def add(self, entry: Entry) -> None:
        """Take one entry in; whatever halts a pass begins the measurement anew."""
        match entry.event:
            case events.Step() as step:
                self.marks.append((datetime.fromisoformat(entry.time).timestamp(), step.step, step.tokens))
            case events.Cut() | events.Paused() | events.Continued() | events.Resumed() | events.PassEnded():
                self.marks.clear()

    def _span(self) -> tuple[float, int, int]:
        if len(self.marks) < 2:
            return 0.0, 0, 0
        first, last = self.marks[0], self.marks[-1]
        return last[0] - first[0], last[1] - first[1], last[2] - first[2]

    @property
    def tokens_per_second(self) -> float | None:
        """None as long as too little is known."""
        seconds, _, tokens = self._span()
        return tokens / seconds if seconds > 0 and tokens > 0 else None

    def seconds_left(self, steps: int) -> float | None:
        """Time until step ``steps``; None as long as too little is known."""
        seconds, done, _ = self._span()
        if seconds <= 0 or done < 3:
            return None
        return max(0, steps - self.marks[-1][1]) * seconds / done


def duration(seconds: float) -> str:
    """``45 s``, ``3 min 20 s``, ``2 h 05 min``; rounded so that it does not flicker."""
    if seconds < 100:
        return f"{5 * round(seconds / 5)} s"
    if seconds < 3600:
        tens = round(seconds / 10)
        return f"{tens // 6} min {10 * (tens % 6):02d} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min"
