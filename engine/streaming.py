"""Ways of reading a text that is longer than a window, and what comes of each; no torch here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.errors import InputError
from engine.printable import printable

PUBLISHED_RATIO = 22.2
"""Times faster than the window run anew, at most (Xiao et al., 2023)."""
FAMILIES = ("bloom", "falcon", "gemma", "gpt_neox", "llama", "mistral", "mpt", "qwen2", "qwen3")
"""Families that stream: with ALiBi, or with one table of turning angles for all layers."""
COMPARED = 4096
"""Tokens up to which full attention and the window run anew are held beside; they take too long for more."""


def why_not(family: str, windows: Sequence[int]) -> str:
    """Why a patient cannot stream, as a sentence without its subject; empty where it can.

    Args:
        windows: per layer the keys that a query sees, 0: all
    """
    if any(windows):
        return "has layers with a window of their own; streaming knows none beside its own"
    if family not in FAMILIES:
        return (
            f"is of the family {family}, whose positions cannot be given by slot in a cache; "
            f"those of {', '.join(FAMILIES)} can"
        )
    return ""


@dataclass(frozen=True)
class Arm:
    """A way of reading."""

    kind: str
    """``full``, ``anchors`` (with 0 of them: the window alone) or ``recomputed``."""
    anchors: int = 0

    @property
    def name(self) -> str:
        match self.kind:
            case "full":
                return "full attention"
            case "recomputed":
                return "window recomputed"
        if not self.anchors:
            return "window alone"
        return f"{self.anchors} anchor{'s' if self.anchors > 1 else ''} + window"


@dataclass(frozen=True)
class ArmFigures:
    """What came of it, past the first window of the text."""

    perplexity: float
    tokens_per_second: float
    cache_bytes: int
    """Keys and values at the end of the text."""


def read_anchors(given: str) -> list[int]:
    """``0,1,2,4`` as numbers.

    Raises:
        InputError: something else stands there.
    """
    parts = [part.strip() for part in given.split(",")]
    if not all(part.isdecimal() for part in parts):
        raise InputError(f"--anchors {given!r} is no list of numbers; write it like 0,1,2,4,8")
    return sorted({int(part) for part in parts})


def arms(anchors: list[int], tokens: int) -> list[Arm]:
    """What is held side by side on a text of so many tokens, in the order of the table."""
    ways = [Arm("anchors", number) for number in anchors]
    return [Arm("full"), *ways, Arm("recomputed")] if tokens <= COMPARED else ways


def told(window: int, found: dict[Arm, ArmFigures]) -> dict[str, Any]:
    """One window's arms as ``--json`` has them."""
    anew = found.get(Arm("recomputed"))
    rows = []
    for arm, figures in found.items():
        ratio = round(figures.tokens_per_second / anew.tokens_per_second, 2) if anew else None
        anchors = arm.anchors if arm.kind == "anchors" else None
        rows.append({"arm": arm.name, "kind": arm.kind, "anchors": anchors, **asdict(figures), "ratio": ratio})
    return {"window": window, "arms": rows}


def stream_text(found: dict[str, Any]) -> str:
    """``stream`` for people: a table per window, within 80 columns."""
    patched = f", after: with {printable(found['patch'])}" if found["patch"] else ""
    lines = [f"{printable(found['model'])}, {found['dtype']}{patched}"]
    sides = {name: found[name] for name in ("stock", "after") if found[name]}
    for index, of_window in enumerate(found["stock"]):
        window = of_window["window"]
        lines += [
            "",
            f"{printable(found['text'])}: the {found['tokens'] - window:,} tokens after the first {window}",
            f"window of {window}, anchors among them; ×: times as fast as recomputed",
            f"{'':<19}" + "".join(f"{f'{name} perplexity':>17}{'tok/s':>7}{'×':>6}" for name in sides),
        ]
        for row, arm in enumerate(of_window["arms"]):
            cells = [_cells(side[index]["arms"][row]) for side in sides.values()]
            lines.append(f"{arm['arm']:<19}{''.join(cells)}".rstrip())
        for name, side in sides.items():
            lines += _need(name, side[index]["arms"])
    if found["tokens"] > COMPARED:
        lines += ["", f"full attention and recomputed are held beside up to --tokens {COMPARED} alone"]
    else:
        lines += ["", f"published for × at most: {PUBLISHED_RATIO}"]
    return "\n".join(lines)


def _cells(arm: dict[str, Any]) -> str:
    ratio = "" if arm["ratio"] is None else f"{arm['ratio']:.1f}"
    return f"{arm['perplexity']:>17.2f}{arm['tokens_per_second']:>7.0f}{ratio:>6}"


def _need(name: str, rows: list[dict[str, Any]]) -> list[str]:
    """How much worse the window alone is than the same window with most anchors."""
    by_anchors = {row["anchors"]: row["perplexity"] for row in rows if row["kind"] == "anchors"}
    most = max(by_anchors, default=0)
    if not most or 0 not in by_anchors:
        return []
    return [f"{name}: without anchors {by_anchors[0] / by_anchors[most] - 1:+.1%} perplexity against {most}"]
