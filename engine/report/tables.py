"""The CSV files: one row per head, per check, per target, per text or per figure of what was written."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

from engine import generation
from engine.analysis import column_indices
from engine.heads import Head, HeadMap
from engine.printable import printable
from engine.report.material import Material, targets_of
from engine.report.working import targets_by_head
from engine.report.worth import by_worth
from engine.tables import DriftTable, PassTable

ZONES = ("outside", "in_band_frozen")
FIGURES = ("drifting", "mean", "worst", "worst_head")


def heads_csv(m: Material) -> str:
    """Stock figures of every head, then BOS mass, class and whether it was a target per standing pass."""
    passes = [(p, m.maps.get(f"pass-{p.number}"), frozenset(targets_of(p))) for p in m.record.standing]
    header = [
        "layer",
        "head",
        "bos_mass",
        "bos_low",
        "bos_high",
        "entropy",
        "entropy_low",
        "entropy_high",
        "class",
        "borderline",
    ]
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
            row.append(yes(head in targets))
        rows.append(row)
    return csv_text(header, rows)


def _stock_row(stock: HeadMap, head: Head) -> list[object]:
    low, high = stock.interval(head)
    entropy = stock.entropy[head.layer][head.head]
    between = stock.entropy_interval(head) if stock.entropy_low else ("", "")
    kind, borderline = stock.class_of(head), yes(stock.is_borderline(head))
    return [head.layer, head.head, stock.mass(head), low, high, entropy, *between, kind, borderline]


def checks_csv(m: Material) -> str:
    """Every check of every pass; step 0 is the cut."""
    indices = sorted({index for p in m.record.passes for index in column_indices(p)})
    return csv_text(["pass", *check_header(indices)], (r for p in m.record.passes for r in check_rows(p, indices)))


def check_header(indices: list[int]) -> list[str]:
    """What ``check_rows`` gives after the number of the pass."""
    kinds = [f"{kind}_{zone}_{name}" for kind in ("drift", "drift_training") for zone in ZONES for name in FIGURES]
    columns = [f"column_H{index}" for index in indices]
    return ["step", "train_loss", "heldout_perplexity", "woken", "best", *kinds, *columns]


def check_rows(p: PassTable, indices: list[int]) -> Iterable[list[object]]:
    if p.woken_at_cut is not None:
        cut = [p.number, 0, "", p.heldout_perplexity_cut, p.woken_at_cut, ""]
        yield [*cut, *_flat(p.drift_cut), *_flat(None), *([""] * len(indices))]
    for check in p.check:
        figures = [check.step, check.train_loss, check.heldout_perplexity, check.woken, yes(check.best)]
        columns = [check.columns.get(f"H{index}", "") for index in indices]
        yield [p.number, *figures, *_flat(check.drift), *_flat(check.drift_training), *columns]


def targets_csv(m: Material) -> str:
    """Every target of every pass; worth by itself in nats per token."""
    header = ["pass", "layer", "head", "bos_mass_stock", "bos_mass_after", "woken"]
    header += ["worth_stock", "worth_cut", "worth_after"]
    rows: list[list[object]] = []
    for p in m.record.passes:
        for t in targets_by_head(m, p):
            mass = [p.number, t.head.layer, t.head.head, t.mass_stock, t.mass_after]
            rows.append([*mass, "" if t.woken is None else yes(t.woken), t.worth_stock, t.worth_cut, t.worth_after])
    return csv_text(header, rows)


def perplexities_csv(m: Material) -> str:
    """Perplexity of the held-out part, of each source's part of it, and of the watched texts, per pass."""
    rows: list[list[object]] = []
    for p in m.record.passes:
        pooled = [p.heldout_perplexity_stock, p.heldout_perplexity_cut, p.heldout_perplexity]
        rows.append([p.number, "heldout", "", *pooled])
        cut, after, watched = (x or {} for x in (p.heldout_sources_cut, p.heldout_sources_after, p.perplexity_after))
        for name, stock in p.heldout_sources_stock.items():
            rows.append([p.number, "heldout_source", shown(name), stock, cut.get(name), after.get(name)])
        for name, stock in p.perplexity_stock.items():
            rows.append([p.number, "watched", shown(name), stock, "", watched.get(name)])
    return csv_text(["pass", "kind", "text", "stock", "cut", "after"], rows)


def generation_csv(m: Material) -> str:
    """The figures of the texts that the model wrote, per stage, over all and per category."""
    names = ("texts", "tokens", *generation.FIGURES)
    rows: list[list[object]] = []
    for stage, table in m.record.generation.items():
        if table.text:
            for over, category, figures in [
                ("all", "", table.figures),
                *(("category", shown(name), figures) for name, figures in table.category.items()),
            ]:
                rows.append([shown(stage), over, category, *(figures.get(name) for name in names)])
    return csv_text(["stage", "over", "category", *names], rows)


def contribution_csv(m: Material) -> str:
    """What every head by itself is worth at each stage, the one worth most first."""
    rows: list[list[object]] = [
        [shown(stage), head.layer, head.head, table.rows[head.layer][head.head]]
        for stage, table in m.record.contribution.items()
        for head in by_worth(table)
    ]
    return csv_text(["stage", "layer", "head", "worth"], rows)


def shown(text: str) -> str:
    """Text from outside as a cell: a spreadsheet would take one that begins so for a formula."""
    text = printable(text)
    return "'" + text if text.startswith(("=", "+", "-", "@")) else text


def _flat(drift: DriftTable | None) -> list[object]:
    return [getattr(getattr(drift, zone), name) if drift else "" for zone in ZONES for name in FIGURES]


def yes(value: bool) -> str:
    return "yes" if value else "no"


def csv_text(header: list[str], rows: Iterable[Sequence[object]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return out.getvalue()
