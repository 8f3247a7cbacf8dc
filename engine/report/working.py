"""The part of a pass's section that is about its targets: woken, and working."""

from __future__ import annotations

from dataclasses import dataclass

from engine.heads import Head, Rows
from engine.report.blocks import Block, Facts, Fold, Paragraph, Table
from engine.report.material import After, Material, targets_of
from engine.report.words import NOT_KNOWN, Text, figure, grouped, signed
from engine.tables import PassTable

SHOWN = 24
"""Targets up to which their table stands unfolded."""


def working(m: Material, p: PassTable, now: After) -> list[Block]:
    """How many targets woke and what they are worth, together and each by itself."""
    at = "" if now.step is None else f" at step {now.step}"
    blocks: list[Block] = [
        Facts(
            [
                (
                    "woken at the cut",
                    [_of(p.woken_at_cut, p) + " targets are below the sink threshold before any training"],
                ),
                ("woken after training", [_of(now.woken, p) + " targets are below it" + at]),
                *([("sink logits", [_resting(p)])] if p.sink_mass_after is not None else []),
                ("working", ["held-out loss lost when the targets are ablated together: " + _together(p)]),
            ]
        )
    ]
    targets = targets_by_head(m, p)
    if targets:
        table = _table(m, p, targets)
        blocks.append(Fold(4, ["Target by target"], [*_about(p), table], open=len(targets) <= SHOWN))
    return blocks


def _of(woken: int | None, p: PassTable) -> str:
    return NOT_KNOWN if woken is None else f"{woken} of {len(p.target_heads)}"


def _resting(p: PassTable) -> str:
    cut = "" if p.sink_mass_cut is None else f" ({figure(p.sink_mass_cut, 3)} at the cut)"
    return (
        f"they take {figure(p.sink_mass_after, 3)} of the targets' weight on average{cut}; position 0 and the logit "
        "together count against the threshold, since a head that rests on its logit is not awake"
    )


def _together(p: PassTable) -> str:
    cut = "" if p.ablation_loss_cut is None else f"cut {figure(p.ablation_loss_cut, 4)} → "
    return f"stock {figure(p.ablation_loss_stock, 4)} → {cut}after {figure(p.ablation_loss_after, 4)} nats"


@dataclass(frozen=True)
class Target:
    """One target's figures; what is None was not measured, or not yet."""

    head: Head
    mass_stock: float | None
    mass_after: float | None
    sink_after: float | None
    """What its sink logit takes; None: it has none."""
    woken: bool | None
    worth_stock: float | None
    worth_cut: float | None
    worth_after: float | None
    """Held-out loss lost when this head alone falls silent, nats per token."""


def targets_by_head(m: Material, p: PassTable) -> list[Target]:
    """The targets of a pass in the order of ``target_heads``; none where nothing was measured of them."""
    stock, after = m.maps["stock"].bos_mass if "stock" in m.maps else None, m.rows_of(p)
    sinks = m.maps[f"pass-{p.number}"].sink_mass if f"pass-{p.number}" in m.maps else []
    stages = (p.ablation_heads_stock, p.ablation_heads_cut, p.ablation_heads_after)
    n = len(p.target_heads)
    worth = [stage if stage and len(stage) == n else [None] * n for stage in stages]
    if not stock and not after and not any(stages):
        return []
    found = []
    for i, head in enumerate(targets_of(p)):
        mass = _mass(after, head)
        sink = _mass(sinks, head)
        woken = None if mass is None else mass + (sink or 0.0) <= m.thresholds.bos_sink
        found.append(Target(head, _mass(stock, head), mass, sink, woken, *(stage[i] for stage in worth)))
    return found


def _mass(rows: Rows | None, head: Head) -> float | None:
    return rows[head.layer][head.head] if rows else None


def _about(p: PassTable) -> list[Block]:
    if not p.ablation_heads_stock:
        return []
    tokens = f" over {grouped(p.ablation_tokens)} predicted tokens" if p.ablation_tokens else ""
    return [
        Paragraph(
            [
                "Worth by itself is the held-out loss lost when this head alone is ablated, in nats per token"
                f"{tokens}. One head can stand in for another, so these need not add up to what the targets are "
                "worth together."
            ]
        )
    ]


def _table(m: Material, p: PassTable, targets: list[Target]) -> Table:
    """A row per target, with the columns that anything is known of."""
    when = "after" if f"pass-{p.number}" in m.maps else "as last seen"
    columns: list[tuple[str, list[str | None]]] = [
        ("BOS mass, stock", [_known(t.mass_stock) for t in targets]),
        (f"BOS mass, {when}", [_known(t.mass_after) for t in targets]),
        ("sink logit's share", [_known(t.sink_after) for t in targets]),
        ("woken", [None if t.woken is None else "yes" if t.woken else "no" for t in targets]),
        ("worth by itself, stock", [_worth(t.worth_stock) for t in targets]),
        ("at the cut", [_worth(t.worth_cut) for t in targets]),
        ("after", [_worth(t.worth_after) for t in targets]),
    ]
    shown = [(name, cells) for name, cells in columns if any(cell is not None for cell in cells)]
    rows: list[list[Text]] = [
        [[str(t.head)], *([cells[i] or NOT_KNOWN] for _, cells in shown)] for i, t in enumerate(targets)
    ]
    return Table(["head", *(name for name, _ in shown)], rows)


def _known(mass: float | None) -> str | None:
    return None if mass is None else figure(mass, 3)


def _worth(nats: float | None) -> str | None:
    return None if nats is None else signed(nats)
