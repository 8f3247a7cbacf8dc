"""Colours and signs. Everything is chosen in the 256-colour cube, because SSH does not forward truecolor."""

from __future__ import annotations

import locale
import os
import unicodedata

from textual.theme import Theme

from engine.heads import Thresholds

_T = Thresholds()
EDGES = (0.10, 0.25, 0.40, _T.bos_sink, 0.60, 0.80, _T.dead)
"""BOS mass above which the next colour begins; the class limits are among them."""
LEVELS = (17, 18, 24, 31, 172, 214, 221, 230)
"""Blue to orange as colour numbers. Luminance only rises, so the ramp also reads in grey (NO_COLOR)."""
CURSOR = 201
"""Not on the ramp; the cursor's row and column labels are reversed too."""
WHITE, BLACK = 231, 16


def level(mass: float) -> int:
    """Index into ``LEVELS`` of a BOS mass."""
    return sum(mass > edge for edge in EDGES)


def ink(index: int) -> int:
    """Colour number of a sign that is readable on level ``index``."""
    return WHITE if index < 4 else BLACK


DARK = Theme(
    name="dark",
    primary="#5fafff",
    secondary="#87afd7",
    warning="#ffaf00",
    error="#ff875f",
    success="#5fafff",
    accent="#5fafff",
    foreground="#d0d0d0",
    background="#1c1c1c",
    surface="#262626",
    panel="#303030",
    dark=True,
    variables={
        "quiet": "#8a8a8a",
        "strong": "#ffffff",
        "cold": "#5fafff",
        "warm": "#ffaf00",
        "rule": "#585858",
        "chosen": "#005f87",
    },
)
LIGHT = Theme(
    name="light",
    primary="#005faf",
    secondary="#005f87",
    warning="#af5f00",
    error="#af0000",
    success="#005faf",
    accent="#005faf",
    foreground="#303030",
    background="#eeeeee",
    surface="#e4e4e4",
    panel="#dadada",
    dark=False,
    variables={
        "quiet": "#626262",
        "strong": "#000000",
        "cold": "#005faf",
        "warm": "#af5f00",
        "rule": "#a8a8a8",
        "chosen": "#afd7ff",
    },
)


def glyphs() -> str:
    """How curves are drawn: ``braille``, ``block`` or ``ascii``. ``HEADSURGEON_GLYPHS`` chooses; otherwise
    braille, blocks on the Linux console (its fonts have no braille), and ASCII where the locale is not UTF-8."""
    chosen = os.environ.get("HEADSURGEON_GLYPHS", "")
    if chosen in ("braille", "block", "ascii"):
        return chosen
    if "utf" not in locale.getpreferredencoding(False).lower():
        return "ascii"
    return "block" if os.environ.get("TERM") == "linux" else "braille"


def plain(text: str, limit: int = 200) -> str:
    """Text from outside as it may be shown: no control, format or variation characters, at most ``limit`` long."""
    kept = "".join(c if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Mn", "Me") else "·" for c in text)
    return kept if len(kept) <= limit else kept[: limit - 1] + "…"


def token(text: str) -> str:
    """A token in quotes, with line breaks and the like spelled out."""
    return plain(f'"{text.encode("unicode_escape").decode() if not text.isprintable() else text}"', 14)
