"""The curve of one pass: training and held-out perplexity over its steps."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.report.axes import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, legend, ticks
from engine.report.svg import BLUE, ORANGE, picture, tag, words

POINTS = 200  # of the training line; more steps than that are averaged

Points = list[tuple[int, float]]


@dataclass(frozen=True)
class Curve:
    """What is drawn: (step, loss in nats) per step, (step, perplexity) per check, the first at the cut."""

    train: Points
    heldout: Points
    stock: float
    best: tuple[int, float] | None
    steps: int


def curve_picture(curve: Curve, title: str) -> str:
    """Perplexities on a logarithmic axis, so that equal heights are equal losses."""
    train = [(step, math.exp(min(loss, 700))) for step, loss in _thinned(curve.train)]
    shown = [value for _, value in train + curve.heldout] + [curve.stock]
    # a curve that blew up would press all others flat; it leaves the picture at the top
    top = min(max(shown), 30 * min(shown))
    axes = LogAxes(min(shown) / 1.04, top * 1.04, max(curve.steps, 1))
    parts = [words(LEFT, 18, title, font_size=13, font_weight="bold"), *axes.grid(), *_legend(curve)]
    parts.append(axes.line([(0, curve.stock), (axes.steps, curve.stock)], "currentColor", 1.2, "6 4"))
    parts.append(axes.line(train, BLUE, 1.3))
    parts.append(axes.line(curve.heldout, ORANGE, 2))
    parts += [tag("circle", cx=axes.x(s), cy=axes.y(v), r=2.6, fill=ORANGE) for s, v in curve.heldout]
    if curve.best:
        parts.append(ring(axes.x(curve.best[0]), axes.y(curve.best[1])))
    return picture(WIDTH, HEIGHT, f"{title}: training and held-out perplexity over steps", parts)


@dataclass(frozen=True)
class LogAxes:
    """Steps across, perplexities up on a logarithmic scale."""

    low: float
    high: float
    steps: int

    def x(self, step: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * step / self.steps

    def y(self, value: float) -> float:
        place = math.log(min(value, self.high) / self.low) / math.log(self.high / self.low)
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * place

    def line(self, points: Points, colour: str, width: float, dashes: str = "none") -> str:
        path = " ".join(f"{self.x(step):.1f},{self.y(value):.1f}" for step, value in points)
        return tag(
            "polyline",
            points=path,
            fill="none",
            stroke=colour,
            stroke_width=width,
            stroke_dasharray=dashes,
            stroke_linejoin="round",
        )

    def grid(self) -> list[str]:
        parts = []
        for value in _log_ticks(self.low, self.high):
            y = self.y(value)
            parts.append(tag("path", d=f"M{LEFT} {y:.1f}H{WIDTH - RIGHT}", stroke="currentColor", stroke_opacity=0.15))
            parts.append(words(LEFT - 7, y + 3.5, f"{value:g}", font_size=10, text_anchor="end"))
        floor = HEIGHT - BOTTOM
        parts.append(tag("path", d=f"M{LEFT} {floor}H{WIDTH - RIGHT}", stroke="currentColor", stroke_opacity=0.6))
        for step in (tick for tick in ticks(0, self.steps) if tick == int(tick)):
            parts.append(tag("path", d=f"M{self.x(step):.1f} {floor}v4", stroke="currentColor", stroke_opacity=0.6))
            parts.append(words(self.x(step), floor + 16, f"{step:g}", font_size=10, text_anchor="middle"))
        parts.append(
            words((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "optimizer step", font_size=11, text_anchor="middle")
        )
        parts.append(words(LEFT, TOP - 8, "perplexity (log scale)", font_size=11))
        return parts


def _legend(curve: Curve) -> list[str]:
    entries = [
        ("held-out", ORANGE, 2.0, "none"),
        ("training", BLUE, 1.3, "none"),
        (f"held-out, stock {curve.stock:.2f}", "currentColor", 1.2, "6 4"),
    ]
    parts, x = legend(entries)
    if curve.best:
        step, value = curve.best
        parts += [ring(x + 7, 34), words(x + 19, 38, f"best {value:.2f} at step {step}", font_size=11)]
    return parts


def ring(x: float, y: float) -> str:
    return tag("circle", cx=x, cy=y, r=6.5, fill="none", stroke="currentColor", stroke_width=1.6)


def _thinned(points: Points) -> Points:
    """At most POINTS points, each the mean of its neighbours, at their last step."""
    size = max(1, math.ceil(len(points) / POINTS))
    groups = [points[i : i + size] for i in range(0, len(points), size)]
    return [(group[-1][0], sum(value for _, value in group) / len(group)) for group in groups]


def _log_ticks(low: float, high: float) -> list[float]:
    """Round numbers for a logarithmic axis: even steps over a short range, 1-2-5 over a long one."""
    if high / low < 10:
        return ticks(low, high)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [value for p in powers for m in (1, 2, 5) if low <= (value := m * 10.0**p) <= high]
