"""How a source of a corpus is written: ``SOURCE`` or ``SOURCE@3``, a file, a folder or a hub name."""

from __future__ import annotations

import re
from pathlib import Path

from engine import demo
from engine.errors import InputError

MOST_REPEATS = 1000
COLUMN = "text"
"""Where a table keeps its documents, if nothing else is said."""


def split_repeat(source: str) -> tuple[str, int]:
    """The source without its repeat count, and how often it stands in one epoch: ``a.txt@3`` is
    ``a.txt`` three times. A file or folder of that very name comes first.

    Raises:
        InputError: what follows the ``@`` is a number that cannot be meant.
    """
    name, at, times = source.rpartition("@")
    if not at or demo.corpus_path(source).exists() or not re.fullmatch(r"[-+.\d]*", times):
        return source, 1
    if not re.fullmatch(r"[1-9]\d*", times) or len(times) > 4 or int(times) > MOST_REPEATS or not name:
        raise InputError(
            f"{source}: a source is repeated like birds.txt@3, a whole number of times from 1 to {MOST_REPEATS}"
        )
    return name, int(times)


def absolute(source: str) -> str:
    """A source that stays right when the session is resumed from elsewhere: an existing path made whole,
    its repeat count kept; anything else as it is.

    Raises:
        InputError: see ``split_repeat``.
    """
    name, _ = split_repeat(source)
    return whole_path(name) + source[len(name) :]


def whole_path(name: str) -> str:
    """An existing path made whole; anything else as it is."""
    path = Path(name).expanduser()
    return str(path.resolve()) if name and path.exists() else name


def hub_name(source: str) -> tuple[str, str | None, str, str]:
    """Name, config, split and column of a hub corpus.

    Raises:
        InputError: it cannot be one, so a file or folder was meant that is not there.
    """
    name, *rest = source.split(":")
    could_be = re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name) and not Path(name).parent.is_dir()
    if not could_be or len(rest) > 3:
        raise InputError(f"corpus not found: {source}; a hub corpus is written like allenai/c4:en:validation:text")
    config, split, column = [*rest, *[""] * (3 - len(rest))]
    return name, config or None, split or "train", column or COLUMN
