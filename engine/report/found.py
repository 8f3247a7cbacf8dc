"""The part of a pass's section that is worked out of its checks: trajectories, phases, columns, and what it took."""

from __future__ import annotations

from engine.analysis import (
    DRIFT_TOLERANCE,
    EARLY_SHARE,
    LATE_RATIO,
    NOTABLE,
    PERPLEXITY_TOLERANCE,
    PassAnalysis,
    Phases,
    ZoneCurve,
)
from engine.curves import LEAST_VALUES, TREND, TURNS, Trajectory
from engine.heads import CLASSES, Thresholds
from engine.report.blocks import Block, Facts, Fold, Paragraph, Table
from engine.report.words import NOT_KNOWN, Text, figure, grouped, percent, perplexity, signed, stage_name

SHOWN = 16
"""Columns up to which their table stands unfolded."""


def analysis(found: PassAnalysis, t: Thresholds) -> list[Block]:
    """What the curves of a pass say, with the figures that it rests on."""
    blocks: list[Block] = [Facts(_facts(found))]
    rows = _trajectories(found)
    if not rows:
        return [*blocks, Paragraph(["There are no checks yet, so there are no curves."])]
    head = ["over the checks", "first", "last", "lowest", "at step", "highest", "at step", "shape"]
    blocks += [Table(head, rows), Paragraph([_shapes(t)])]
    if found.columns:
        columns: list[Block] = [_columns(found), Paragraph([_about_columns(t)])]
        blocks.append(Fold(4, ["Column by column"], columns, open=len(found.columns) <= SHOWN))
    return [*blocks, Facts([("early or late", [found.phases.reading])]), *_phases(found.phases, t)]


# -- facts


def _facts(found: PassAnalysis) -> list[tuple[str, Text]]:
    rows: list[tuple[str, Text]] = []
    if found.classes:
        rows.append(("heads by class", [_classes(found)]))
    if found.heldout.curve:
        rows.append(("held-out perplexity", [_heldout(found)]))
    if found.woken.sank_again is not None and found.woken.curve:
        rows.append(("sank again", [_relapse(found)]))
    cost = found.cost
    if cost.wall_seconds is not None:
        rows.append(("time", [_time(found)]))
    if cost.tokens_per_second is not None:
        rows.append(
            ("training speed", [f"{grouped(round(cost.tokens_per_second))} tokens a second, of the steps alone"])
        )
    return rows


def _classes(found: PassAnalysis) -> str:
    assert found.classes
    before, after = found.classes.before, found.classes.after
    told = [f"{name} {before.get(name, 0)} → {NOT_KNOWN if after is None else after.get(name, 0)}" for name in CLASSES]
    return ", ".join(told) + f" ({stage_name(found.classes.before_stage)} → after)"


def _heldout(found: PassAnalysis) -> str:
    h = found.heldout
    crossed = (
        "never at or below stock"
        if h.crossed is None
        else "at or below stock from the cut on"
        if h.crossed == 0
        else f"first at or below stock at step {h.crossed}"
    )
    if h.best is None or h.above_best is None:
        return crossed
    share = f", {percent(h.best_share, 0)} of the planned steps" if h.best_share is not None else ""
    end = (
        "the last check is the best"
        if h.above_best == 0
        else f"the last check is {perplexity(h.above_best)} above it ({percent(h.above_best / h.best.value)})"
    )
    return f"{crossed}; best {perplexity(h.best.value)} at step {h.best.step}{share}; {end}"


def _relapse(found: PassAnalysis) -> str:
    w = found.woken
    assert w.curve
    if not w.sank_again:
        return f"none that the counts show: at the last check as many are woken as ever, {w.curve.last.value:.0f}"
    return (
        f"at least {w.sank_again}: {w.curve.highest.value:.0f} of {w.targets} were woken at step "
        f"{w.curve.highest.step}, {w.curve.last.value:.0f} at the last check"
    )


def _time(found: PassAnalysis) -> str:
    cost = found.cost
    told = f"{_seconds(cost.wall_seconds)} from start to end"
    return told + (f", {_seconds(cost.training_seconds)} of them in steps" if cost.training_seconds else "")


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return NOT_KNOWN
    return (
        f"{seconds:.0f} s"
        if seconds < 600
        else f"{seconds / 60:.0f} min"
        if seconds < 6 * 3600
        else f"{seconds / 3600:.1f} h"
    )


# -- trajectories


def _trajectories(found: PassAnalysis) -> list[list[Text]]:
    curves: list[tuple[str, Trajectory | None, int]] = [
        ("held-out perplexity", found.heldout.curve, 2),
        ("targets woken", found.woken.curve, 0),
        *_zone_rows("outside", found.outside),
        *_zone_rows("in-band frozen", found.in_band_frozen),
    ]
    return [
        [
            [name],
            [figure(c.first.value, digits)],
            [figure(c.last.value, digits)],
            [figure(c.lowest.value, digits)],
            [str(c.lowest.step)],
            [figure(c.highest.value, digits)],
            [str(c.highest.step)],
            [c.shape or NOT_KNOWN],
        ]
        for name, c, digits in curves
        if c and found.phases.checks
    ]


def _zone_rows(name: str, zone: ZoneCurve) -> list[tuple[str, Trajectory | None, int]]:
    return [
        (f"{name}: mean |δ| against stock", zone.mean, 4),
        (f"{name}: heads drifting, of {zone.heads}", zone.drifting, 0),
        (f"{name}: mean |δ| against the cut", zone.training, 4),
    ]


def _shapes(t: Thresholds) -> str:
    pairs, apart, moved = percent((1 + TREND) / 2, 0), percent(PERPLEXITY_TOLERANCE, 0), DRIFT_TOLERANCE * t.spread
    return (
        "Step 0 is the cut. A shape goes by the order of the values: rising or falling where the last value differs "
        f"from the first and at least {pairs} of all pairs of checks that differ go that way; a plateau where no two "
        f"differ; oscillating where it turns {TURNS} times or more through a quarter of its range; mixed otherwise. "
        f"Perplexities differ by more than {apart} of the lowest, mean |δ| by more than {moved:g}, "
        f"and all by more than a twentieth of the curve's range. Under {LEAST_VALUES} values have no shape."
    )


def _columns(found: PassAnalysis) -> Table:
    rows: list[list[Text]] = [
        [
            [f"H{c.index}"],
            [figure(c.curve.first.value, 4)],
            [figure(c.curve.last.value, 4)],
            [signed(c.curve.change)],
            [c.curve.shape or NOT_KNOWN],
            ["yes" if c.spreads else "no"],
        ]
        for c in found.columns
    ]
    return Table(["head index", "first check", "last check", "change", "shape", "spreads"], rows)


def _about_columns(t: Thresholds) -> str:
    return (
        "Mean |δ| against stock of the untouched heads of a head index; a column spreads where it rose by more than "
        f"{t.spread:g} from the first check to the last."
    )


# -- phases


def _phases(p: Phases, t: Thresholds) -> list[Block]:
    if p.mark is None:
        return []
    notable, share = NOTABLE * t.drift, percent(EARLY_SHARE, 0)
    rows = [_way("outside: mean |δ|", p.outside_mark, p.outside_last, p.outside_change)]
    if p.in_band_heads:
        rows.append(_way("in-band frozen: mean |δ|", p.in_band_mark, p.in_band_last, p.in_band_change))
    return [
        Table(["", f"end of the early part (step {p.mark})", f"last check (step {p.last})", "change"], rows),
        Paragraph([" ".join(_evidence(p))]),
        Paragraph(
            [
                "The early part ends with the last check of the first third of the steps. Redistribution is called "
                f"early where the outside's mean |δ| is then {notable:g} or more and at least {share} of its "
                "last value; decay is called late where from then on that of the in-band frozen heads rose by "
                f"{notable:g} or more and at least {LATE_RATIO:g} times as much as the outside's. These are readings "
                "of the drift alone; what it is worth is for the reader to say."
            ]
        ),
    ]


def _way(name: str, mark: float | None, last: float | None, change: float | None) -> list[Text]:
    return [[name], [figure(mark, 4)], [figure(last, 4)], [NOT_KNOWN if change is None else signed(change)]]


def _evidence(p: Phases) -> list[str]:
    told = []
    if p.early_share is not None:
        told.append(f"By step {p.mark} the outside had {percent(p.early_share, 0)} of its last mean |δ|")
        told[-1] += (
            f", by the best check (step {p.best}) {percent(p.best_share, 0)}." if p.best_share is not None else "."
        )
    if p.in_band_change is not None:
        ratio = (
            f"{p.late_ratio:.1f} times the outside's change"
            if p.late_ratio is not None
            else "while the outside's did not rise"
        )
        told.append(f"From there on the in-band frozen heads' changed by {signed(p.in_band_change)}, {ratio}.")
    if p.perplexity_above_best is not None:
        told.append(
            "The held-out perplexity ends at its best."
            if p.perplexity_above_best == 0
            else f"The held-out perplexity ends {percent(p.perplexity_above_best)} above its best."
        )
    return told
