"""Axes with an even scale, and the legend of a picture of curves."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from engine.report.svg import tag, words

WIDTH, HEIGHT = 680, 320
LEFT, RIGHT, TOP, BOTTOM = 58, 20, 62, 44


@dataclass(frozen=True)
class Axes:
    """Where values lie in a picture; ``across`` and ``up`` are the first and last of each axis."""

    across: tuple[float, float]
    up: tuple[float, float]
    left: float = LEFT
    top: float = TOP
    width: float = WIDTH - LEFT - RIGHT
    height: float = HEIGHT - TOP - BOTTOM

    @property
    def floor(self) -> float:
        return self.top + self.height

    def x(self, value: float) -> float:
        a, b = self.across
        return self.left + self.width * (value - a) / ((b - a) or 1)

    def y(self, value: float) -> float:
        a, b = self.up
        return self.floor - self.height * (value - a) / ((b - a) or 1)

    def line(self, points: Iterable[tuple[float, float]], colour: str, width: float) -> str:
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        return tag("polyline", points=path, fill="none", stroke=colour, stroke_width=width, stroke_linejoin="round")

    def grid(self, across: str, up: str, whole: bool = False) -> list[str]:
        """Lines, ticks and names of the axes; ``whole``: what goes up are counts."""
        parts, right = [], self.left + self.width
        for value in ticks(*self.up):
            if whole and value != int(value):
                continue
            y = self.y(value)
            line = f"M{self.left} {y:.1f}H{right:.1f}"
            parts.append(tag("path", d=line, stroke="currentColor", stroke_opacity=0.15))
            parts.append(words(self.left - 7, y + 3.5, f"{value:g}", font_size=10, text_anchor="end"))
        floor = f"M{self.left} {self.floor:.1f}H{right:.1f}"
        parts.append(tag("path", d=floor, stroke="currentColor", stroke_opacity=0.6))
        for value in ticks(*self.across):
            x = self.x(value)
            parts.append(tag("path", d=f"M{x:.1f} {self.floor:.1f}v4", stroke="currentColor", stroke_opacity=0.6))
            parts.append(words(x, self.floor + 16, f"{value:g}", font_size=10, text_anchor="middle"))
        middle = self.left + self.width / 2
        parts.append(words(middle, self.floor + 36, across, font_size=11, text_anchor="middle"))
        return [*parts, words(self.left, self.top - 8, up, font_size=11)]


def legend(entries: list[tuple[str, str, float, str]]) -> tuple[list[str], float]:
    """Names of lines in a row, each (name, colour, width, dashes); and where the row ends."""
    parts, x = [], float(LEFT)
    for name, colour, width, dashes in entries:
        parts.append(tag("path", d=f"M{x:.1f} 34h24", stroke=colour, stroke_width=width, stroke_dasharray=dashes))
        parts.append(words(x + 30, 38, name, font_size=11))
        x += 30 + 6.2 * len(name) + 14
    return parts, x


def ticks(low: float, high: float) -> list[float]:
    """Four to ten round numbers from low to high."""
    if not high > low:
        return [low]
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = max(power * m for m in (1, 2, 5) if power * m <= rough)
    return [round(i * step, 12) for i in range(math.ceil(low / step), math.floor(high / step) + 1)]
