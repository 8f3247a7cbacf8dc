"""The histogram of BOS mass: how many heads have how much of it, before a pass and after."""

from __future__ import annotations

import math

from engine.heads import Rows, Thresholds
from engine.report.axes import HEIGHT, LEFT, RIGHT, TOP, WIDTH, Axes, legend
from engine.report.svg import BLUE, ORANGE, escaped, picture, tag, words

BINS = 20


def histogram(sides: list[tuple[str, Rows]], title: str, t: Thresholds) -> str:
    """Heads per bin of BOS mass, one or two states of the model over each other; dashes mark the classes' limits.

    A bin holds what lies above its lower edge, up to and with its upper one, as the classes do.
    """
    counted = [(name, counts(rows)) for name, rows in sides]
    axes = Axes((0.0, 1.0), (0.0, 1.08 * max(1, *(n for _, each in counted for n in each))))
    colours = [BLUE, ORANGE]
    parts = [words(LEFT, 18, title, font_size=13, font_weight="bold")]
    parts += axes.grid("BOS mass", "heads", whole=True)
    for (name, each), colour in zip(counted, colours, strict=False):
        parts.append(_bars(axes, name, each, colour))
    for limit, name in ((t.bos_sink, "bos_sink"), (t.dead, "dead")):
        at = axes.x(limit)
        line = f"M{at:.1f} {TOP}V{axes.floor}"
        parts.append(tag("path", d=line, stroke="currentColor", stroke_dasharray="6 4", fill="none"))
        parts.append(words(at - 4, TOP - 8, f"{name} above {limit:g}", font_size=10, text_anchor="end"))
    parts += legend([(name, colour, 8.0, "none") for (name, _), colour in zip(counted, colours, strict=False)])[0]
    label = f"{title}: " + "; ".join(f"{name} {sum(each)} heads" for name, each in counted)
    return picture(WIDTH, HEIGHT, label, parts)


def counts(rows: Rows) -> list[int]:
    """Heads per bin."""
    out = [0] * BINS
    for row in rows:
        for mass in row:
            edge = math.ceil(round(mass * BINS, 6))  # 0.55 × 20 is a little more than 11
            out[min(max(edge - 1, 0), BINS - 1)] += 1
    return out


def _bars(axes: Axes, name: str, each: list[int], colour: str) -> str:
    bars = []
    for i, n in enumerate(each):
        x, y = axes.x(i / BINS), axes.y(n)
        told = tag("title", f"{i / BINS:.2f} to {(i + 1) / BINS:.2f}: {n}")
        width = (WIDTH - LEFT - RIGHT) / BINS
        bar = tag(
            "rect", told, x=x + 1, y=y, width=width - 2, height=axes.floor - y,
            fill=colour, fill_opacity=0.35, stroke=colour, stroke_width=1.4,
        )  # fmt: skip
        bars.append(bar if n else "")
    return tag("g", tag("title", escaped(name)) + "".join(bars))
