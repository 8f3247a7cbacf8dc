"""Numbers and foreign text as words of a report: what came from outside is shown, never obeyed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup, escape

from engine.printable import printable


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


def percent(value: float | None, digits: int = 1) -> str:
    """A share from 0 to 1 as ``12.5 %``."""
    return NOT_KNOWN if value is None else f"{100 * value:.{digits}f} %"


def signed(gain: float) -> str:
    """A gain in loss or in BOS mass; what is nearly nothing has no sign."""
    told = f"{gain:+.4f}"
    return told[1:] if float(told) == 0 else told


def stage_name(stage: str) -> str:
    """A state of the model in words: ``stock``, ``after pass 1``, ``in pass 1 at step 20``."""
    found = re.fullmatch(r"pass-(\d+)(?:-step-(\d+))?", stage)
    if not found:
        return stage
    return f"after pass {found[1]}" if found[2] is None else f"in pass {found[1]} at step {found[2]}"


def lines_of(text: str) -> str:
    """A text from outside with its line breaks, everything else that cannot be seen spelled out."""
    return "\n".join(map(printable, text.split("\n")))


def markdown(text: Text, in_table: bool = False) -> str:
    """One line of Markdown that renders as exactly this text."""
    return "".join(_code(part.text, in_table) if isinstance(part, Code) else _escaped(part) for part in text)


def fenced(text: str) -> str:
    """A block of Markdown that renders as exactly these lines: fenced by more backticks than any row of them."""
    text = lines_of(text)
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}\n{text}\n{fence}"


def html(text: Text) -> Markup:
    """HTML that renders as exactly this text."""
    parts = (
        Markup("<code>{}</code>").format(printable(p.text)) if isinstance(p, Code) else escape(printable(p))
        for p in text
    )
    return Markup("").join(parts)


def _escaped(text: str) -> str:
    # an underscore inside a word is no markup; links without brackets ("https://", "www.", "a@b") are
    # markup where GitHub's rules hold
    return re.sub(r"([\\`*\[\]<#|~&@$]|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.)", r"\\\1", printable(text))


def _code(text: str, in_table: bool) -> str:
    """A code span fenced by more backticks than the text has in a row."""
    text = printable(text)
    fence = "`" * (_longest_run(text) + 1)
    edge = " " if not text.strip() or text[0] in "` " or text[-1] in "` " else ""
    if in_table:  # cells are split before code is read
        text = text.replace("|", "\\|")
    return f"{fence}{edge}{text}{edge}{fence}"


def _longest_run(text: str) -> int:
    """Most backticks in a row."""
    return max((len(run) for run in re.findall("`+", text)), default=0)
