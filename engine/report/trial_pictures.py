"""Pictures of several arms: their curves in one, and the bands of several patients."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from engine.analysis import Zone
from engine.arms import Arm, PatientRow, comparable
from engine.curves import Trajectory
from engine.figures import Run
from engine.report.axes import HEIGHT, LEFT, RIGHT, TOP, WIDTH, Axes
from engine.report.curve import LogAxes, ring
from engine.report.svg import BLUE, ORANGE, picture, tag, words

Points = list[tuple[int, float]]

COLOURS = (BLUE, ORANGE, "#2a9d8f", "#b5557f", "#8a8f3c", "#5fb0dd", "#c0473a", "#7d8794")
DASHES = ("none", "8 3", "2 3")
"""Once the colours are used up, the lines are told apart by these."""
ROW = 18
STRIP, STRIPS_GAP = 40, 46


@dataclass(frozen=True)
class Line:
    """One arm's curve: the mean over its seeds, and each seed's."""

    name: str
    colour: str
    dashes: str
    mean: Points
    seeds: list[Points]
    """Empty where there is one seed: it is the mean."""
    stock: float | None = None
    best: tuple[int, float] | None = None
    """Of the mean; the cut is none."""


def heldout_picture(arms: Sequence[Arm], title: str) -> str | None:
    """Held-out perplexities of all arms, stock dashed, a ring at each best point. None: nothing was checked."""
    lines = [_line(i, arm, [_heldout(run) for run in arm.runs], best=True) for i, arm in enumerate(arms)]
    lines = [line for line in lines if line.mean]
    if not lines:
        return None
    stocks = sorted({round(line.stock, 4) for line in lines if line.stock is not None})
    shown = [value for line in lines for points in (line.mean, *line.seeds) for _, value in points] + stocks
    top = min(max(shown), 30 * min(shown))  # as in the picture of one pass
    axes = LogAxes(min(shown) / 1.04, top * 1.04, _steps(arms, lines))
    parts = [words(LEFT, 18, title, font_size=13, font_weight="bold"), *axes.grid()]
    one = comparable(arms)
    for stock in stocks:
        colour = "currentColor" if one else next(x.colour for x in lines if x.stock and round(x.stock, 4) == stock)
        parts.append(_polyline(axes, [(0, stock), (axes.steps, stock)], colour, 1.2, "6 4"))
        parts.append(words(WIDTH - RIGHT, axes.y(stock) - 4, f"stock {stock:.2f}", font_size=10, text_anchor="end"))
    for line in lines:
        parts += _drawn(axes, line)
        if line.best:
            parts.append(ring(axes.x(line.best[0]), axes.y(line.best[1])))
    names = [
        f"{line.name}: best {line.best[1]:.2f} at step {line.best[0]}" if line.best else line.name for line in lines
    ]
    legend, legend_height = _legend(lines, names)
    return picture(WIDTH, HEIGHT + legend_height, f"{title}: {len(lines)} arms over steps", [*parts, *legend])


def drift_picture(arms: Sequence[Arm], zone: Zone, title: str) -> str | None:
    """Mean |drift| of one zone against stock, all arms. None: the zone has no heads, or nothing was checked."""
    lines = [_line(i, arm, [_drift(run, zone) for run in arm.runs]) for i, arm in enumerate(arms)]
    lines = [line for line in lines if line.mean]
    if not lines:
        return None
    top = max(value for line in lines for points in (line.mean, *line.seeds) for _, value in points)
    axes = Axes((0.0, _steps(arms, lines)), (0.0, 1.08 * top or 1.0))
    parts = [words(LEFT, 18, title, font_size=13, font_weight="bold")]
    parts += axes.grid("optimizer step", "mean |δ| against stock")
    for line in lines:
        parts += _drawn(axes, line)
    legend, legend_height = _legend(lines, [line.name for line in lines])
    return picture(WIDTH, HEIGHT + legend_height, f"{title}: {len(lines)} arms over steps", [*parts, *legend])


def _steps(arms: Sequence[Arm], lines: list[Line]) -> int:
    """As far as a pass was planned, or has come."""
    return max(1, *(p.steps for arm in arms for p in arm.passes), *(line.mean[-1][0] for line in lines))


def _heldout(run: Run) -> Trajectory | None:
    return run.found.heldout.curve if run.found else None


def _drift(run: Run, zone: Zone) -> Trajectory | None:
    return run.found.zone(zone).mean if run.found else None


def _line(i: int, arm: Arm, curves: list[Trajectory | None], best: bool = False) -> Line:
    each = [[(point.step, point.value) for point in curve.points] for curve in curves if curve]
    mean = mean_of(each)
    checked = [point for point in mean if point[0] > 0]
    stocks = [p.heldout_perplexity_stock for p in arm.passes]
    return Line(
        name=arm.label,
        colour=COLOURS[i % len(COLOURS)],
        dashes=DASHES[i // len(COLOURS) % len(DASHES)],
        mean=mean,
        seeds=each if len(each) > 1 else [],
        stock=stocks[0] if stocks else None,
        best=min(checked, key=lambda point: point[1]) if best and checked else None,
    )


def mean_of(curves: Sequence[Points]) -> Points:
    """The mean of several curves at the steps that all of them have."""
    tables = [dict(points) for points in curves]
    shared = [step for step in tables[0] if all(step in table for table in tables)] if tables else []
    return [(step, sum(table[step] for table in tables) / len(tables)) for step in sorted(shared)]


def _drawn(axes: LogAxes | Axes, line: Line) -> list[str]:
    thin = [_polyline(axes, points, line.colour, 1, line.dashes, 0.35) for points in line.seeds]
    dots = [tag("circle", cx=axes.x(x), cy=axes.y(y), r=2, fill=line.colour) for x, y in line.mean]
    return [*thin, _polyline(axes, line.mean, line.colour, 2.2, line.dashes), *dots]


def _polyline(
    axes: LogAxes | Axes, points: Points, colour: str, width: float, dashes: str, opacity: float = 1.0
) -> str:
    path = " ".join(f"{axes.x(x):.1f},{axes.y(y):.1f}" for x, y in points)
    return tag(
        "polyline", points=path, fill="none", stroke=colour, stroke_width=width, stroke_dasharray=dashes,
        stroke_opacity=opacity, stroke_linejoin="round",
    )  # fmt: skip


def _legend(lines: list[Line], names: list[str]) -> tuple[list[str], float]:
    """Names of the lines below the axes, in two columns where they are many and short; and the room that it takes."""
    column = (WIDTH - LEFT) / 2
    across = 2 if len(lines) > 3 and 30 + 6.2 * max(map(len, names)) < column else 1
    parts = []
    for i, (line, name) in enumerate(zip(lines, names, strict=True)):
        x, y = LEFT + (i % across) * column, HEIGHT + 8 + ROW * (i // across)
        path = f"M{x:.1f} {y - 4:.1f}h24"
        parts.append(
            tag("path", d=path, stroke=line.colour, stroke_width=2.2, stroke_dasharray=line.dashes, fill="none")
        )
        parts.append(words(x + 30, y, name, font_size=11))
    return parts, ROW * math.ceil(len(lines) / across) + 4


def bands_picture(patients: Sequence[PatientRow], title: str) -> str:
    """One strip per patient: how many of its layers are sick at each head index, the band underlined. Head indices
    reach from the left edge to the right in each, so that bands of other numbers of heads stand above each other."""
    wide = WIDTH - LEFT - RIGHT
    parts = [words(LEFT, 18, title, font_size=13, font_weight="bold")]
    for i, patient in enumerate(patients):
        top = TOP + i * (STRIP + STRIPS_GAP)
        parts += _strip(patient, top, wide)
    foot = TOP + len(patients) * (STRIP + STRIPS_GAP)
    told = "height: share of layers that are sick at a head index; dashes: where the band begins; the band is orange"
    parts.append(words(LEFT, foot, told, font_size=11))
    return picture(WIDTH, foot + 14, f"{title}: {len(patients)} patients", parts)


def _strip(patient: PatientRow, top: float, wide: float) -> list[str]:
    floor, cell = top + STRIP, wide / max(1, patient.n_heads)
    band = f"band H{patient.band[0]}–H{patient.band[1]}" if patient.band else "no band"
    sick = f"{100 * patient.sick / max(1, patient.heads):.1f} % sick"
    parts = [words(LEFT, top - 8, f"{patient.name}: {patient.n_layers} × {patient.n_heads} heads, {sick}, {band}")]
    parts += [
        words(LEFT - 7, top + 8, "1", font_size=10, text_anchor="end"),
        words(LEFT - 7, floor, "0", font_size=10, text_anchor="end"),
    ]
    for index, rate in enumerate(patient.sick_rates):
        within = patient.band is not None and patient.band[0] <= index <= patient.band[1]
        told = tag("title", f"H{index}: {100 * rate:.0f} % of its layers sick{', in the band' if within else ''}")
        high = STRIP * rate
        parts.append(
            tag(
                "rect", told, x=LEFT + index * cell + 0.5, y=floor - high, width=max(cell - 1, 0.8), height=high,
                fill=ORANGE if within else BLUE,
            )
        )  # fmt: skip
    limit = floor - STRIP * patient.band_rate
    right = LEFT + wide
    parts.append(tag("path", d=f"M{LEFT} {limit:.1f}H{right}", stroke="currentColor", stroke_dasharray="3 3"))
    parts.append(tag("path", d=f"M{LEFT} {floor:.1f}H{right}", stroke="currentColor", stroke_opacity=0.6))
    if patient.band:
        a, b = LEFT + patient.band[0] * cell, LEFT + (patient.band[1] + 1) * cell
        parts.append(tag("path", d=f"M{a:.1f} {floor + 4:.1f}H{b:.1f}", stroke=ORANGE, stroke_width=3))
    for index in sorted({0, patient.n_heads - 1, *(patient.band or ())}):
        x = LEFT + (index + 0.5) * cell
        parts.append(words(x, floor + 17, f"H{index}", font_size=10, text_anchor="middle"))
    return parts
