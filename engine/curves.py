"""Curves over the checks of a pass, and the shape that they have. Plain figures, no record."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Shape = Literal["rising", "falling", "plateau", "oscillating", "mixed"]

LEAST_VALUES = 3
"""Values from which a curve has a shape."""
NOISE = 0.05
"""Two values differ when they are farther apart than this share of the curve's range (and than the tolerance)."""
TREND = 0.6
"""How much more often the later of two values must be the higher one: 0.6 is four pairs out of five."""
SWING = 0.25
"""A swing counts when it goes through this share of the curve's range (and the tolerance)."""
TURNS = 3
"""Turns between swings from which a curve oscillates."""


@dataclass(frozen=True)
class Point:
    step: int
    value: float


@dataclass(frozen=True)
class Trajectory:
    """One figure over the checks of a pass; step 0 is the cut."""

    points: tuple[Point, ...]
    """At least one."""
    first: Point
    last: Point
    lowest: Point
    """The earliest, where several are."""
    highest: Point
    shape: Shape | None
    """None: too few values."""

    @property
    def change(self) -> float:
        """Last less first."""
        return self.last.value - self.first.value

    def at(self, step: int) -> float | None:
        """The value at a step; None where there was no check."""
        return next((point.value for point in self.points if point.step == step), None)


def shape(values: Sequence[float], tolerance: float = 0.0) -> Shape | None:
    """The shape of a curve, from the order of its values alone.

    ``tolerance`` is in the unit of the values. The first that fits:

    - None: fewer than ``LEAST_VALUES`` values;
    - plateau: no two values are farther apart than the tolerance;
    - rising, falling: the last differs from the first, and of all pairs of values that differ the later one is
      higher (lower) so much more often that ups less downs are ``TREND`` of them. Two values differ when they
      are farther apart than both the tolerance and ``NOISE`` of the range. A curve that rises at once and then
      stays is rising;
    - oscillating: it turns ``TURNS`` times or more between swings through ``SWING`` of its range;
    - mixed: all others, such as one that falls and then rises as much.

    Values that are not finite do not count.
    """
    values = [value for value in values if math.isfinite(value)]
    if len(values) < LEAST_VALUES:
        return None
    wide = max(values) - min(values)
    if wide <= tolerance:
        return "plateau"
    near = max(tolerance, NOISE * wide)
    ups, downs = _pairs(values, near)
    gained, trend = values[-1] - values[0], (ups - downs) / max(1, ups + downs)
    if gained > near and trend >= TREND:
        return "rising"
    if -gained > near and -trend >= TREND:
        return "falling"
    return "oscillating" if _swings(values, max(tolerance, SWING * wide)) > TURNS else "mixed"


def _pairs(values: Sequence[float], near: float) -> tuple[int, int]:
    """Pairs whose later value is higher, and lower, by more than ``near``."""
    before: list[float] = []
    ups = downs = 0
    for value in values:
        ups += bisect_left(before, value - near)
        downs += len(before) - bisect_right(before, value + near)
        insort(before, value)
    return ups, downs


def _swings(values: Sequence[float], least: float) -> int:
    """Ups and downs in turn, each through more than ``least``."""
    count, way = 0, 0
    low = high = values[0]  # since the last turn
    for value in values:
        low, high = min(low, value), max(high, value)
        if way <= 0 and value - low > least:
            count, way, low, high = count + 1, 1, value, value
        elif way >= 0 and high - value > least:
            count, way, low, high = count + 1, -1, value, value
    return count


def trajectory(points: Iterable[tuple[int, float | None]], tolerance: float = 0.0) -> Trajectory | None:
    """A curve of (step, value); what is None or not finite is left out, and of nothing there is no curve."""
    kept = tuple(Point(step, value) for step, value in points if value is not None and math.isfinite(value))
    if not kept:
        return None
    return Trajectory(
        points=kept,
        first=kept[0],
        last=kept[-1],
        lowest=min(kept, key=lambda point: point.value),
        highest=max(kept, key=lambda point: point.value),
        shape=shape([point.value for point in kept], tolerance),
    )
