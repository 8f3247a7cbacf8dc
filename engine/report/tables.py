"""The CSV files: one row per head, one row per check."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from engine.heads import Head, HeadMap
from engine.record import DriftTable, PassTable
from engine.report.material import Material, targets_of

ZONES = ("outside", "in_band_frozen")
FIGURES = ("drifting", "mean", "worst", "worst_head")


def heads_csv(m: Material) -> str:
    """Stock figures of every head, then BOS mass, class and whether it was a target per standing pass."""
    passes = [(p, m.maps.get(f"pass-{p.number}"), frozenset(targets_of(p))) for p in m.standing]
    header = ["layer", "head", "bos_mass", "bos_low", "bos_high", "entropy", "class", "borderline"]
    for p, _, _ in passes:
        header += [f"pass_{p.number}_{name}" for name in ("bos_mass", "class", "target")]
    rows = []
    stock = m.maps.get("stock")
    for head in stock.heads() if stock else ():
        assert stock is not None
        row = _stock_row(stock, head)
        for _, after, targets in passes:
            # a worker that died between the end of a pass and its diagnosis leaves no map
            row += [after.mass(head), after.class_of(head)] if after else ["", ""]
            row.append(_yes(head in targets))
        rows.append(row)
    return _csv(header, rows)


def _stock_row(stock: HeadMap, head: Head) -> list[object]:
    low, high = stock.interval(head)
    entropy = stock.entropy[head.layer][head.head]
    kind, borderline = stock.class_of(head), _yes(stock.is_borderline(head))
    return [head.layer, head.head, stock.mass(head), low, high, entropy, kind, borderline]


def checks_csv(m: Material) -> str:
    """Every check of every pass; step 0 is the cut."""
    header = ["pass", "step", "train_loss", "heldout_perplexity", "woken", "best"]
    for kind in ("drift", "drift_training"):
        header += [f"{kind}_{zone}_{name}" for zone in ZONES for name in FIGURES]
    return _csv(header, (row for p in m.record.passes for row in _check_rows(p)))


def _check_rows(p: PassTable) -> Iterable[list[object]]:
    if p.woken_at_cut is not None:
        yield [p.number, 0, "", p.heldout_perplexity_cut, p.woken_at_cut, "", *_flat(p.drift_cut), *_flat(None)]
    for check in p.check:
        figures = [check.step, check.train_loss, check.heldout_perplexity, check.woken, _yes(check.best)]
        yield [p.number, *figures, *_flat(check.drift), *_flat(check.drift_training)]


def _flat(drift: DriftTable | None) -> list[object]:
    return [getattr(getattr(drift, zone), name) if drift else "" for zone in ZONES for name in FIGURES]


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _csv(header: list[str], rows: Iterable[Sequence[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()
