import inspect
import re

import pytest

from tui.commands import COMMANDS, GRIDS, SCREENS, SHOWN, bindings_of, commands_of, key_line, key_name, key_of, remapped
from tui.help import page
from tui.screens.base import StepScreen
from tui.screens.comparison import ComparisonScreen
from tui.screens.diagnose import DiagnoseScreen
from tui.screens.load import LoadScreen
from tui.screens.operate import OperateScreen
from tui.screens.plans import PlansScreen
from tui.screens.record import RecordScreen
from tui.screens.target import TargetScreen
from tui.screens.trial import TrialScreen

CLASSES: dict[str, type[StepScreen]] = {
    s.step: s
    for s in (
        LoadScreen,
        DiagnoseScreen,
        TargetScreen,
        OperateScreen,
        RecordScreen,
        PlansScreen,
        TrialScreen,
        ComparisonScreen,
    )
}


@pytest.mark.parametrize("step", SCREENS)
def test_every_command_of_a_screen_has_an_action(step: str) -> None:
    for command in commands_of(step):
        name = command.id.partition("(")[0]
        assert inspect.isfunction(getattr(CLASSES[step], f"action_{name}", None)), f"{step}: {command.id}"


@pytest.mark.parametrize("step", SCREENS)
def test_no_key_means_two_things_on_one_screen(step: str) -> None:
    keys = [key for command in commands_of(step) for key in command.all_keys]
    assert len(keys) == len(set(keys))
    ids = [binding.id for binding in bindings_of(step)]
    assert all(ids)
    names = [command.name for command in commands_of(step)]
    assert len(names) == len(set(names)) and all(re.fullmatch(r"[a-z0-9_-]+", name) for name in names)


@pytest.mark.parametrize("step", SCREENS)
def test_the_key_line_fits_80_columns_and_always_tells_how_to_get_help_and_leave(step: str) -> None:
    shown = key_line(step)
    assert len(shown) <= SHOWN
    assert [command.id for command in shown[-2:]] == ["help", "leave"]
    assert len(" " + "  ".join(f"{c.first} {c.label}" for c in shown)) <= 80


def test_no_key_clashes_with_terminals_and_multiplexers() -> None:
    keys = {key for command in COMMANDS for key in command.all_keys}
    assert not keys & {"ctrl+j", "ctrl+o", "ctrl+s", "ctrl+enter", "ctrl+b", "ctrl+a"}


@pytest.mark.parametrize(
    ("key", "written"),
    [("question_mark", "?"), ("slash", "/"), ("ctrl+p", "^p"), ("escape", "esc"), ("left", "←"), ("alt+x", "alt+x")],
)
def test_keys_are_written_as_people_write_them(key: str, written: str) -> None:
    assert key_name(key) == written


def test_a_command_of_several_screens_may_have_another_key_on_one() -> None:
    table = remapped({("record", "files"): "F"})
    assert key_of("files", table, "record") == "F" and key_of("files", table, "operate") == "f"
    assert [c.name for c in commands_of("record", table)] == [c.name for c in commands_of("record")]


@pytest.mark.parametrize("step", SCREENS)
def test_the_help_page_names_every_key_as_it_is_now(step: str) -> None:
    names = sorted({command.name for command in commands_of(step) if command.keys})
    keys = {(step, name): chr(0x4E00 + number) for number, name in enumerate(names)}  # one sign that no word has
    _, text = page(step, commands_of(step, remapped(keys)))
    found = {names[ord(sign) - 0x4E00] for sign in text if "\u4e00" <= sign < "\u9fff"}
    told = {
        "load": {"choose", "replay", "new", "rename", "plans", "mark", "comparison"},
        "diagnose": {"view", "view_back", "distribution", "attention", "contributions", "generate", "texts"},
        "target": {"view", "view_back", "distribution", "attention", "contributions", "expression", "plan_file"},
        "operate": {"view", "smaller", "worker", "history"},
        "record": {"view", "view_back", "attention", "contributions", "generate", "texts", "difference"},
        "plans": {"begin", "patient", "own_plan"},
        "trial": {"choose", "stop_trial", "worker", "comparison"},
        "comparison": {"left", "right", "write_table"},
    }[step]
    replay = {"replay_pause", "replay_next", "replay_faster", "replay_slower"} if step in GRIDS else set()
    assert found >= told | replay
    assert "{" not in text


def test_a_command_without_a_key_is_named_by_its_word_on_the_help_page() -> None:
    _, text = page("load", commands_of("load", remapped({("load", "replay"): ""})))
    assert "“replay” tells it again" in text
