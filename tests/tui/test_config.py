from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from engine.errors import InputError
from tests.tui import story
from tests.tui.conftest import Idle, settled, until
from tui.app import Headsurgeon
from tui.commands import SCREENS, commands_of
from tui.config import Settings, config_path, read_settings, settings_of, shown


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.toml"
    monkeypatch.setenv("HEADSURGEON_CONFIG", str(path))
    return path


def test_without_a_file_everything_has_its_default(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADSURGEON_CONFIG", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    assert config_path() == tmp_path / "headsurgeon" / "config.toml"
    assert read_settings() == Settings()


def test_a_file_that_was_named_must_be_there(file: Path) -> None:
    with pytest.raises(InputError, match=r"no such file: .*named by HEADSURGEON_CONFIG"):
        read_settings()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("theme = ", "config.toml: Invalid value"),
        ('theme = "pink"', "theme is 'pink'; it can be dark, light, high-contrast, colour-blind"),
        ("theme = 3", "theme is 3; it can be dark"),
        ('glyphs = "emoji"', "glyphs is 'emoji'; it can be auto, braille, block, ascii"),
        ("mouse = 1", "mouse is 1; it can be true or false"),
        ("mous = true", "there is no setting 'mous' (did you mean mouse?); there are theme, glyphs, mouse, keys"),
        ("keys = 3", "keys must be a table"),
        ('[keys]\ntak = "t"', "there is no command 'tak' (did you mean take?); `headsurgeon config show`"),
        ('[keys]\nload.take = "t"', "there is no command 'take' on the screen load"),
        ('[keys]\n"use_theme-dark" = "t"', "there is no command 'use_theme-dark'"),
        ('[keys]\ntake = "spacce"', "keys.take: 'spacce' is no key"),
        ('[keys]\ntake = ["z", 4]', "keys.take: 4 is no key"),
        ('[keys]\ntake = "hyperctrl+z"', "keys.take: 'hyperctrl+z' is no key"),
        ("[keys]\ntake = []", "keys.take names no key"),
        ('[keys]\ntake = "s"', "the key s would mean both take and sick on the screen target"),
        ('[keys]\nhelp = "slash"', "the key / would mean both expression and help on the screen target"),
    ],
)
def test_what_is_not_understood_is_said_in_one_sentence(file: Path, text: str, sentence: str) -> None:
    file.write_text(text)
    with pytest.raises(InputError, match=re.escape(sentence)) as raised:
        read_settings()
    assert str(raised.value).startswith(str(file)) and "\n" not in str(raised.value)


def test_a_file_that_is_no_text_or_no_file(file: Path) -> None:
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="is not UTF-8"):
        read_settings()
    file.unlink()
    file.mkdir()
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_settings()


def test_keys_for_all_screens_and_for_one(file: Path) -> None:
    file.write_text('theme = "light"\nmouse = true\n[keys]\nfiles = ["F", "f5"]\nrecord.files = ";"\n')
    settings = read_settings()
    assert (settings.theme, settings.mouse) == ("light", True)
    keys = {screen: c.keys for screen in SCREENS for c in commands_of(screen, settings.table) if c.name == "files"}
    assert keys == dict.fromkeys(("diagnose", "target", "operate"), "F,f5") | {"record": ";"}


def test_a_comma_is_a_key_too() -> None:
    assert settings_of({"keys": {"trial": {"worker": [",", " "]}}}).keymap == {"trial.worker": "comma,space"}


def test_two_commands_may_swap_their_keys() -> None:
    settings = settings_of({"keys": {"target": {"take": "s", "sick": "space"}}})
    assert settings.keymap == {"target.take": "s", "target.sick": "space"}


def test_what_is_shown_can_be_read_again(file: Path) -> None:
    file.write_text('theme = "colour-blind"\nglyphs = "ascii"\n[keys]\nhelp = ["#", "f1"]\ntarget.take = ";"\n')
    settings = read_settings()
    text = shown(settings)
    again = settings_of(tomllib.loads(text))
    assert (again.theme, again.glyphs, again.mouse) == ("colour-blind", "ascii", False)
    for screen in SCREENS:
        before, after = ([(c.name, c.display) for c in commands_of(screen, s.table)] for s in (settings, again))
        assert before == after
    assert 'take = ";"' in text and 'help = ["#", "f1"]' in text


async def test_the_app_obeys_and_shows_the_operators_keys(told: Any, workers: list[Idle]) -> None:
    session = told()
    keys = {"target": {"take": "s", "sick": ["z", "f5"]}, "help": "H", "leave": "Q", "palette": "K", "worker": "W"}
    settings = settings_of({"theme": "light", "keys": keys})
    app = Headsurgeon(session.folder.parent, session.folder, settings=settings)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, "sick at")
        assert app.theme == "light"
        await pilot.press("3")
        assert "s toggle  z sick" in await until(pilot, "H help  Q leave")
        await pilot.press("s", "q", "question_mark")
        assert "1 of 384 heads" in await settled(pilot)
        await pilot.press("z")
        assert "106 of 384" in await settled(pilot)
        await pilot.press("H")
        await until(pilot, "× is a target")
        await pilot.press("pagedown")  # the keys stand under the words
        shown_help = await until(pilot, "z f5      Choose all sick heads")
        assert "s         Take this head in or out" in shown_help
        await pilot.press("escape", "K", *"leave")
        assert "Q        Leave; a running pass goes on" in await settled(pilot)
        await pilot.press("escape", "slash", *"Hs")  # keys are letters again where text is typed
        assert "Hs" in await settled(pilot)


async def test_a_sentence_names_the_key_that_the_operator_has(told: Any, workers: list[Idle]) -> None:
    session = told(until=25, ended=False)
    app = Headsurgeon(session.folder.parent, session.folder, settings=settings_of({"keys": {"worker": "W"}}))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, "drift")
        workers[0].left = True
        await until(pilot, "worker gone — W starts it again")
        await pilot.press("r", "W")
        await settled(pilot)
        assert len(workers) == 2


async def test_ctrl_p_opens_the_palette_also_from_a_line_being_typed(told: Any, workers: list[Idle]) -> None:
    async with Headsurgeon(told().folder.parent, None).run_test(size=(80, 24)) as pilot:
        await until(pilot, story.LOADED.source)
        await pilot.press("n", *"dem", "ctrl+p")
        await until(pilot, "part of a command's name")


async def test_themes_go_round_and_each_can_be_chosen_by_name(told: Any, workers: list[Idle]) -> None:
    session = told()
    app = Headsurgeon(session.folder.parent, session.folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, "sick at")
        names = []
        for _ in range(4):
            await pilot.press("T")
            names.append(app.theme)
        assert names == ["light", "high-contrast", "colour-blind", "dark"]
        await pilot.press("colon", *"use the colour-blind", "enter")
        await until(pilot, "theme: colour-blind")
        assert app.theme == "colour-blind"
