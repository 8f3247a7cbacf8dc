"""Pictures of drift over the checks of a pass: by zone, and by head-index column."""

from __future__ import annotations

import math

from engine.analysis import ColumnTrend, PassAnalysis, Phases
from engine.curves import Trajectory
from engine.report.axes import HEIGHT, LEFT, TOP, WIDTH, Axes, legend
from engine.report.svg import BLUE, ORANGE, picture, tag, words

PER_ROW = 8
CELL_WIDTH, CELL_HEIGHT, GAP_X, GAP_Y = 66, 44, 14, 34
QUIET = "#7d8794"


def zones_picture(found: PassAnalysis, title: str) -> str | None:
    """Mean |drift| of the outside and of the in-band frozen heads; a line ends the early part. None: no checks."""
    zones = [("outside", BLUE, found.outside), ("in-band frozen", ORANGE, found.in_band_frozen)]
    curves = [(f"{name} ({zone.heads} heads)", colour, zone.mean) for name, colour, zone in zones if zone.mean]
    if not curves or found.phases.last is None:
        return None
    top = max(curve.highest.value for _, _, curve in curves)
    axes = Axes((0.0, max(found.steps, found.phases.last, 1)), (0.0, 1.08 * top or 1.0))
    parts = [words(LEFT, 18, title, font_size=13, font_weight="bold")]
    parts += axes.grid("optimizer step", "mean |δ| against stock")
    parts += _marks(axes, found.phases)
    for _, colour, curve in curves:
        parts.append(axes.line(_points(curve), colour, 2))
        parts += [tag("circle", cx=axes.x(x), cy=axes.y(y), r=2.4, fill=colour) for x, y in _points(curve)]
    parts += legend([(name, colour, 2.0, "none") for name, colour, _ in curves])[0]
    return picture(WIDTH, HEIGHT, f"{title}: mean drift of two zones over steps", parts)


def _marks(axes: Axes, phases: Phases) -> list[str]:
    """Where the early part ends and where the best check is."""
    out = []
    for step, name, anchor, up in ((phases.mark, "early part", "end", 12), (phases.best, "best", "end", 26)):
        if step is not None:
            x = axes.x(step)
            line = f"M{x:.1f} {TOP}V{axes.floor:.1f}"
            out.append(tag("path", d=line, stroke="currentColor", stroke_opacity=0.5, stroke_dasharray="3 3"))
            out.append(words(x - 4, TOP + up, name, font_size=10, text_anchor=anchor))
    return out


def columns_picture(columns: tuple[ColumnTrend, ...], zone: tuple[int, int], title: str) -> str:
    """Small charts of one scale, one per head index; those that spread stand out."""
    top = max(column.curve.highest.value for column in columns) or 1.0
    steps = [point.step for column in columns for point in column.curve.points]
    rows = math.ceil(len(columns) / PER_ROW)
    parts = [words(LEFT, 18, title, font_size=13, font_weight="bold")]
    told = f"mean |δ| against stock from 0 to {top:.3f}, step {min(steps)} to {max(steps)}; in each the last value"
    parts.append(words(LEFT, 38, told, font_size=11))
    for i, column in enumerate(columns):
        left = LEFT + (i % PER_ROW) * (CELL_WIDTH + GAP_X)
        at = TOP + 14 + (i // PER_ROW) * (CELL_HEIGHT + GAP_Y)
        axes = Axes((min(steps), max(steps)), (0.0, top), left, at, CELL_WIDTH, CELL_HEIGHT)
        parts.append(_small(axes, column, zone[0] <= column.index <= zone[1]))
    y = TOP + 14 + rows * (CELL_HEIGHT + GAP_Y) - 6
    parts += [
        tag("path", d=f"M{LEFT} {y}h24", stroke=ORANGE, stroke_width=2.4),
        words(LEFT + 30, y + 4, "spreads", font_size=11),
        tag("path", d=f"M{LEFT + 90} {y}h24", stroke=BLUE, stroke_width=1.6),
        words(LEFT + 120, y + 4, "does not; * a head index of the zone", font_size=11),
    ]
    width = LEFT + min(len(columns), PER_ROW) * (CELL_WIDTH + GAP_X) + 20
    return picture(max(width, LEFT + 6.2 * len(told)), y + 20, f"{title}: {len(columns)} columns over steps", parts)


def _small(axes: Axes, column: ColumnTrend, in_zone: bool) -> str:
    last, colour = column.curve.last, ORANGE if column.spreads else BLUE
    floor = f"M{axes.left} {axes.top}v{axes.height}h{axes.width}"
    name = f"H{column.index}{'*' if in_zone else ''}"
    weight = "bold" if column.spreads else "normal"
    return tag(
        "g",
        tag("title", f"{name}: {column.curve.first.value:.4f} to {last.value:.4f}, {column.curve.shape or 'too short'}")
        + tag("path", d=floor, fill="none", stroke=QUIET, stroke_opacity=0.5)
        + axes.line(_points(column.curve), colour, 2.4 if column.spreads else 1.6)
        + tag("circle", cx=axes.x(last.step), cy=axes.y(last.value), r=2.2, fill=colour)
        + words(axes.left, axes.top - 5, name, font_size=10, font_weight=weight)
        + words(axes.left + axes.width, axes.top - 5, f"{last.value:.3f}", font_size=10, text_anchor="end"),
    )


def _points(curve: Trajectory) -> list[tuple[float, float]]:
    return [(point.step, point.value) for point in curve.points]
