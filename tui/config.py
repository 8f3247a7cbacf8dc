"""The operator's settings: one TOML file under the user's configuration folder."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from textual.keys import Keys, format_key

from engine.errors import InputError
from tui.commands import COMMANDS, SCREENS, Table, commands_of, key_name, remapped
from tui.palette import GLYPHS
from tui.themes import THEMES

MODIFIERS = {"ctrl", "shift", "alt", "super", "hyper", "meta"}
KeyMap = Mapping[tuple[str, str], str]
"""(screen, command's name) -> Textual's names of its keys, separated by commas."""


@dataclass(frozen=True)
class Settings:
    """What the file may say; everything has a default."""

    theme: str = "dark"
    glyphs: str = "auto"
    """``auto`` looks at the terminal: braille where it can be shown, else blocks, else ASCII."""
    mouse: bool = False
    keys: KeyMap = field(default_factory=dict)

    @property
    def table(self) -> Table:
        """The commands with the keys that they have now."""
        return remapped(self.keys)

    @property
    def keymap(self) -> dict[str, str]:
        """What Textual is told: binding's id -> keys."""
        return {f"{screen}.{name}": keys for (screen, name), keys in self.keys.items()}


def config_path() -> Path:
    """``HEADSURGEON_CONFIG``, or ``config.toml`` in the user's configuration folder."""
    chosen = os.environ.get("HEADSURGEON_CONFIG")
    if chosen:
        return Path(chosen).expanduser()
    from platformdirs import user_config_path

    return user_config_path("headsurgeon") / "config.toml"


def read_settings() -> Settings:
    """The settings of the user's file; the defaults where there is none.

    Raises:
        InputError: the file cannot be read, or says something that is not understood.
    """
    path = config_path()
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        if os.environ.get("HEADSURGEON_CONFIG"):
            raise InputError(f"no such file: {path}, named by HEADSURGEON_CONFIG") from None
        return Settings()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError:
        raise InputError(f"{path} is not UTF-8 text") from None
    import tomllib

    try:
        return settings_of(tomllib.loads(text))
    except (tomllib.TOMLDecodeError, InputError) as error:
        raise InputError(f"{path}: {error}") from None


def settings_of(data: Mapping[str, Any]) -> Settings:
    """Settings from a parsed file.

    Raises:
        InputError: a setting, a theme, a command or a key that there is not, or one key for two commands.
    """
    known = ("theme", "glyphs", "mouse", "keys")
    for name in data:
        if name not in known:
            raise InputError(f"there is no setting {name!r}{_near(name, known)}; there are {', '.join(known)}")
    settings = Settings(
        theme=_one_of("theme", data.get("theme", "dark"), tuple(THEMES)),
        glyphs=_one_of("glyphs", data.get("glyphs", "auto"), GLYPHS),
        mouse=_flag("mouse", data.get("mouse", False)),
        keys=_keys(data.get("keys", {})),
    )
    _refuse_clashes(settings.table)
    return settings


def _one_of(name: str, value: object, choices: tuple[str, ...]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{name} is {value!r}; it can be {', '.join(choices)}")
    return value


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name} is {value!r}; it can be true or false")
    return value


def _keys(value: object) -> KeyMap:
    """The table ``[keys]``: ``take = "t"`` for every screen that has it, ``target.take = "t"`` for one."""
    if not isinstance(value, dict):
        raise InputError('keys must be a table: [keys], then lines like take = "t"')
    everywhere: dict[tuple[str, str], str] = {}
    single: dict[tuple[str, str], str] = {}
    for name, entry in value.items():
        if name in SCREENS and isinstance(entry, dict):
            for command, keys in entry.items():
                _known(command, name)
                single[name, command] = _written(f"keys.{name}.{command}", keys)
        else:
            _known(name)
            keys = _written(f"keys.{name}", entry)
            everywhere |= {(screen, name): keys for c in COMMANDS if c.name == name for screen in c.screens}
    return everywhere | single


def _known(name: str, screen: str | None = None) -> None:
    names = [command.name for command in (commands_of(screen) if screen else COMMANDS) if command.keys]
    if name not in names:
        where = f" on the screen {screen}" if screen else ""
        raise InputError(
            f"there is no command {name!r}{where}{_near(name, names)}; `headsurgeon config show` lists them all"
        )


def _near(name: str, names: list[str] | tuple[str, ...]) -> str:
    found = difflib.get_close_matches(name, names, 1)
    return f" (did you mean {found[0]}?)" if found else ""


def _written(name: str, value: object) -> str:
    """One key, or a list of keys, as Textual names them."""
    keys = value if isinstance(value, list) else [value]
    if not keys:
        raise InputError(f"{name} names no key")
    names: list[str] = []
    for key in keys:
        if not isinstance(key, str) or not _is_key(key):
            raise InputError(f'{name}: {key!r} is no key; write it like "t", "ctrl+t", "f5", "space" or ["t", "f5"]')
        names.append({",": "comma", " ": "space"}.get(key, key))
    return ",".join(names)


def _is_key(key: str) -> bool:
    *modifiers, last = key.split("+") if len(key) > 1 else [key]
    if not MODIFIERS.issuperset(modifiers):
        return False
    if len(last) == 1:
        return last.isprintable()
    return last in {str(k.value) for k in Keys} or len(format_key(last)) == 1


def _refuse_clashes(table: Table) -> None:
    for screen in SCREENS:
        taken: dict[str, str] = {}
        for command in commands_of(screen, table):
            for key in command.all_keys:
                other = taken.setdefault(key_name(key), command.name)
                if other != command.name:
                    raise InputError(
                        f"the key {key_name(key)} would mean both {other} and {command.name} on the screen {screen}; "
                        "give one of them another key"
                    )


def shown(settings: Settings) -> str:
    """All settings and keys as they are now, as a file that can be read again."""
    path = config_path()
    lines = [
        f"# {path}" + ("" if path.exists() else ": not there yet, so these are the defaults"),
        f"theme = {_quoted(settings.theme)}  # {', '.join(THEMES)}",
        f"glyphs = {_quoted(settings.glyphs)}  # {', '.join(GLYPHS)}",
        f"mouse = {'true' if settings.mouse else 'false'}",
        "",
        "# Keys by screen. A name on its own under [keys] sets the key on every screen that has the command;",
        '# several keys are written as ["t", "f5"].',
    ]
    for screen in SCREENS:
        lines += ["", f"[keys.{screen}]"]
        for command in filter(lambda c: c.keys, commands_of(screen, settings.table)):
            keys = [_quoted(_short(key)) for key in command.all_keys]
            value = keys[0] if len(keys) == 1 else f"[{', '.join(keys)}]"
            lines.append(f"{f'{command.name} = {value}':<32} # {command.help}")
    return "\n".join(lines) + "\n"


def _short(key: str) -> str:
    """``?`` for ``question_mark``; other names as they are."""
    sign = format_key(key)
    return sign if len(sign) == 1 and sign.isascii() else key


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
