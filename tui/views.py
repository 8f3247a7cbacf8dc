"""What the grid shows of each head: one level of the ramp, and in some views a sign. No widget here."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.heads import Head, HeadMap, Rows, Thresholds, classify
from tui.figures import QUIET, Line, Part, cube, ink_on, legend, line
from tui.palette import LEVELS, level

MASS, ENTROPY, CLASS, DRIFT, CONTRIBUTION = VIEWS = ("mass", "entropy", "class", "drift", "contribution")
TITLES = {
    MASS: "BOS mass",
    ENTROPY: "entropy",
    CLASS: "class",
    DRIFT: "drift since stock",
    CONTRIBUTION: "contribution",
}
ROSE, FELL = "+", "-"
CLASS_SIGNS = {"healthy": " ", "low_entropy": "e", "bos_sink": "s", "dead": "D"}
CLASS_LEVELS = {"healthy": 1, "low_entropy": 3, "bos_sink": 4, "dead": 7}
ENTROPY_EDGES = (0.1, 0.2, 0.35, Thresholds().low_entropy, 1.0, 2.0, 3.0)
"""Nats below which the next warmer colour begins; the class limit is among them."""
DRIFT_EDGES = (0.01, 0.02, 0.03, Thresholds().drift, 0.1, 0.2, 0.4)
"""|change| of BOS mass above which the next colour begins; the limit of drifting is among them."""
CONTRIBUTION_EDGES = (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
"""Nats of held-out loss."""

Levels = list[list[int]]  # [n_layers][n_heads], indices into LEVELS
Signs = list[list[str]]  # [n_layers][n_heads], one column each; a space for none


@dataclass(frozen=True)
class View:
    """One way to look at the heads."""

    name: str
    levels: Levels
    legend: tuple[Line, ...]
    signs: Signs | None = None
    """None: colours alone, so two layers may share a row in half blocks."""
    missing: bool = False
    """What it should show was not measured; the levels are those of the BOS mass."""


def view(
    name: str, mass: Rows, map_: HeadMap, stock: HeadMap, contributions: Rows | None = None, since: str = "stock"
) -> View:
    """The view ``name`` of heads with these BOS masses.

    Args:
        mass: as shown, live or of ``map_``.
        map_: where entropies and thresholds come from.
        stock: what drift is measured against.
        contributions: held-out loss lost when a head alone is silent, in nats; None: not measured, shown
            as BOS mass with a legend that says so.
        since: the name of ``stock`` in the legend.
    """
    t = map_.thresholds
    if name == ENTROPY:
        return View(name, levels_of(map_.entropy, entropy_level), entropy_legend(t))
    if name == CLASS:
        return _classes(mass, map_)
    if name == DRIFT:
        moved = [[a - b for a, b in zip(*rows, strict=True)] for rows in zip(mass, stock.bos_mass, strict=True)]
        signs = [[(ROSE if d > t.drift else FELL if d < -t.drift else " ") for d in row] for row in moved]
        return View(name, levels_of(moved, drift_level), drift_legend(t, since), signs)
    if name == CONTRIBUTION and contributions:
        signs = [[(FELL if value < 0 else " ") for value in row] for row in contributions]
        return View(name, levels_of(contributions, contribution_level), contribution_legend(), signs)
    if name == CONTRIBUTION:
        return View(name, levels_of(mass, level), missing_legend(""), missing=True)
    return View(MASS, levels_of(mass, level), tuple(legend(map_)))


def levels_of(values: Rows, level_of: Callable[[float], int]) -> Levels:
    return [[level_of(value) for value in row] for row in values]


def entropy_level(nats: float) -> int:
    """Warm below the limit of low entropy."""
    return 7 - bisect_right(ENTROPY_EDGES, nats)


def drift_level(change: float) -> int:
    return bisect_left(DRIFT_EDGES, abs(change))


def contribution_level(nats: float) -> int:
    return bisect_left(CONTRIBUTION_EDGES, nats)


def _classes(mass: Rows, map_: HeadMap) -> View:
    names = [
        [classify(m, map_.entropy[i][j], map_.thresholds) for j, m in enumerate(row)] for i, row in enumerate(mass)
    ]
    return View(
        CLASS,
        [[CLASS_LEVELS[name] for name in row] for row in names],
        class_legend(),
        [[CLASS_SIGNS[name] for name in row] for row in names],
    )


def scale(edges: Sequence[float], levels: Sequence[int]) -> tuple[Line, Line]:
    """The ramp and the edges under it."""
    blocks: list[Part] = [("    ", f"on {cube(LEVELS[index])}") for index in levels]
    shown = "".join(f"{short(edge):<4}" for edge in (0.0, *edges))
    return line(" ", *blocks), line((f" {shown}", QUIET))


def short(edge: float) -> str:
    """An edge in at most three signs: ``.05``, ``.3``, ``100``."""
    return f"{edge:.0f}" if edge == 0 or edge >= 1 else f"{edge:.2f}".lstrip("0").rstrip("0")


def entropy_legend(t: Thresholds) -> tuple[Line, ...]:
    return (
        line((" entropy, nats", QUIET), (f"   <{t.low_entropy:.2f} low", QUIET)),
        *scale(ENTROPY_EDGES, range(7, -1, -1)),
    )


def drift_legend(t: Thresholds, since: str) -> tuple[Line, ...]:
    return (
        line((f" drift since {since}", QUIET), (f"   {ROSE} {FELL} over {short(t.drift)}", QUIET)),
        *scale(DRIFT_EDGES, range(8)),
    )


def contribution_legend() -> tuple[Line, ...]:
    return (
        line((" 1/1000 nat lost if silent", QUIET), (f"  {FELL} gained", QUIET)),
        *scale([1000 * edge for edge in CONTRIBUTION_EDGES], range(8)),
    )


def missing_legend(key: str) -> tuple[Line, ...]:
    """``key``: what measures it."""
    return (
        line((" contribution: not measured", "$warm")),
        line((f" {key} measures each head silent alone", QUIET)),
        line((" the colours are BOS mass", QUIET)),
    )


def class_legend() -> tuple[Line, ...]:
    def key(name: str) -> list[Part]:
        index = CLASS_LEVELS[name]
        return [(f"{CLASS_SIGNS[name]} ", f"{ink_on(index)} on {cube(LEVELS[index])}"), (f" {name:<13}", QUIET)]

    return (
        line((" class", QUIET), ("   two layers: upper at left", QUIET)),
        line(" ", *key("healthy"), *key("low_entropy")),
        line(" ", *key("bos_sink"), *key("dead")),
    )


def value_of(name: str, head: Head, mass: Rows, stock: HeadMap, contributions: Rows | None) -> str:
    """The head's figure in a view that the panel's fixed lines do not hold; empty for the others."""
    if name == DRIFT:
        return f"{mass[head.layer][head.head] - stock.mass(head):+.3f} since stock"
    if name == CONTRIBUTION and contributions:
        return f"{contributions[head.layer][head.head]:+.4f} nats when silent"
    return ""
