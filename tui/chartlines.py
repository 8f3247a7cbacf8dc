"""Curves of a pass as lines of text: pure functions, no widget. The scale is logarithmic in perplexity,
so it is linear in nats."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

Point = tuple[float, float]
"""(step, perplexity), where nothing else is said"""
Piece = tuple[str, str]
"""(text, role); roles are axis, train, heldout, stock and best"""

LABEL = 7
"""Columns left of the plot: a number and the axis."""
_BRAILLE = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # [dot row][dot column]
_DOTS = {"braille": (2, 4), "block": (1, 2), "ascii": (1, 1)}  # dots per cell, across and down
_SIGNS = {"braille": ("o", "◆"), "block": ("o", "◆"), "ascii": ("o", "#")}  # a check, the best check
_RANK = ("stock", "train", "heldout")  # later ones win a shared cell
STEP = 0.1
"""Nats to which the scale is rounded outwards, so that it stays put while a curve moves."""


@dataclass(frozen=True)
class Curves:
    """What is drawn. ``steps`` is the right edge, known from the start, so curves only grow."""

    steps: int
    stock: float
    train: Sequence[Point] = ()
    """(step, loss in nats); there may be very many."""
    heldout: Sequence[Point] = ()
    best: Point | None = None


def plot(curves: Curves, width: int, height: int, glyphs: str = "braille") -> list[list[Piece]]:
    """``height`` lines of ``width`` columns: the plot, an axis below it, labels at the left."""
    across, down = _DOTS[glyphs]
    columns, rows = max(1, width - LABEL), max(1, height - 1)
    last_x, last_y = columns * across - 1, rows * down - 1
    train = thinned(curves, last_x)
    low, high = scale(curves, [perplexity for _, perplexity in train])

    def x(step: float) -> int:
        return round(min(1.0, step / max(1, curves.steps)) * last_x)

    def y(perplexity: float) -> int:
        share = (high - _log(perplexity)) / (high - low)
        return round(min(1.0, max(0.0, share)) * last_y)

    cells: dict[tuple[int, int], dict[str, set[tuple[int, int]]]] = defaultdict(lambda: defaultdict(set))
    series = {
        "stock": [(dot, y(curves.stock)) for dot in range(0, last_x + 1, 2 if across > 1 else 1)],
        "train": line([(dot, y(value)) for dot, value in train]),
        "heldout": line([(x(step), y(value)) for step, value in curves.heldout]),
    }
    for role, dots in series.items():
        for dot_x, dot_y in dots:
            cells[dot_y // down, dot_x // across][role].add((dot_y % down, dot_x % across))

    marks: dict[tuple[int, int], Piece] = {}
    check, best = _SIGNS[glyphs]
    free_from = -1
    for step, value in curves.heldout:
        column = x(step) // across
        if column >= free_from:  # dense checks would hide the line
            marks[y(value) // down, column] = (check, "heldout")
            free_from = column + 3
    if curves.best:
        marks[y(curves.best[1]) // down, x(curves.best[0]) // across] = (best, "best")

    drawn: dict[int, dict[int, Piece]] = defaultdict(dict)
    for (row, column), roles in cells.items():
        drawn[row][column] = cell(roles, glyphs)
    for (row, column), mark in marks.items():
        drawn[row][column] = mark

    labels = {0: high, rows - 1: low} | (
        {rows // 2: high - (high - low) * (rows // 2) / (rows - 1)} if rows > 4 else {}
    )
    lines = []
    for row in range(rows):
        label = number(math.exp(labels[row])) if row in labels else ""
        pieces: list[Piece] = [(f"{label:>{LABEL - 2}} {'|' if glyphs == 'ascii' else '│'}", "axis")]
        at = 0
        for column in sorted(drawn[row]):  # most cells of a large plot are empty
            pieces += [(" " * (column - at), "axis"), drawn[row][column]]
            at = column + 1
        pieces.append((" " * (columns - at), "axis"))
        lines.append(merged(pieces))
    left, right = "0", str(curves.steps)
    gap = columns - len(left) - len(right)
    lines.append([(" " * LABEL + left + " " * max(1, gap) + right, "axis")])
    return lines


def scale(curves: Curves, train: Sequence[float]) -> tuple[float, float]:
    """Bounds in nats that hold every held-out value, the stock line, and all but the wildest training columns."""
    values = [_log(curves.stock), *(_log(value) for _, value in curves.heldout)]
    if train:
        ordered = sorted(map(_log, train))
        edge = len(ordered) // 20
        values += [ordered[edge], ordered[-1 - edge]]
    low, high = math.floor(min(values) / STEP) * STEP, math.ceil(max(values) / STEP) * STEP
    return (low - STEP, high + STEP) if high - low < 2 * STEP else (low, high)


def thinned(curves: Curves, last_x: int) -> list[tuple[int, float]]:
    """One training perplexity per dot column: the geometric mean of the steps in it."""
    factor = last_x / max(1, curves.steps)
    sums: dict[int, list[float]] = {}
    for step, loss in curves.train:
        pair = sums.setdefault(min(last_x, round(step * factor)), [0.0, 0.0])
        pair[0] += loss
        pair[1] += 1
    return [(column, math.exp(min(total / count, 700.0))) for column, (total, count) in sums.items()]


def line(points: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The dots of straight lines through ``points``."""
    dots: list[tuple[int, int]] = []
    before: tuple[int, int] | None = None
    for point in points:
        if before is not None:
            (x0, y0), (x1, y1) = before, point
            n = max(abs(x1 - x0), abs(y1 - y0))
            dots += [(round(x0 + (x1 - x0) * i / n), round(y0 + (y1 - y0) * i / n)) for i in range(1, n)]
        dots.append(point)
        before = point
    return dots


def cell(series: dict[str, set[tuple[int, int]]], glyphs: str) -> Piece:
    """One cell; where series meet, its colour is that of the most important one."""
    role = max(series, key=_RANK.index)
    if glyphs == "ascii":
        return {"stock": "-", "train": ".", "heldout": "*"}[role], role
    dots = set().union(*(series[r] for r in series if r != "stock" or role == "stock"))
    if glyphs == "block":
        if role == "stock":
            return "-", role
        upper, lower = (0, 0) in dots, (1, 0) in dots
        return "█" if upper and lower else "▀" if upper else "▄", role
    return chr(0x2800 + sum(_BRAILLE[row][column] for row, column in dots)), role


def merged(pieces: Iterable[Piece]) -> list[Piece]:
    """Neighbours of the same role as one piece."""
    out: list[Piece] = []
    for text, role in pieces:
        if out and out[-1][1] == role:
            out[-1] = (out[-1][0] + text, role)
        else:
            out.append((text, role))
    return out


def number(value: float) -> str:
    """A perplexity in at most five signs."""
    if value >= 99_999:
        return f"{value:.0e}".replace("e+0", "e").replace("e+", "e")[:5]
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.2f}"


def _log(perplexity: float) -> float:
    return math.log(max(perplexity, 1e-9))
