"""What a report on several sessions is written from."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from engine.arms import Arm, arms_of
from engine.figures import Run
from engine.printable import printable
from engine.report.material import Material, gather
from engine.session import Session


@dataclass(frozen=True)
class TrialMaterial:
    title: str
    questions: list[str]
    """Of the protocols that the sessions are of."""
    materials: list[Material]
    """By session."""
    arms: list[Arm]

    @property
    def done(self) -> list[Arm]:
        """Those with a pass."""
        return [arm for arm in self.arms if arm.number is not None]

    @property
    def numbers(self) -> list[int]:
        """Of the passes."""
        return sorted({arm.number for arm in self.done if arm.number is not None})

    @property
    def seeded(self) -> bool:
        """Whether any arm has more than one seed."""
        return any(len(arm.runs) > 1 for arm in self.arms)

    def of(self, run: Run) -> Material:
        """A run's own material."""
        return next(m for m in self.materials if m.record is run.record)

    def first(self, arm: Arm) -> tuple[Run, Material]:
        """The run whose pictures stand for an arm: the first that has come to the pass."""
        run = next((run for run in arm.runs if run.pass_), arm.runs[0])
        return run, self.of(run)

    def file(self, arm: Arm, what: str) -> str:
        """Name of an arm's picture; its number keeps apart what letters do not."""
        slug = re.sub(r"[^a-z0-9]+", "-", arm.label.lower()).strip("-")[:40]
        return f"{self.arms.index(arm) + 1}-{slug or 'arm'}-{what}.svg"


def gather_all(sessions: Sequence[Session], questions: Sequence[str] = ()) -> TrialMaterial:
    """Read the records and journals of several sessions.

    Raises:
        InputError: a record is missing, or cannot be read.
    """
    materials = [gather(session) for session in sessions]
    protocols = list(dict.fromkeys(m.record.session.protocol for m in materials))
    title = "; ".join(filter(None, protocols)) or "Sessions side by side"
    arms = [
        replace(arm, name=printable(arm.name), label=printable(arm.label))
        for arm in arms_of([m.record for m in materials])
    ]
    return TrialMaterial(printable(title), [printable(q) for q in questions if q], materials, arms)
