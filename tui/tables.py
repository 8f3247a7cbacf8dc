"""Tables of a pass for the sheets: its checks, its targets one by one, its columns. Plain functions."""

from __future__ import annotations

import math

from engine.chart import Chart, PassChart
from engine.drift import spreading
from engine.heads import Head, HeadMap, Rows, Thresholds, resting
from tui.chartlines import number
from tui.figures import QUIET, STRONG, WARM, Line, Part, line
from tui.palette import plain

BEST = "◆"
WORKING = 0.001
"""Nats: a target alone counts as working where its silence costs more than this."""


def history(chart: Chart, pass_: PassChart) -> list[Line]:
    """Every check, what was set in between, and the notes."""
    known = pass_.checks[-1].drift if pass_.checks else None
    zones = f"drifting of {known.outside.heads} outside, of {known.in_band_frozen.heads} in-band" if known else ""
    lines = [
        line((f" {'':<29}{zones}", QUIET)),
        line((" check  train held-out woken  outside  mean    in-band  mean", QUIET)),
    ]
    for check in pass_.checks:
        out, inside = check.drift.outside, check.drift.in_band_frozen
        text = f" {check.step:>5} {number(math.exp(min(check.train_loss, 700))):>6} "
        text += f"{number(check.heldout_perplexity):>8} {check.woken:>5}"
        text += f"  {out.drifting:>7}  {out.mean:.4f}  {inside.drifting:>7}  {inside.mean:.4f}"
        lines.append(line(text, (f" {BEST}" if check is pass_.best else "", STRONG)))
    for change in pass_.changes:
        values = ", ".join(f"{name} {value}" for name, value in change.values.items())
        lines.append(line((f" from step {change.step} on: ", QUIET), plain(values)))
    if chart.notes:
        lines.append(line(("\n Notes", STRONG)))
    lines += [line((f" {time[:19].replace('T', ' ')}  ", QUIET), plain(text, 400)) for time, text in chart.notes]
    return lines


def target_rows(pass_: PassChart, before: HeadMap, after: Rows, sinks: Rows, limit: float) -> list[Line]:
    """Each target: BOS mass before and after, woken or not, and what its own silence costs."""
    rests = resting(after, sinks)
    started, ended, cut = pass_.started, pass_.ended, pass_.cut
    stock = started.ablation_heads_stock
    at_cut = cut.ablation_heads if cut else []
    at_end = ended.ablation_heads_after if ended else []
    header = "before → after + logit" if sinks else "before → after"
    wide = len(header) + (1 if sinks else 4)
    lines = [
        line((f" target     {'BOS mass':<{wide}}woken   loss when silent alone, nats", QUIET)),
        line((f" {'':<10} {header:<{wide}}       {'stock':>7} {'cut':>7} {'after':>7}", QUIET)),
    ]
    for index, head in enumerate(pass_.targets):
        woken = rests[head.layer][head.head] <= limit
        mass = f"{before.mass(head):.3f} → {after[head.layer][head.head]:.3f}"
        mass += f" + {sinks[head.layer][head.head]:.3f}" if sinks else ""
        figures = "".join(f" {_nats(values, index):>7}" for values in (stock, at_cut, at_end))
        works = "  working" if index < len(at_end) and at_end[index] > WORKING else ""
        lines.append(
            line(
                (f" {head!s:<10}", STRONG), f" {mass:<{wide}}",
                ("woken  " if woken else "sick   ", "" if woken else WARM), figures, works,
            )
        )  # fmt: skip
    if not stock:
        lines.append(line((" the losses of single heads were not measured in this pass", QUIET)))
    return lines


def target_list(pass_: PassChart, before: HeadMap, after: Rows, sinks: Rows, cursor: Head, rows: int) -> list[Line]:
    """The same in 40 columns and at most ``rows`` rows, around the cursor."""
    rests = resting(after, sinks)
    stock = pass_.started.ablation_heads_stock
    ended = pass_.ended.ablation_heads_after if pass_.ended else []
    limit, targets = before.thresholds.bos_sink, pass_.targets
    at = sum(head < cursor for head in targets)
    first = at // max(1, rows - 1) * max(1, rows - 1)  # by whole pages, so that a cursor key changes little
    lines = [line((" head      mass           alone, nats", QUIET))]
    for index, head in list(enumerate(targets))[first : first + rows - 1]:
        mass, woken = after[head.layer][head.head], rests[head.layer][head.head] <= limit
        nats = f"{_short(stock, index)} → {_short(ended, index)}" if ended else ""
        lines.append(
            line(
                (f"{'>' if head == cursor else ' '}{head!s:<9}", STRONG), f"{before.mass(head):.2f} → {mass:.2f} ",
                ("o  " if woken else "×  ", "" if woken else WARM), (nats, QUIET),
            )
        )  # fmt: skip
    return lines


def working(pass_: PassChart) -> tuple[int, int] | None:
    """(targets whose own silence costs something after the pass, of how many); None: not measured."""
    values = pass_.ended.ablation_heads_after if pass_.ended else []
    return (sum(value > WORKING for value in values), len(values)) if values else None


def column_rows(pass_: PassChart, t: Thresholds) -> list[Line]:
    """Mean |drift| of untouched heads per head index: at the cut, at the first and at the last check."""
    steps: list[tuple[str, list[float | None]]] = []
    if pass_.cut:
        steps.append(("cut", pass_.cut.columns))
    if pass_.checks:
        steps.append((f"step {pass_.checks[0].step}", pass_.checks[0].columns))
    if len(pass_.checks) > 1:
        steps.append((f"step {pass_.checks[-1].step}", pass_.checks[-1].columns))
    if not steps:
        return [line((" nothing was measured yet", QUIET))]
    spread = spreading(pass_.checks[0].columns, pass_.checks[-1].columns, t) if len(pass_.checks) > 1 else []
    lines = [line((" column   " + "".join(f"{name:>10}" for name, _ in steps), QUIET))]
    for index in range(len(steps[0][1])):
        values = "".join(f"{'–' if (v := column[index]) is None else f'{v:.4f}':>10}" for _, column in steps)
        parts: list[Part] = [(f" H{index:<8}", STRONG), values]
        lines.append(line(*parts, ("  spreads" if index in spread else "", WARM)))
    lines.append(line((f" a column spreads when its mean rose by more than {t.spread:g} since the first check", QUIET)))
    return lines


def _short(values: list[float], index: int) -> str:
    return f"{values[index]:.3f}" if index < len(values) else "–"


def _nats(values: list[float], index: int) -> str:
    return f"{values[index]:+.4f}" if index < len(values) else "–"
