"""The pictures of one pass: head grids before, after and of the change, histogram, curves, drift."""

from __future__ import annotations

from engine.analysis import PassAnalysis
from engine.report.blocks import Figure
from engine.report.curve import Curve, curve_picture
from engine.report.drifting import columns_picture, zones_picture
from engine.report.grid import change_grid, head_grid
from engine.report.histogram import histogram
from engine.report.material import Material, best_check, targets_of
from engine.report.words import stage_name
from engine.tables import PassTable


def figures(m: Material, p: PassTable, found: PassAnalysis) -> list[Figure]:
    """As far as the pass has come."""
    return [*_grids(m, p, found), *_curves(m, p, found)]


def _grids(m: Material, p: PassTable, found: PassAnalysis) -> list[Figure]:
    """Every head before the pass and after it, what became of it, and how many have how much BOS mass."""
    after = m.rows_of(p)
    if not after:
        return []
    n, t, targets = p.number, m.thresholds, frozenset(targets_of(p))
    zone = (p.zone.layers, p.zone.heads)
    when = f"after pass {n}" if f"pass-{n}" in m.maps else f"as last seen in pass {n}"
    grid = head_grid(after, targets, f"BOS mass {when}", t, zone)
    out = [Figure(f"grid-pass-{n}.svg", grid, f"Every head {when}, targets marked ×, the zone outlined.")]
    stage = found.classes.before_stage if found.classes else ""
    if stage not in m.maps:
        return out
    before, was = m.maps[stage].bos_mass, "stock" if stage == "stock" else stage_name(stage)
    first = head_grid(before, targets, f"BOS mass before pass {n}", t, zone)
    change = change_grid(before, after, targets, f"Change by pass {n}", t, zone)
    bars = histogram([(was, before), (when, after)], f"Pass {n}: BOS mass of all heads", t)
    gained = (
        f"What the BOS mass of every head gained from {was} to {when}: blue fell, orange rose. A circle marks heads "
        f"left alone that moved by more than {t.drift:g}."
    )
    counted = f"Heads per twentieth of BOS mass, {was} and {when}; the dashed lines are where the classes begin."
    return [
        Figure(f"grid-before-pass-{n}.svg", first, f"Every head before pass {n} ({was}), its targets and zone marked."),
        *out,
        Figure(f"change-pass-{n}.svg", change, gained),
        Figure(f"histogram-pass-{n}.svg", bars, counted),
    ]


def _curves(m: Material, p: PassTable, found: PassAnalysis) -> list[Figure]:
    """Perplexity and drift over the steps."""
    n, out = p.number, []
    curve = _curve(m, p)
    if curve.heldout:
        caption = "Training and held-out perplexity; step 0 is the cut, the dashed line is the model as loaded."
        out.append(Figure(f"curve-pass-{n}.svg", curve_picture(curve, f"Pass {n}: perplexity"), caption))
    by_zone = zones_picture(found, f"Pass {n}: drift by zone")
    if by_zone:
        caption = "Mean |δ| of the heads left alone, against stock, at every check."
        out.append(Figure(f"drift-pass-{n}.svg", by_zone, caption))
    if found.columns:
        by_column = columns_picture(found.columns, p.zone.heads, f"Pass {n}: drift by column")
        caption = "Mean |δ| of the untouched heads of each head index at every check, all on one scale."
        out.append(Figure(f"columns-pass-{n}.svg", by_column, caption))
    return out


def _curve(m: Material, p: PassTable) -> Curve:
    charted = m.chart_of(p)
    if charted:
        train = [(step.step, step.loss) for step in charted.steps]
    else:
        train = [(check.step, check.train_loss) for check in p.check]
    heldout = [(check.step, check.heldout_perplexity) for check in p.check]
    if p.heldout_perplexity_cut is not None:
        heldout.insert(0, (0, p.heldout_perplexity_cut))
    best = best_check(p)
    return Curve(
        train=train,
        heldout=heldout,
        stock=p.heldout_perplexity_stock,
        best=(best.step, best.heldout_perplexity) if best else None,
        steps=p.steps,
    )
