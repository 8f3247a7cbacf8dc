"""What a record's curves say: trajectories and their shape, drift by zone and by column, early redistribution
against late decay, the perplexity's way past stock, relapse, and what it took. From the record alone.

The questions are those of arXiv 2603.09616. Every reading stands beside the figures that it rests on; whether a
pass was worth it is for whoever reads them.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from engine.curves import Point, Trajectory, trajectory
from engine.heads import Thresholds, known
from engine.tables import DiagnosisTable, PassTable, Record, ZoneDriftTable

Zone = Literal["outside", "in_band_frozen"]
ZONES: tuple[Zone, ...] = ("outside", "in_band_frozen")

DRIFT_TOLERANCE = 0.1
"""A mean |drift| moves when it changes by more than this share of the ``spread`` threshold."""
PERPLEXITY_TOLERANCE = 0.01
"""A perplexity moves when it changes by more than this share of the curve's lowest."""
WOKEN_TOLERANCE = 0.02
"""A count of woken targets moves when it changes by more than this share of the targets."""

LEAST_CHECKS = 4
"""Checks from which a pass has an early and a late part."""
NOTABLE = 0.1
"""A mean |drift| is told of when it is this share of the ``drift`` threshold or more."""
EARLY = 1 / 3
"""The early part is the first third of the steps that were checked."""
EARLY_SHARE = 2 / 3
"""Redistribution is early when this share of its last value stood after the early part."""
LATE_RATIO = 2.0
"""Decay is local when the in-band frozen heads rose this many times as much as the outside ones."""


@dataclass(frozen=True)
class Stages:
    """One figure as the model was loaded, after the cut, and after the pass; None where it was not measured."""

    stock: float | None
    cut: float | None
    after: float | None


@dataclass(frozen=True)
class Classes:
    """Heads by class before a pass and after it."""

    before_stage: str
    """``stock``, or the standing pass before."""
    before: dict[str, int]
    after: dict[str, int] | None
    """None: not diagnosed, or undone."""


@dataclass(frozen=True)
class Woken:
    """Targets below the sink threshold."""

    targets: int
    at_cut: int | None
    after: int | None
    """Of the slices that were kept; before the pass has ended, of the last check."""
    curve: Trajectory | None
    sank_again: int | None
    """Most that any check counted, or the cut, less those of the last check. A head that sank while another woke is
    not seen in counts, so at least so many did."""


@dataclass(frozen=True)
class ZoneCurve:
    """Drift of one zone over the checks, against stock and against the cut."""

    zone: Zone
    heads: int
    mean: Trajectory | None
    """Mean |drift| against stock. It begins at the cut where the pass was cut out of stock."""
    drifting: Trajectory | None
    """Heads that drift against stock."""
    training: Trajectory | None
    """Mean |drift| against the cut, where it is 0."""
    final: ZoneDriftTable | None
    """Against stock, of the slices that were kept; before the pass has ended, of the last check."""


@dataclass(frozen=True)
class ColumnTrend:
    """Mean |drift| against stock of a head index's untouched heads, over the checks."""

    index: int
    curve: Trajectory
    spreads: bool
    """It rose by more than the threshold from the first check to the last."""


@dataclass(frozen=True)
class Phases:
    """Early redistribution against late decay, and what the reading rests on.

    The early part ends at ``mark``: the last check within the first third (``EARLY``) of the steps up to the
    last check, or the first check where none is. Two rules tell the phases, both on mean |drift| against stock:

    - early redistribution: the outside heads' at the mark is notable (``NOTABLE`` of the drift threshold), and
      at least ``EARLY_SHARE`` of what it is at the last check;
    - late decay: from the mark to the last check the in-band frozen heads' rose notably, and at least
      ``LATE_RATIO`` times as much as the outside heads'.

    Fewer than ``LEAST_CHECKS`` checks tell neither, and without in-band frozen heads there is no telling of
    late decay. Held-out perplexity stands beside and decides nothing: drift may go on while it falls.
    """

    checks: int
    early: bool | None = None
    late: bool | None = None
    """None: cannot be told."""
    mark: int | None = None
    last: int | None = None
    """Steps; the last is the last check's."""
    outside_mark: float | None = None
    outside_last: float | None = None
    outside_change: float | None = None
    early_share: float | None = None
    """``outside_mark`` as share of ``outside_last``; above 1 where it fell back afterwards."""
    best: int | None = None
    """The step of the check with the lowest held-out perplexity."""
    best_share: float | None = None
    """The outside's mean at that check as share of ``outside_last``."""
    in_band_heads: int = 0
    in_band_mark: float | None = None
    in_band_last: float | None = None
    in_band_change: float | None = None
    late_ratio: float | None = None
    """``in_band_change`` over ``outside_change``; None where the outside did not rise."""
    perplexity_mark: float | None = None
    """Held out."""
    perplexity_above_best: float | None = None
    """Last check's held-out perplexity less the best check's, as share of the best."""

    @property
    def reading(self) -> str:
        """The two rules in plain words."""
        match self.early, self.late:
            case None, _:
                return f"cannot be told: {self.checks} check{'' if self.checks == 1 else 's'}"
            case True, True:
                return "both"
            case True, False:
                return "early redistribution"
            case False, True:
                return "late decay"
            case False, False:
                return "neither"
        told = "early redistribution" if self.early else "no early redistribution"
        return f"{told}; late decay cannot be told: no in-band frozen heads"


@dataclass(frozen=True)
class Heldout:
    """Perplexity of the held-out part of the corpus."""

    stages: Stages
    curve: Trajectory | None
    crossed: int | None
    """First step at which it is at or below stock; None: never."""
    best: Point | None
    """The lowest of the checks; the cut is none."""
    best_share: float | None
    """Where the best lies, as share of the planned steps."""
    above_best: float | None
    """Last check's less the best's; 0: it ends at its best."""


@dataclass(frozen=True)
class Cost:
    """What a pass trained and what it took."""

    trained_parameters: int
    trained_share: float | None
    """Of the patient's parameters."""
    touched_parameters: int
    """Whole tensors that hold a slice."""
    touched_share: float | None
    trained_tokens: int | None
    training_seconds: float | None
    """Of the steps alone."""
    tokens_per_second: float | None
    wall_seconds: float | None
    """From the pass's start to its end, checks, the last diagnosis and pauses counted."""
    memory_bytes_peak: int | None
    memory_bytes_estimated: int | None


@dataclass(frozen=True)
class PassAnalysis:
    """Everything that is worked out of one pass."""

    number: int
    outcome: str
    steps: int
    """Planned."""
    steps_done: int | None
    best_step: int | None
    """The step whose slices were kept."""
    classes: Classes | None
    woken: Woken
    working: Stages
    """Held-out loss lost when the targets are ablated together, in nats per token."""
    heldout: Heldout
    watched: dict[str, Stages]
    """Perplexity of other texts, by name; none is measured at the cut."""
    outside: ZoneCurve
    in_band_frozen: ZoneCurve
    columns: tuple[ColumnTrend, ...]
    """By head index; empty where the record keeps none."""
    spreading: tuple[int, ...]
    """Columns that spread: as the record says of the kept slices; where it does not yet, from the checks."""
    phases: Phases
    cost: Cost

    def zone(self, zone: Zone) -> ZoneCurve:
        return self.outside if zone == "outside" else self.in_band_frozen


def analyse(record: Record, p: PassTable) -> PassAnalysis:
    """One pass of a record, finished or under way."""
    t = Thresholds(**known(Thresholds, record.thresholds))
    heldout = _heldout(p)
    outside, in_band = (_zone_curve(zone, p, _on_stock(record, p), t) for zone in ZONES)
    columns = _columns(p, t)
    counted = tuple(column.index for column in columns if column.spreads)
    return PassAnalysis(
        number=p.number,
        outcome=p.outcome,
        steps=p.steps,
        steps_done=p.steps_done,
        best_step=p.best_step,
        classes=_classes(record, p),
        woken=_woken(p),
        working=Stages(p.ablation_loss_stock, p.ablation_loss_cut, p.ablation_loss_after),
        heldout=heldout,
        watched={
            name: Stages(stock, None, (p.perplexity_after or {}).get(name))
            for name, stock in p.perplexity_stock.items()
        },
        outside=outside,
        in_band_frozen=in_band,
        columns=columns,
        spreading=counted if p.spreading is None else tuple(p.spreading),
        phases=_phases(p, heldout, t),
        cost=_cost(record, p),
    )


# -- heads


def _classes(record: Record, p: PassTable) -> Classes | None:
    before = next((f"pass-{q.number}" for q in reversed(_standing_before(record, p))), "stock")
    found = record.diagnosis.get(before)
    if found is None:
        return None
    after: DiagnosisTable | None = record.diagnosis.get(f"pass-{p.number}")
    return Classes(before, dict(found.counts), dict(after.counts) if after else None)


def _standing_before(record: Record, p: PassTable) -> list[PassTable]:
    """Passes that were in the model when this one began, as far as the record still tells."""
    return [q for q in record.standing if q.number < p.number]


def _on_stock(record: Record, p: PassTable) -> bool:
    """Whether the pass was cut out of the model as it was loaded."""
    return not _standing_before(record, p)


def _woken(p: PassTable) -> Woken:
    checked = [(check.step, float(check.woken)) for check in p.check]
    at_cut = [] if p.woken_at_cut is None else [(0, float(p.woken_at_cut))]
    curve = trajectory([*at_cut, *checked], WOKEN_TOLERANCE * len(p.target_heads))
    return Woken(
        targets=len(p.target_heads),
        at_cut=p.woken_at_cut,
        after=p.woken if p.ended is not None else p.check[-1].woken if p.check else None,
        curve=curve,
        sank_again=round(curve.highest.value - curve.last.value) if curve and checked else None,
    )


# -- perplexity


def _heldout(p: PassTable) -> Heldout:
    points = [(check.step, check.heldout_perplexity) for check in p.check]
    with_cut = [(0, p.heldout_perplexity_cut), *points]
    least = min((value for _, value in with_cut if value is not None and math.isfinite(value)), default=0.0)
    curve = trajectory(with_cut, PERPLEXITY_TOLERANCE * least)
    checked = trajectory(points)
    stock, best = p.heldout_perplexity_stock, checked.lowest if checked else None
    return Heldout(
        stages=Stages(stock, p.heldout_perplexity_cut, p.heldout_perplexity),
        curve=curve,
        crossed=next((point.step for point in curve.points if point.value <= stock), None) if curve else None,
        best=best,
        best_share=best.step / p.steps if best and p.steps else None,
        above_best=checked.last.value - best.value if checked and best else None,
    )


# -- drift


def _zone_curve(zone: Zone, p: PassTable, on_stock: bool, t: Thresholds) -> ZoneCurve:
    def of(drift: object) -> ZoneDriftTable | None:
        return getattr(drift, zone, None)

    checks = [(check.step, of(check.drift), of(check.drift_training)) for check in p.check]
    cut = of(p.drift_cut) if on_stock else None  # else it is against another model than the checks are
    total = [(0, cut), *((step, table) for step, table, _ in checks)]
    known_tables = [table for _, table in total if table]
    final = of(p.drift) if p.drift else checks[-1][1] if checks else None
    heads = max((table.heads for table in [*known_tables, *([final] if final else [])]), default=0)
    if not heads:
        return ZoneCurve(zone, 0, None, None, None, None)
    tolerance = DRIFT_TOLERANCE * t.spread
    training = [(step, table.mean) for step, _, table in checks if table]
    return ZoneCurve(
        zone=zone,
        heads=heads,
        mean=trajectory(((step, table.mean if table else None) for step, table in total), tolerance),
        drifting=trajectory((step, float(table.drifting) if table else None) for step, table in total),
        training=trajectory([(0, 0.0), *training], tolerance) if training else None,
        final=final,
    )


def _columns(p: PassTable, t: Thresholds) -> tuple[ColumnTrend, ...]:
    out = []
    for index in column_indices(p):
        curve = trajectory(((c.step, c.columns.get(f"H{index}")) for c in p.check), DRIFT_TOLERANCE * t.spread)
        if curve:
            out.append(ColumnTrend(index, curve, curve.change > t.spread))
    return tuple(out)


def column_indices(p: PassTable) -> list[int]:
    """Head indices whose columns the checks tell of: 5 of ``H5``."""
    named = {name for check in p.check for name, mean in check.columns.items() if math.isfinite(mean)}
    return sorted(int(name[1:]) for name in named if re.fullmatch("H(0|[1-9][0-9]*)", name))


def _phases(p: PassTable, heldout: Heldout, t: Thresholds) -> Phases:
    checks = p.check
    if not checks:
        return Phases(0)
    end = checks[-1]
    mark = next((c for c in reversed(checks) if c.step <= EARLY * end.step), checks[0])
    best = next((c for c in checks if heldout.best and c.step == heldout.best.step), None)
    a, b = mark.drift.outside.mean, end.drift.outside.mean
    c, d = mark.drift.in_band_frozen.mean, end.drift.in_band_frozen.mean
    notable = NOTABLE * t.drift
    told, frozen = len(checks) >= LEAST_CHECKS, end.drift.in_band_frozen.heads
    above = heldout.above_best
    return Phases(
        checks=len(checks),
        early=a >= max(notable, EARLY_SHARE * b) if told else None,
        late=d - c >= max(notable, LATE_RATIO * (b - a)) if told and frozen else None,
        mark=mark.step,
        last=end.step,
        outside_mark=a,
        outside_last=b,
        outside_change=b - a,
        early_share=ratio(a, b),
        best=best.step if best else None,
        best_share=ratio(best.drift.outside.mean, b) if best else None,
        in_band_heads=frozen,
        in_band_mark=c if frozen else None,
        in_band_last=d if frozen else None,
        in_band_change=d - c if frozen else None,
        late_ratio=ratio(d - c, b - a) if frozen and b > a else None,
        perplexity_mark=mark.heldout_perplexity,
        perplexity_above_best=ratio(above, heldout.best.value) if heldout.best else None,
    )


# -- what it took


def _cost(record: Record, p: PassTable) -> Cost:
    total = record.patient.parameters if record.patient else None
    seconds = p.training_seconds
    return Cost(
        trained_parameters=p.trained_parameters,
        trained_share=ratio(p.trained_parameters, total),
        touched_parameters=p.touched_tensor_parameters,
        touched_share=ratio(p.touched_tensor_parameters, total),
        trained_tokens=p.trained_tokens,
        training_seconds=seconds,
        tokens_per_second=ratio(p.trained_tokens, seconds),
        wall_seconds=wall_seconds(p),
        memory_bytes_peak=p.memory_bytes_peak,
        memory_bytes_estimated=p.memory_bytes_estimated or None,
    )


def wall_seconds(p: PassTable) -> float | None:
    """Seconds from a pass's start to its end; None before that."""
    try:
        taken = datetime.fromisoformat(p.ended or "") - datetime.fromisoformat(p.started)
    except (ValueError, TypeError):  # no time, or one with a zone and one without
        return None
    return round(taken.total_seconds(), 3)


def ratio(part: float | None, whole: float | None) -> float | None:
    """A share; None where either is not known, or the whole is nothing."""
    return None if part is None or not whole else part / whole
