import inspect

import pytest

from tui.commands import COMMANDS, SHOWN, STEPS, bindings_of, commands_of, key_line
from tui.screens.base import StepScreen
from tui.screens.diagnose import DiagnoseScreen
from tui.screens.load import LoadScreen
from tui.screens.operate import OperateScreen
from tui.screens.record import RecordScreen
from tui.screens.target import TargetScreen

SCREENS: dict[str, type[StepScreen]] = {
    s.step: s for s in (LoadScreen, DiagnoseScreen, TargetScreen, OperateScreen, RecordScreen)
}


@pytest.mark.parametrize("step", STEPS)
def test_every_command_of_a_screen_has_an_action(step: str) -> None:
    for command in commands_of(step):
        name = command.id.partition("(")[0]
        assert inspect.isfunction(getattr(SCREENS[step], f"action_{name}", None)), f"{step}: {command.id}"


@pytest.mark.parametrize("step", STEPS)
def test_no_key_means_two_things_on_one_screen(step: str) -> None:
    keys = [key for command in commands_of(step) for key in command.keys.split(",")]
    assert len(keys) == len(set(keys))
    ids = [binding.id for binding in bindings_of(step)]
    assert all(ids)


@pytest.mark.parametrize("step", STEPS)
def test_the_key_line_fits_80_columns_and_always_tells_how_to_get_help_and_leave(step: str) -> None:
    shown = key_line(step)
    assert len(shown) <= SHOWN
    assert [command.id for command in shown[-2:]] == ["help", "leave"]
    assert len(" " + "  ".join(f"{c.first} {c.label}" for c in shown)) <= 80


def test_no_key_clashes_with_terminals_and_multiplexers() -> None:
    keys = {key for command in COMMANDS for key in command.keys.split(",")}
    assert not keys & {"ctrl+j", "ctrl+o", "ctrl+s", "ctrl+enter", "ctrl+b", "ctrl+a"}
