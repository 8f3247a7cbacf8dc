"""What the screens share that step 1 opens into besides a session."""

from __future__ import annotations

from tui.commands import LOAD
from tui.figures import QUIET, Line, line
from tui.palette import plain
from tui.screens.base import StepScreen


class BesideScreen(StepScreen):
    """Needs no open session; what is wrong with one is told elsewhere."""

    def message(self) -> Line:
        text, style = self.surgeon.notice
        if not text:
            text, style = self.status(), QUIET
        return line((f" {plain(text, 400)}", style))

    def status(self) -> str:
        return ""

    def action_back(self) -> None:
        self.surgeon.go(LOAD)
