"""Ways of reading a text that is longer than a window, and what comes of each; no torch here."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from engine.errors import InputError
from engine.printable import printable, size

PUBLISHED_RATIO = 22.2
"""Times faster than the window run anew, at most (Xiao et al., 2023)."""
FAMILIES = ("bloom", "falcon", "gemma", "gpt_neox", "llama", "mistral", "mpt", "qwen2", "qwen3")
"""Families that stream: with ALiBi, or with one table of turning angles for all layers."""
ANCHORS = (0, 1, 2, 4, 8)
WINDOW = 256
NEED = 0.05
"""So much more perplexity without anchors than with most, as a share, is called a need."""
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
            case "anchors" if self.anchors:
                return f"{self.anchors} anchor{'s' if self.anchors > 1 else ''} + window"
            case "anchors":
                return "window alone"
        return self.kind


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


def default_window(context: int) -> int:
    """Tokens held where nothing else is asked for: a quarter of the context, at most ``WINDOW``."""
    return max(2, min(WINDOW, context // 4))


def arms(anchors: Sequence[int], tokens: int) -> list[Arm]:
    """What is held side by side on a text of so many tokens, in the order of the table."""
    ways = [Arm("anchors", number) for number in anchors]
    return [Arm("full"), *ways, Arm("recomputed")] if tokens <= COMPARED else ways


# --- what was read, and in which state of the model ---------------------------------------------------


@dataclass(frozen=True)
class Passage:
    """What the arms were compared on."""

    text: str
    """The source, as it was named."""
    sha256: str
    """Of its token ids."""
    tokens: int
    """Predicted in all, those of the first window too."""
    window: int


_ORDER = {"full": 0, "anchors": 1, "recomputed": 2}
Read = dict[str, dict[Arm, ArmFigures]]
"""By the state of the model, ``stock`` or ``pass-N``."""


def sides(read: Read) -> Read:
    """Stock, and beside it the state after the last pass, as far as they are known; by their names in words."""
    passes = sorted((stage for stage in read if stage != "stock"), key=lambda stage: (len(stage), stage))
    shown = [stage for stage in ("stock", *passes[-1:]) if read.get(stage)]
    return {stage.replace("pass-", "after pass "): read[stage] for stage in shown}


def in_order(read: Read) -> list[Arm]:
    """All arms that were read in some state, in the order of a table."""
    ways = {arm for found in read.values() for arm in found}
    return sorted(ways, key=lambda arm: (_ORDER.get(arm.kind, len(_ORDER)), arm.anchors))


def curve(found: dict[Arm, ArmFigures]) -> list[tuple[int, float]]:
    """(anchors, perplexity), by anchors."""
    return sorted((arm.anchors, figures.perplexity) for arm, figures in found.items() if arm.kind == "anchors")


def without(found: dict[Arm, ArmFigures], most: int = 0) -> float | None:
    """How much higher the perplexity is with the window alone than with ``most`` anchors, as a share; None: not known.

    Args:
        most: 0: as many as were read
    """
    points = dict(curve(found))
    most = most or max(points, default=0)
    return points[0] / points[most] - 1 if most and 0 in points and most in points else None


def answer(named: Read) -> str:
    """Whether the model needs its anchors, from the figures alone and for this text alone.

    Args:
        named: as ``sides`` gives it: stock, and another state by its name
    """
    points = {name: dict(curve(found)) for name, found in named.items() if without(found) is not None}
    if not points:
        return ""
    most = max(set.intersection(*map(set, points.values())))
    if not most:  # of the newer state only other arms are known
        name, found = next(iter(named.items()))
        return answer({name: found})
    losses = {name: by[0] / by[most] - 1 for name, by in points.items()}
    parts = [f"{name} {points[name][0]:.2f} and {points[name][most]:.2f} ({100 * loss:+.1f} %)"
             for name, loss in losses.items()]  # fmt: skip
    first, *_, last = list(losses) * 2
    match [loss >= NEED for loss in losses.values()]:
        case [True, True]:
            less = "less than stock" if losses[last] < losses[first] else "no less than stock"
            verdict = f"{last} it still needs them, {less}"
        case [True, False]:
            verdict = f"{first} needs them and {last} it does not"
        case [False, True]:
            verdict = f"{first} does not need them and {last} it does"
        case [False, False]:
            verdict = f"neither {first} nor {last} does it need them"
        case [True]:
            verdict = f"{first} needs them" if first == "stock" else f"{first} it needs them"
        case _:
            verdict = f"{first} does not need them" if first == "stock" else f"{first} it needs none"
    return (
        f"Perplexity without anchors and with {most}: {', '.join(parts)}. On this text {verdict} "
        f"(under {100 * NEED:g} % counts as none)."
    )


def ratio_of(arm: Arm, found: dict[Arm, ArmFigures]) -> float | None:
    """How many times as fast as the window run anew; None: it was not."""
    anew = found.get(Arm("recomputed"))
    return round(found[arm].tokens_per_second / anew.tokens_per_second, 2) if anew else None


def cache_size(n_bytes: int) -> str:
    """For people; a tiny patient's cache is no megabyte."""
    return size(n_bytes) if n_bytes >= 10_000_000 else f"{n_bytes / 1000:.0f} kB"


def told(window: int, found: dict[Arm, ArmFigures]) -> dict[str, Any]:
    """One window's arms as ``--json`` has them."""
    rows = []
    for arm, figures in found.items():
        ratio = ratio_of(arm, found)
        anchors = arm.anchors if arm.kind == "anchors" else None
        rows.append({"arm": arm.name, "kind": arm.kind, "anchors": anchors, **asdict(figures), "ratio": ratio})
    return {"window": window, "arms": rows}


def stream_text(found: dict[str, Any]) -> str:
    """``stream`` for people: a table per window, within 80 columns."""
    patched = f", after: with {printable(found['patch'])}" if found["patch"] else ""
    lines = [f"{printable(found['model'])}, {found['dtype']}{patched}"]
    both = {name: found[name] for name in ("stock", "after") if found[name]}
    for index, of_window in enumerate(found["stock"]):
        window = of_window["window"]
        lines += [
            "",
            f"{printable(found['text'])}: the {found['tokens'] - window:,} tokens after the first {window}",
            f"window of {window}, anchors among them; ×: times as fast as recomputed",
            f"{'':<19}" + "".join(f"{f'{name} perplexity':>17}{'tok/s':>7}{'×':>6}" for name in both),
        ]
        for row, arm in enumerate(of_window["arms"]):
            cells = [_cells(side[index]["arms"][row]) for side in both.values()]
            lines.append(f"{arm['arm']:<19}{''.join(cells)}".rstrip())
        lines += textwrap.wrap(answer({_SIDES[name]: _read(side[index]) for name, side in both.items()}), 80)
    if found["tokens"] > COMPARED:
        lines += ["", f"full attention and recomputed are held beside up to --tokens {COMPARED} alone"]
    else:
        lines += ["", f"published for × at most: {PUBLISHED_RATIO}"]
    return "\n".join(lines)


_SIDES = {"stock": "stock", "after": "with the patch"}


def _read(of_window: dict[str, Any]) -> dict[Arm, ArmFigures]:
    """``told`` back again."""
    figures = ("perplexity", "tokens_per_second", "cache_bytes")
    rows = of_window["arms"]
    return {Arm(row["kind"], row["anchors"] or 0): ArmFigures(*(row[name] for name in figures)) for row in rows}


def _cells(arm: dict[str, Any]) -> str:
    ratio = "" if arm["ratio"] is None else f"{arm['ratio']:.1f}"
    return f"{arm['perplexity']:>17.2f}{arm['tokens_per_second']:>7.0f}{ratio:>6}"
