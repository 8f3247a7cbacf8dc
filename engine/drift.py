"""Drift: how far the BOS mass of heads moved, by zone and by head-index column.

Source: arXiv 2603.09616, sections 4 and 5, with the drift of the cut kept apart from the training's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from engine.heads import Head, Rows, Thresholds
from engine.targets import Heads


@dataclass(frozen=True)
class ZoneDrift:
    """Drift over one set of heads; ``mean`` and ``worst`` are |delta| of BOS mass."""

    heads: int
    drifting: int
    mean: float
    worst: float
    worst_head: str


@dataclass(frozen=True)
class Drift:
    """Drift of the heads that a pass left alone."""

    outside: ZoneDrift
    in_band_frozen: ZoneDrift


def zone_drift(before: Rows, after: Rows, heads: Iterable[Head], t: Thresholds) -> ZoneDrift:
    """Drift from ``before`` to ``after`` over ``heads``; zeros for an empty set."""
    moved = {h: abs(after[h.layer][h.head] - before[h.layer][h.head]) for h in sorted(heads)}
    if not moved:
        return ZoneDrift(0, 0, 0.0, 0.0, "")
    worst = max(moved, key=lambda h: moved[h])
    drifting = sum(delta > t.drift for delta in moved.values())
    mean = sum(moved.values()) / len(moved)
    named = str(worst) if moved[worst] else ""  # where nothing moved, no head is the worst
    return ZoneDrift(len(moved), drifting, round(mean, 6), round(moved[worst], 6), named)


def drift(before: Rows, after: Rows, zones: tuple[Heads, Heads, Heads], t: Thresholds) -> Drift:
    """Drift of a pass; ``zones`` are its (targets, in-band frozen, outside)."""
    return Drift(zone_drift(before, after, zones[2], t), zone_drift(before, after, zones[1], t))


def column_means(before: Rows, after: Rows, untouched: Heads) -> list[float | None]:
    """Mean |delta| per head index over untouched heads; None where a column has none."""
    columns: list[float | None] = []
    for index in range(len(before[0])):
        moved = [abs(after[h.layer][index] - before[h.layer][index]) for h in untouched if h.head == index]
        columns.append(round(sum(moved) / len(moved), 6) if moved else None)
    return columns


def named_columns(means: Iterable[float | None]) -> dict[str, float]:
    """Column means by name, ``H5``, as the record keeps them: without the columns that have none."""
    return {f"H{i}": mean for i, mean in enumerate(means) if mean is not None}


def spreading(first: list[float | None], last: list[float | None], t: Thresholds) -> list[int]:
    """Head indices whose mean |delta| rose by more than the threshold between two checks."""
    return [
        i
        for i, (a, b) in enumerate(zip(first, last, strict=True))
        if a is not None and b is not None and b - a > t.spread
    ]
