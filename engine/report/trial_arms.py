"""The sections of a report on several arms that are about one of them."""

from __future__ import annotations

from engine.analysis import ColumnTrend, PassAnalysis
from engine.arms import Arm
from engine.curves import Trajectory
from engine.figures import Run
from engine.report.blocks import Block, Facts, Figure, Figures, Fold, Heading, Paragraph, Table
from engine.report.drifting import columns_picture
from engine.report.found import analysis
from engine.report.grid import change_grid, head_grid
from engine.report.histogram import histogram
from engine.report.material import Material, targets_of
from engine.report.passes import OUTCOMES
from engine.report.trial_material import TrialMaterial
from engine.report.trial_settings import differing, value_told
from engine.report.words import NOT_KNOWN, Code, Text, figure, percent, signed, stage_name
from engine.targets import write

OPEN = 4
"""Arms up to which the pictures of each stand unfolded."""


def arm_sections(m: TrialMaterial) -> list[Block]:
    """A section per arm: what sets it apart, what its curves say, its heads before and after."""
    return [block for arm in m.done for block in _section(m, arm)]


def _section(m: TrialMaterial, arm: Arm) -> list[Block]:
    run, own = m.first(arm)
    if run.found is None or run.pass_ is None:
        return [Heading(2, [f"Arm: {arm.label}"]), Paragraph(["No session of it has come to a pass yet."])]
    which = f" (seed {run.seed})" if len(arm.runs) > 1 else ""
    blocks: list[Block] = [Heading(2, [f"Arm: {arm.label}"]), Facts(_facts(m, arm))]
    if len(arm.runs) > 1:
        blocks += [Heading(3, ["Seed by seed"]), _seeds(arm)]
        trends = _columns(arm)
        blocks += [Heading(3, ["Columns over seeds"]), trends] if trends else []
    blocks += [Heading(3, [f"Analysis{which}"]), *analysis(run.found, own.thresholds)]
    drawn = _pictures(m, arm, run, own)
    if drawn:
        named = [f"Pictures{which}"]
        blocks += [Fold(3, named, [Figures(drawn)], open=len(m.done) <= OPEN)]
    return blocks


def _facts(m: TrialMaterial, arm: Arm) -> list[tuple[str, Text]]:
    alike = [other for other in m.done if other.number == arm.number]
    apart = {name: values[alike.index(arm)] for name, values in differing(alike).items()}
    rows: list[tuple[str, Text]] = [(name, value_told(value)) for name, value in apart.items()]
    p = arm.passes[0]
    heads = targets_of(p)
    (l0, l1), (h0, h1) = p.zone.layers, p.zone.heads
    rows += [
        ("target heads", [f"{len(heads)}: ", Code(write(heads))]),
        ("zone", [f"L{l0}–L{l1} × H{h0}–H{h1}"]),
    ]
    if any(other.pass_ and other.pass_.target_heads != p.target_heads for other in arm.runs):
        rows.append(("over seeds", ["The heads are those of the first seed; they are not alike in all."]))
    rows += [(_session(arm, run), [Code(run.record.session.id), f": {_outcome(run)}"]) for run in arm.runs]
    return rows


def _session(arm: Arm, run: Run) -> str:
    return f"session of seed {run.seed}" if len(arm.runs) > 1 else "session"


def _outcome(run: Run) -> str:
    if run.pass_ is None:
        return f"has not come to this pass ({run.record.session.state})"
    return run.pass_.outcome + (f" ({OUTCOMES[run.pass_.outcome]})" if run.pass_.outcome in OUTCOMES else "")


def _seeds(arm: Arm) -> Table:
    """The shape of each seed's curves, and what its phases rest on."""
    head = ["", *(f"seed {seed}" for seed in arm.seeds)]
    found = [run.found for run in arm.runs]
    rows: list[tuple[str, list[str]]] = [
        ("held-out perplexity: shape", [_shape(f.heldout.curve if f else None) for f in found]),
        ("outside, mean |δ|: shape", [_shape(f.outside.mean if f else None) for f in found]),
        ("in-band frozen, mean |δ|: shape", [_shape(f.in_band_frozen.mean if f else None) for f in found]),
        ("targets woken: shape", [_shape(f.woken.curve if f else None) for f in found]),
        ("early or late", [f.phases.reading if f else NOT_KNOWN for f in found]),
        ("end of the early part, step", [_step(f.phases.mark if f else None) for f in found]),
        ("outside by then, share of its last", [percent(f.phases.early_share if f else None, 0) for f in found]),
        ("outside: change from then on", [_signed(f.phases.outside_change if f else None) for f in found]),
        ("in-band frozen: change from then on", [_signed(f.phases.in_band_change if f else None) for f in found]),
        (
            "held-out perplexity: last above best",
            [percent(f.phases.perplexity_above_best if f else None) for f in found],
        ),
        ("columns that spread", [_spreading(f) for f in found]),
    ]
    return Table(head, [[[label], *([cell] for cell in cells)] for label, cells in rows])


def _shape(curve: Trajectory | None) -> str:
    return (curve.shape if curve else None) or NOT_KNOWN


def _step(step: int | None) -> str:
    return NOT_KNOWN if step is None else str(step)


def _signed(change: float | None) -> str:
    return NOT_KNOWN if change is None else signed(change)


def _spreading(found: PassAnalysis | None) -> str:
    if found is None or not found.phases.checks:
        return NOT_KNOWN
    return ", ".join(f"H{index}" for index in found.spreading) or "none"


def _columns(arm: Arm) -> Table | None:
    """Each column's change from the first check to the last, seed by seed, where the record keeps columns."""
    trends = [{c.index: c for c in run.found.columns} if run.found else {} for run in arm.runs]
    indices = sorted({index for each in trends for index in each})
    if not indices:
        return None
    rows: list[list[Text]] = [[[f"H{index}"], *([_trend(each.get(index))] for each in trends)] for index in indices]
    return Table(["mean |δ| of a head index", *(f"seed {seed}" for seed in arm.seeds)], rows)


def _trend(trend: ColumnTrend | None) -> str:
    if trend is None:
        return NOT_KNOWN
    curve = trend.curve
    return f"{figure(curve.first.value, 4)} → {figure(curve.last.value, 4)}, {curve.shape or 'too short'}"


# -- pictures


def _pictures(m: TrialMaterial, arm: Arm, run: Run, own: Material) -> list[Figure]:
    """Heads before, after and what became of them, and drift by column, of one run."""
    p, found = run.pass_, run.found
    assert p and found
    of = f"{arm.label}, seed {run.seed}"
    t, targets, zone = own.thresholds, frozenset(targets_of(p)), (p.zone.layers, p.zone.heads)
    out = []
    after, stage = own.rows_of(p), found.classes.before_stage if found.classes else ""
    before = own.maps[stage].bos_mass if stage in own.maps else None
    if before:
        svg = head_grid(before, targets, f"{of}: before", t, zone)
        told = f"Every head before the pass ({stage_name(stage)}), targets marked ×, the zone outlined."
        out.append(Figure(m.file(arm, "before"), svg, told))
    if after:
        when = "after" if f"pass-{p.number}" in own.maps else "as last seen"
        svg = head_grid(after, targets, f"{of}: {when}", t, zone)
        out.append(Figure(m.file(arm, "after"), svg, f"Every head {when}."))
    if before and after:
        svg = change_grid(before, after, targets, f"{of}: change", t, zone)
        told = f"Blue fell, orange rose; a circle marks heads left alone that moved by more than {t.drift:g}."
        out.append(Figure(m.file(arm, "change"), svg, told))
        svg = histogram([("before", before), ("after", after)], f"{of}: BOS mass of all heads", t)
        told = "Heads per twentieth of BOS mass; the dashed lines are where the classes begin."
        out.append(Figure(m.file(arm, "histogram"), svg, told))
    if found.columns:
        svg = columns_picture(found.columns, p.zone.heads, f"{of}: drift by column")
        told = "Mean |δ| of the untouched heads of each head index at every check, all on one scale."
        out.append(Figure(m.file(arm, "columns"), svg, told))
    return out
