"""Colours and signs. Everything is chosen in the 256-colour cube, because SSH does not forward truecolor."""

from __future__ import annotations

import locale
import os
import unicodedata

from rich.cells import cell_len, set_cell_size

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


SIXTEEN = {17: 4, 18: 4, 24: 12, 31: 6, 153: 14, 172: 3, 214: 11, 221: 11, 230: 15, 236: 0}
"""Where the terminal has 16 colours: the place of those that the nearest colour would not tell apart. The Linux
console draws a bright background as the plain one, so healthy, sink and dead differ in the plain eight too."""
GLYPHS = ("auto", "braille", "block", "ascii")


def glyphs(chosen: str = "auto") -> str:
    """How curves and signs are drawn: ``braille``, ``block`` or ``ascii``. ``HEADSURGEON_GLYPHS`` goes before
    what was chosen; ``auto`` is braille, blocks on the Linux console (its fonts have no braille), and ASCII
    where the locale is not UTF-8."""
    for wanted in (os.environ.get("HEADSURGEON_GLYPHS", ""), chosen):
        if wanted in GLYPHS[1:]:
            return wanted
    if "utf" not in locale.getpreferredencoding(False).lower():
        return "ascii"
    return "block" if os.environ.get("TERM") == "linux" else "braille"


_ASCII = {
    **dict(zip("×ˣₓ°ₒ◆·…–—−→←↑↓▸±≤≥≈δΔ≠¶“”‘’⌫⏎", "x',`.*..---><^v>~<>~ddx/\"\"''<<", strict=True)),
    **dict(zip("▁▂▃▄▅▆▇█▀▌▐░▒▓■□●○", "_.:-=+*##|| .:#o*o", strict=True)),
    **dict.fromkeys("─━═╌╍┄┅╴╶⎯", "-"),
    **dict.fromkeys("│┃║╎╏┆┇╵╷▏▕", "|"),
}
"""Every sign that the app draws, and one of ASCII that says the same."""


def ascii_of(text: str) -> str:
    """The text in ASCII, each sign as wide as the one it stands for; what has no likeness becomes ``?``."""
    return text if text.isascii() else "".join(map(_ascii_sign, text))


def _ascii_sign(sign: str) -> str:
    if sign.isascii():
        return sign
    if sign in _ASCII:
        return _ASCII[sign]
    if "\u2500" <= sign <= "\u257f":  # corners and crossings of frames
        return "+"
    if "\u2800" <= sign <= "\u28ff":  # braille
        return " " if sign == "\u2800" else ":"
    letter = unicodedata.normalize("NFKD", sign)[0]  # é is e with an accent
    return letter if letter.isascii() and letter.isprintable() and cell_len(sign) == 1 else "?" * cell_len(sign)


_UNSHOWN = {"Cc", "Cf", "Cs", "Co", "Cn", "Mn", "Me", "Zl", "Zp"}
"""Kinds of characters that command a terminal, or whose width terminals do not agree on."""


def visible(text: str) -> str:
    """Text as it may be shown, line breaks kept: a dot for each character that is not a visible sign."""
    if text.isprintable():
        return text
    return "".join(c if c == "\n" or (unicodedata.category(c) not in _UNSHOWN and cell_len(c)) else "·" for c in text)


def plain(text: str, limit: int = 200) -> str:
    """Text from outside as it may be shown: a dot for each character that is not a visible sign, cut to
    ``limit`` columns."""
    kept = "".join(c if unicodedata.category(c) not in _UNSHOWN and cell_len(c) else "·" for c in text)
    if cell_len(kept) <= limit:
        return kept
    return set_cell_size(kept, max(0, limit - 1)).rstrip() + "…"


def fit(text: str, width: int) -> str:
    """Text from outside in exactly so many columns."""
    return set_cell_size(plain(text, width), width)


def token(text: str) -> str:
    """A token in quotes, with line breaks and the like spelled out."""
    return plain(f'"{text.encode("unicode_escape").decode() if not text.isprintable() else text}"', 14)
