"""Head grids: one cell per head, coloured by BOS mass or by what became of it."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

from engine.heads import Head, Rows, Thresholds
from engine.report.svg import RGB, escaped, hex_of, luminance, picture, ramp, tag, words

LEFT, TOP, BOTTOM, RIGHT = 46, 52, 64, 16
LEGEND = 200  # length of the ramp's legend

Zone = tuple[tuple[int, int], tuple[int, int]]
"""First and last layer, first and last head index."""


def head_grid(rows: Rows, targets: Collection[Head], title: str, t: Thresholds, zone: Zone | None = None) -> str:
    """Layers as rows, head indices as columns, × on targets, a line around the zone."""
    grid = _Grid.of(rows)
    cells = [
        grid.cell_of(head, ramp(mass), f"{mass:.3f}", "×" if head in targets else "") for head, mass in _each(rows)
    ]
    ticks = [(0.0, "0"), (t.bos_sink, f"{t.bos_sink:g}"), (t.dead, f"{t.dead:g}")]
    told = f"BOS mass: above {t.bos_sink:g} bos_sink, above {t.dead:g} dead"
    signs = (["× target"] if targets else []) + (["□ zone"] if zone else [])
    label = f"{title}: BOS mass of {grid.n_layers} by {grid.n_heads} heads"
    return grid.whole(title, label, [*cells, *grid.outline(zone)], ticks, told, signs)


def change_grid(before: Rows, after: Rows, targets: Collection[Head], title: str, t: Thresholds, zone: Zone) -> str:
    """What the BOS mass of every head gained, by the colours of ``ramp``: blue fell, orange rose. A circle marks
    heads left alone that drift.

    Colour goes by the square root of the gain, so that drift is seen beside targets that fell by far more.
    """
    grid = _Grid.of(before)
    cells = []
    for head, mass in _each(before):
        gain = after[head.layer][head.head] - mass
        sign = "×" if head in targets else "○" if abs(gain) > t.drift else ""
        cells.append(grid.cell_of(head, ramp(_place(gain)), f"{gain:+.3f}", sign))
    ticks = [(_place(gain), f"{gain:+g}" if gain else "0") for gain in (-1.0, -0.25, 0.0, 0.25, 1.0)]
    told = f"gain in BOS mass; drifting: more than {t.drift:g} either way"
    label = f"{title}: gain in BOS mass of {grid.n_layers} by {grid.n_heads} heads"
    return grid.whole(title, label, [*cells, *grid.outline(zone)], ticks, told, ["× target", "○ drifting", "□ zone"])


def _place(gain: float) -> float:
    """Where a gain from -1 to 1 lies on the ramp."""
    return 0.5 + math.copysign(math.sqrt(min(abs(gain), 1.0)), gain) / 2


def _each(rows: Rows) -> list[tuple[Head, float]]:
    return [(Head(layer, index), mass) for layer, row in enumerate(rows) for index, mass in enumerate(row)]


@dataclass(frozen=True)
class _Grid:
    cell: float
    n_layers: int
    n_heads: int

    @classmethod
    def of(cls, rows: Rows) -> _Grid:
        n_layers, n_heads = len(rows), len(rows[0])
        return cls(max(9.0, min(22.0, 720 / n_heads, 720 / n_layers)), n_layers, n_heads)

    def whole(
        self, title: str, label: str, parts: list[str], ticks: list[tuple[float, str]], told: str, signs: list[str]
    ) -> str:
        """The picture: title, axes, ``parts``, and the legend of the ramp with its ticks and the signs used."""
        foot = TOP + self.n_layers * self.cell
        heading = words(LEFT, 18, title, font_size=13, font_weight="bold")
        legend = _legend(LEFT, foot + 16, ticks, told, signs)
        wide = LEFT + LEGEND + (16 + 6.4 * len("  ".join(signs)) if signs else 0)
        width = max(LEFT + self.n_heads * self.cell, wide, LEFT + 7.4 * len(title), LEFT + 5.2 * len(told)) + RIGHT
        return picture(width, foot + BOTTOM, label, [heading, *self.axes(), *parts, *legend])

    def outline(self, zone: Zone | None) -> list[str]:
        if zone is None:
            return []
        (l0, l1), (h0, h1) = zone
        x, y = LEFT + h0 * self.cell - 1, TOP + l0 * self.cell - 1
        width, height = (h1 - h0 + 1) * self.cell + 1, (l1 - l0 + 1) * self.cell + 1
        line = tag(
            "rect", class_="zone", x=x, y=y, width=width, height=height,
            stroke="currentColor", stroke_width=2, fill="none",
        )  # fmt: skip
        return [line]

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

    def cell_of(self, head: Head, colour: RGB, told: str, sign: str) -> str:
        """One head: its colour, a sign on it, and what is told when it is pointed at."""
        x, y, size = LEFT + head.head * self.cell, TOP + head.layer * self.cell, self.cell - 1
        square = tag("rect", x=x, y=y, width=size, height=size, fill=hex_of(colour))
        name = {"×": ", target", "○": ", drifting"}.get(sign, "")
        title = tag("title", escaped(f"{head} {told}{name}"))
        return tag("g", title + square + _sign(sign, x, y, size, luminance(colour)))


def _sign(sign: str, x: float, y: float, size: float, behind: float) -> str:
    line = "#000000" if behind > 0.18 else "#ffffff"
    if sign == "○":
        return tag(
            "circle", cx=x + size / 2, cy=y + size / 2, r=0.22 * size, stroke=line, stroke_width=1.4, fill="none"
        )
    a, b = 0.25 * size, 0.75 * size
    path = f"M{x + a:.1f} {y + a:.1f}L{x + b:.1f} {y + b:.1f}M{x + b:.1f} {y + a:.1f}L{x + a:.1f} {y + b:.1f}"
    return tag("path", d=path, stroke=line, stroke_width=1.6, fill="none") if sign else ""


def _every(count: int, needed: float) -> int:
    """Label each 1st, 2nd, 4th … so that labels stay ``needed`` cells apart."""
    step = 1
    while step < min(needed, count):
        step *= 2
    return step


def _legend(x: float, y: float, ticks: list[tuple[float, str]], told: str, signs: list[str]) -> list[str]:
    steps = 50
    width = LEGEND / steps
    parts = [
        tag("rect", x=x + i * width, y=y, width=width + 0.3, height=10, fill=hex_of(ramp((i + 0.5) / steps)))
        for i in range(steps)
    ]
    for place, name in ticks:
        at = x + LEGEND * place
        parts.append(tag("path", d=f"M{at:.1f} {y:.1f}v14", stroke="currentColor", fill="none"))
        parts.append(words(at, y + 25, name, font_size=10, text_anchor="middle"))
    parts.append(words(x, y + 40, told, font_size=10))
    if signs:
        parts.append(words(x + LEGEND + 16, y + 10, "  ".join(signs), font_size=11))
    return parts
