"""The five steps and the windows that open over them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tui.commands import COMPARISON, DIAGNOSE, LOAD, OPERATE, PLANS, TARGET, TRIAL

if TYPE_CHECKING:
    from tui.screens.base import StepScreen


def screen_of(step: str) -> StepScreen:
    """A fresh screen; each is imported when it is first shown."""
    if step == LOAD:
        from tui.screens.load import LoadScreen

        return LoadScreen()
    if step == DIAGNOSE:
        from tui.screens.diagnose import DiagnoseScreen

        return DiagnoseScreen()
    if step == TARGET:
        from tui.screens.target import TargetScreen

        return TargetScreen()
    if step == OPERATE:
        from tui.screens.operate import OperateScreen

        return OperateScreen()
    if step == PLANS:
        from tui.screens.plans import PlansScreen

        return PlansScreen()
    if step == TRIAL:
        from tui.screens.trial import TrialScreen

        return TrialScreen()
    if step == COMPARISON:
        from tui.screens.comparison import ComparisonScreen

        return ComparisonScreen()
    from tui.screens.record import RecordScreen

    return RecordScreen()
