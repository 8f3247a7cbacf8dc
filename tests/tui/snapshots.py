"""Pictures of the screen as small text files: what stands there, and how it looks in every way to show colours.

First the screen's text; then, row by row, runs of ``columns`` and a letter; last, what each letter looks like in
each way, as ``front/back+attributes`` in the numbers that the terminal gets. A row like the one above is ``=``.
"""

from __future__ import annotations

import os
from difflib import unified_diff
from itertools import groupby
from pathlib import Path

from textual.pilot import Pilot

from tui.painter import Look, Painter

FOLDER = Path(__file__).parent / "snapshots"
LETTERS = [chr(code) for code in (*range(97, 123), *range(65, 91), *range(0x3B1, 0x3CA), *range(0x430, 0x450))]
Cells = tuple[list[list[str]], list[list[Look]]]
"""[row][column]: signs and looks"""


def cells(pilot: Pilot[str], colours: str) -> Cells:
    """The screen as a terminal with these colours, ``256`` or ``standard``, shows it."""
    width, height = pilot.app.size
    painter = Painter(colours)
    painter.resize(width, height)
    painter.update((row, 0, strip) for row, strip in enumerate(pilot.app.screen._compositor.render_strips()))
    return painter.signs, painter.styles


def picture(ways: dict[str, Cells]) -> str:
    """One picture of a screen that says the same in several ways."""
    (signs, *others), looks = [way[0] for way in ways.values()], [way[1] for way in ways.values()]
    for name, other in zip(list(ways)[1:], others, strict=True):
        differing = [f"{''.join(a)!r} → {''.join(b)!r}" for a, b in zip(signs, other, strict=True) if a != b]
        assert not differing, f"{name} shows other text than {next(iter(ways))}: {'; '.join(differing[:3])}"
    letter_of: dict[tuple[Look, ...], str] = {}
    rows: list[str] = []
    for row in range(len(signs)):
        letters = [
            letter_of.setdefault(look, LETTERS[len(letter_of)])
            for look in zip(*(way[row] for way in looks), strict=True)
        ]
        rows.append("".join(f"{len(list(run))}{letter}" for letter, run in groupby(letters)))
    written = [row if number == 0 or row != rows[number - 1] else "=" for number, row in enumerate(rows)]
    legend = [f"{letter}  {'  '.join(map(numbers, look))}" for look, letter in letter_of.items()]
    return "\n".join(
        ["\n".join("".join(row).rstrip() for row in signs), "", *written, "", "   " + "  ".join(ways), *legend, ""]
    )


def numbers(look: Look) -> str:
    """``214/24+1``: colours of the cube; ``-`` for the terminal's own."""
    front, back = (code.replace("38;5;", "").replace("48;5;", "") for code in (look.front, look.back))
    return f"{'-' if front == '39' else front}/{'-' if back == '49' else back}" + f"+{look.attributes}" * bool(
        look.attributes
    )


def compare(name: str, shown: str) -> None:
    """Fail where the picture is not the one that was kept; ``HEADSURGEON_SNAPSHOTS=write`` keeps it instead."""
    path = FOLDER / f"{name}.txt"
    if os.environ.get("HEADSURGEON_SNAPSHOTS") == "write":
        FOLDER.mkdir(exist_ok=True)
        path.write_text(shown, "utf-8")
    kept = path.read_text("utf-8")
    differing = list(unified_diff(kept.splitlines(), shown.splitlines(), lineterm="", n=0))[2:]
    assert shown == kept, f"{path.name} differs:\n" + "\n".join(differing)
