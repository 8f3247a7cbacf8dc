"""Foreign text and own words as LaTeX: what came from outside is set letter by letter, never obeyed."""

from __future__ import annotations

import re

from engine.printable import printable
from engine.report.words import Code, Text, lines_of

_SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "'": r"\textquotesingle{}",
    "`": r"\textasciigrave{}",
    # what the end of a table row would take for its option
    "[": "{[}",
    "*": "{*}",
    # own words use these beyond Latin
    "δ": r"$\delta$",
    "→": r"\textrightarrow{}",
    "−": r"$-$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
}
_LATIN = {
    *map(chr, range(0xA1, 0x100)),
    *"ĂăĄąĆćČčĎďĐđĘęĚěĞğİıĹĺĽľŁłŃńŇňŐőŒœŔŕŘřŚśŞşŠšŢţŤťŮůŰűŸŹźŻżŽž–—‘’“”„‚‹›•…€™†‡‰",
} - {"\xad"}
"""Beyond ASCII, what the T1 and TS1 encodings hold."""
_PIECE = 12
"""Letters of one word of code after which a line may break."""


def latex(text: Text) -> str:
    """One line of LaTeX that is set as exactly this text; beyond Latin a letter's code point stands for it."""
    return "".join(_code(part.text) if isinstance(part, Code) else _own(part) for part in text)


def latex_lines(text: str) -> str:
    """A text from outside line by line, a paragraph each."""
    return "\n".join(f"{_code(line)}\\par" if line else "\\mbox{}\\par" for line in lines_of(text).split("\n"))


def latex_columns(n: int) -> str:
    """Columns of a table across the page: the first for labels, the others for figures."""
    label = 1.0 if n == 1 else 0.4 if n <= 3 else 0.28
    return f"L{{{label}}}" + f"R{{{(1 - label) / max(1, n - 1):.4f}}}" * (n - 1)


def _own(text: str) -> str:
    # digits in groups stay on one line
    return re.sub(r"(?<=\d) (?=\d)", "~", _escaped(text))


def _code(text: str) -> str:
    return r"\texttt{" + r"\ ".join(map(_word, printable(text).split(" "))) + "}"


def _word(word: str) -> str:
    return r"\allowbreak{}".join(_escaped(word[at : at + _PIECE]) for at in range(0, len(word), _PIECE))


def _escaped(text: str) -> str:
    # two of these in a row would be set as one other sign
    return re.sub(r"([-,])(?=\1)", r"\1{}", "".join(map(_letter, printable(text))))


def _letter(c: str) -> str:
    if c in _SPECIAL:
        return _SPECIAL[c]
    return c if c.isascii() or c in _LATIN else f"{{[}}U+{ord(c):04X}]"
