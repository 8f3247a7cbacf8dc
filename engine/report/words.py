"""Numbers and foreign text as words of a report: what came from outside is shown, never obeyed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from engine.show import printable


@dataclass(frozen=True)
class Code:
    """A name, token or expression from outside, set as code so that it is read letter by letter."""

    text: str


Text = Sequence[str | Code]
"""One run of text: own words and foreign ones."""

NOT_KNOWN = "–"


def quoted(token: str) -> Code:
    """A token in quotes, so that a leading space is seen."""
    return Code(f'"{printable(token)}"')


def grouped(number: int) -> str:
    """``1 722 408 960``"""
    return f"{number:,}".replace(",", " ")


def share(part: int, whole: int, digits: int = 1) -> str:
    """``242 (63.0 %)``; the number alone where the whole is 0."""
    return f"{grouped(part)} ({100 * part / whole:.{digits}f} %)" if whole else grouped(part)


def figure(value: float | None, digits: int) -> str:
    """A measured number; a dash where there is none yet, powers of ten where it is far off."""
    if value is None:
        return NOT_KNOWN
    return f"{value:.{digits}f}" if abs(value) < 1e6 else f"{value:.1e}"


def perplexity(value: float | None) -> str:
    return figure(value, 2)


def markdown(text: Text, in_table: bool = False) -> str:
    """One line of Markdown that renders as exactly this text."""
    return "".join(_code(part.text, in_table) if isinstance(part, Code) else _escaped(part) for part in text)


def html(text: Text) -> Markup:
    """HTML that renders as exactly this text."""
    parts = (Markup("<code>{}</code>").format(printable(p.text)) if isinstance(p, Code) else escape(p) for p in text)
    return Markup("").join(parts)


def _escaped(text: str) -> str:
    # an underscore inside a word is no markup; links without brackets ("https://", "www.", "a@b") are
    # markup where GitHub's rules hold
    return re.sub(r"([\\`*\[\]<#|~&@$]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.)", r"\\\1", printable(text))


def _code(text: str, in_table: bool) -> str:
    """A code span fenced by more backticks than the text has in a row."""
    text = printable(text)
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    edge = " " if not text.strip() or text[0] in "` " or text[-1] in "` " else ""
    if in_table:  # cells are split before code is read
        text = text.replace("|", "\\|")
    return f"{fence}{edge}{text}{edge}{fence}"
