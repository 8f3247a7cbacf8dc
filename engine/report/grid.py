"""The head grid: one cell per head, coloured by BOS mass."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from engine.heads import Head, Rows, Thresholds
from engine.report.svg import escaped, hex_of, luminance, picture, ramp, tag, words

LEFT, TOP, BOTTOM, RIGHT = 46, 52, 64, 16
LEGEND = 200  # length of the ramp's legend


def head_grid(rows: Rows, targets: Collection[Head], title: str, t: Thresholds) -> str:
    """Layers as rows, head indices as columns, × on targets."""
    n_layers, n_heads = len(rows), len(rows[0])
    cell = max(9.0, min(22.0, 720 / n_heads, 720 / n_layers))
    grid = _Grid(cell, n_layers, n_heads)
    parts = [words(LEFT, 18, title, font_size=13, font_weight="bold"), *grid.axes()]
    for layer, row in enumerate(rows):
        for index, mass in enumerate(row):
            head = Head(layer, index)
            parts.append(grid.cell_of(head, mass, head in targets))
    foot = TOP + n_layers * cell
    parts += _legend(LEFT, foot + 16, bool(targets), t)
    width = max(LEFT + n_heads * cell, LEFT + LEGEND + (90 if targets else 0), LEFT + 7.4 * len(title)) + RIGHT
    return picture(width, foot + BOTTOM, f"{title}: BOS mass of {n_layers} by {n_heads} heads", parts)


@dataclass(frozen=True)
class _Grid:
    cell: float
    n_layers: int
    n_heads: int

    def axes(self) -> list[str]:
        """Labels of layers and head indices, as many as can be read."""
        style: dict[str, str | float] = {"font_size": 10, "font_family": "monospace"}
        every_layer = _every(self.n_layers, 11 / self.cell)
        every_head = _every(self.n_heads, 24 / self.cell)
        layers = [
            words(LEFT - 6, TOP + (layer + 0.5) * self.cell + 3.5, f"L{layer}", text_anchor="end", **style)
            for layer in range(0, self.n_layers, every_layer)
        ]
        heads = [
            words(LEFT + (head + 0.5) * self.cell, TOP - 7, f"H{head}", text_anchor="middle", **style)
            for head in range(0, self.n_heads, every_head)
        ]
        return layers + heads

    def cell_of(self, head: Head, mass: float, target: bool) -> str:
        colour = ramp(mass)
        x, y, size = LEFT + head.head * self.cell, TOP + head.layer * self.cell, self.cell - 1
        square = tag("rect", x=x, y=y, width=size, height=size, fill=hex_of(colour))
        told = tag("title", escaped(f"{head} {mass:.3f}{', target' if target else ''}"))
        return tag("g", told + square + (_cross(x, y, size, luminance(colour)) if target else ""))


def _cross(x: float, y: float, size: float, behind: float) -> str:
    a, b = 0.25 * size, 0.75 * size
    path = f"M{x + a:.1f} {y + a:.1f}L{x + b:.1f} {y + b:.1f}M{x + b:.1f} {y + a:.1f}L{x + a:.1f} {y + b:.1f}"
    return tag("path", d=path, stroke="#000000" if behind > 0.18 else "#ffffff", stroke_width=1.6, fill="none")


def _every(count: int, needed: float) -> int:
    """Label each 1st, 2nd, 4th … so that labels stay ``needed`` cells apart."""
    step = 1
    while step < min(needed, count):
        step *= 2
    return step


def _legend(x: float, y: float, targets: bool, t: Thresholds) -> list[str]:
    steps = 50
    width = LEGEND / steps
    parts = [
        tag("rect", x=x + i * width, y=y, width=width + 0.3, height=10, fill=hex_of(ramp((i + 0.5) / steps)))
        for i in range(steps)
    ]
    for value, name in ((0.0, "0"), (t.bos_sink, f"{t.bos_sink:g}"), (t.dead, f"{t.dead:g}")):
        at = x + LEGEND * value
        parts.append(tag("path", d=f"M{at:.1f} {y:.1f}v14", stroke="currentColor", fill="none"))
        parts.append(words(at, y + 25, name, font_size=10, text_anchor="middle"))
    parts.append(words(x, y + 40, f"BOS mass: above {t.bos_sink:g} bos_sink, above {t.dead:g} dead", font_size=10))
    if targets:
        parts.append(words(x + LEGEND + 16, y + 10, "× target", font_size=11))
    return parts
