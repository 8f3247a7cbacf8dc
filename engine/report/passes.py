"""The section of a report that is about one pass."""

from __future__ import annotations

from statistics import fmean
from typing import Any

from engine.analysis import analyse
from engine.printable import size
from engine.report.blocks import Block, Facts, Figures, Heading, Paragraph, Table
from engine.report.corpus import corpus
from engine.report.found import analysis
from engine.report.material import After, Material, after, targets_of
from engine.report.pictures import figures
from engine.report.words import NOT_KNOWN, Code, Text, figure, grouped, perplexity, share
from engine.report.working import working
from engine.tables import PassTable, ZoneDriftTable
from engine.targets import Model, write, zones
from engine.treatments import ALL, told

OUTCOMES = {
    "completed": "all steps were done",
    "patience": "stopped by its patience: the held-out perplexity no longer fell",
    "stopped": "stopped by the operator, the best slices kept",
    "stopped_last": "stopped by the operator, the last slices kept",
    "diverged": "three steps in a row were refused as not finite",
    "failed": "it failed",
    "undone": "the slices got their originals back",
    "running": "it has not ended; figures are those of its last check",
    "paused": "it is paused; figures are those of its last check",
    "out_of_memory": "it stands still, as a step did not fit into memory; figures are those of its last check",
}


def pass_section(m: Material, p: PassTable) -> list[Block]:
    """One pass, from its targets to what its curves say."""
    now, found = after(p), analyse(m.record, p)
    words = f" ({OUTCOMES[p.outcome]})" if p.outcome in OUTCOMES else ""
    outcome = p.outcome + words + (", accepted" if p.accepted else "")
    return [
        Heading(2, [f"Pass {p.number}"]),
        Facts([("outcome", [outcome]), *_what(m, p), *_how(p), *_memory(m, p)]),
        Heading(3, ["Corpus"]),
        *corpus(p),
        Heading(3, ["Woken and working"]),
        *working(m, p, now),
        Heading(3, ["Perplexity"]),
        _perplexities(p, now),
        Heading(3, ["Drift of the heads left alone"]),
        *_drift(m, p, now),
        Heading(3, ["Analysis"]),
        *analysis(found, m.thresholds),
        Figures(figures(m, p, found)),
    ]


def _what(m: Material, p: PassTable) -> list[tuple[str, Text]]:
    """Targets, zone and parameters."""
    targets = targets_of(p)
    (l0, l1), (h0, h1) = p.zone.layers, p.zone.heads
    split = ""
    if m.record.patient:
        total = m.record.patient.parameters
        model = Model(m.record.patient.n_layers, m.record.patient.n_heads)
        _, frozen, outside = zones(targets, model)
        split = f": {len(targets)} targets, {len(frozen)} in-band frozen, {len(outside)} outside"
    else:
        total = 0
    return [
        ("targets as written", [Code(p.targets)]),
        ("target heads", [f"{len(targets)}: ", Code(write(targets))]),
        ("zone", [f"L{l0}–L{l1} × H{h0}–H{h1}{split}"]),
        ("trained parameters", [share(p.trained_parameters, total, 2) + f", {_WHAT[p.treatment]}"]),
        (
            "touched tensors",
            [share(p.touched_tensor_parameters, total, 2) + " parameters, whole tensors that hold a slice"],
        ),
        ("frozen parameters", _frozen(p)),
    ]


_WHAT = dict.fromkeys(ALL, "the slices of the target heads") | {
    "sink_logit": "a logit per target head",
    "placeholder": "the embedding of one token",
    "prune": "the output columns of the target heads became zero",
    "nothing": "nothing was changed",
}


def _frozen(p: PassTable) -> Text:
    if p.frozen_sha256_after is None:
        return ["not compared yet; sha256 before ", Code(p.frozen_sha256_before)]
    if p.frozen_sha256_after == p.frozen_sha256_before:
        return ["equal before and after, every byte; sha256 ", Code(p.frozen_sha256_before)]
    return ["NOT equal: sha256 ", Code(p.frozen_sha256_before), " before, ", Code(p.frozen_sha256_after), " after"]


def _how(p: PassTable) -> list[tuple[str, Text]]:
    """The hyperparameters that matter."""
    cut = told(p.treatment, p.reinit, p.parts, p.init, p.placeholder_text or "")
    if not p.trains:
        return [("operation", [cut]), ("seed", [str(p.seed)])]
    batch = p.length * p.micro_batch * p.accumulate
    done = NOT_KNOWN if p.steps_done is None else grouped(p.steps_done)
    refused = f", {p.refused_steps} refused as not finite" if p.refused_steps else ""
    kept = "" if p.best_step is None else f", the slices of step {p.best_step} kept"
    patience = f"stop after {p.patience} without a better one" if p.patience else "no early stop"
    return [
        ("operation", [cut]),
        *([("sink logits of the targets", [p.sink_logits])] if p.sink_logits else []),
        *([("learned logits", [_logits(p.learned_logits)])] if p.learned_logits else []),
        *([("shared K and V", ["heads that share them with a target are targets too"])] if p.whole_groups else []),
        ("steps", [f"{done} of {grouped(p.steps)} done{refused}{kept}"]),
        (
            "learning rate",
            [f"{p.lr:g} (AdamW, warmup {p.warmup}, then cosine), gradients clipped at {p.clip:g}"],
        ),
        (
            "batch",
            [
                f"{grouped(batch)} tokens a step: length {p.length} × micro-batch {p.micro_batch} × "
                f"accumulation {p.accumulate}"
            ],
        ),
        *([("tokens trained on", [grouped(p.trained_tokens)])] if p.trained_tokens else []),
        ("checks", [f"every {p.check_every} steps, {patience}"]),
        *([("checkpointing", ["activations computed anew in the backward pass"])] if p.checkpointing else []),
        *(("changed by the operator", _change(change)) for change in p.change),
        ("seed", [str(p.seed)]),
    ]


def _logits(values: list[float]) -> str:
    return f"mean {fmean(values):.3f}, {min(values):.3f} to {max(values):.3f}"


def _change(change: dict[str, Any]) -> Text:
    """What was set in mid-pass, and from when on."""
    parts: list[str | Code] = [f"after step {change.get('step', NOT_KNOWN)}: "]
    for name, value in change.items():
        if name != "step":
            parts += [", "] * (len(parts) > 1) + [Code(f"{name} = {str(value).lower()}")]
    return parts


def _memory(m: Material, p: PassTable) -> list[tuple[str, Text]]:
    """What it was estimated to take, and what it took."""
    words = [f"estimated {size(p.memory_bytes_estimated)}"] if p.memory_bytes_estimated else []
    if p.memory_bytes_peak:
        on_gpu = m.record.patient is not None and m.record.patient.device.startswith("cuda")
        what = "allocated on the GPU at the most" if on_gpu else "resident at the most, the whole program counted"
        words.append(f"{size(p.memory_bytes_peak)} {what}")
    return [("memory", ["; ".join(words)])] if words else []


def _perplexities(p: PassTable, now: After) -> Table:
    rows: list[list[Text]] = [
        [
            ["held-out part of the corpus"],
            [perplexity(p.heldout_perplexity_stock)],
            [perplexity(p.heldout_perplexity_cut)],
            [perplexity(now.perplexity)],
        ]
    ]
    if len(p.heldout_sources_stock) > 1:
        for name, stock in p.heldout_sources_stock.items():
            cut, after = ((side or {}).get(name) for side in (p.heldout_sources_cut, p.heldout_sources_after))
            rows.append([["held out of ", Code(name)], [perplexity(stock)], [perplexity(cut)], [perplexity(after)]])
    for name, stock in p.perplexity_stock.items():
        rows.append([[Code(name)], [perplexity(stock)], [""], [perplexity((p.perplexity_after or {}).get(name))]])
    return Table(["text", "stock", "cut", "after" if now.step is None else f"after (step {now.step})"], rows)


def _drift(m: Material, p: PassTable, now: After) -> list[Block]:
    head = ["heads", "moved by", "heads drifting", "mean |δ|", "worst |δ|", "worst head"]
    rows: list[list[Text]] = []
    for zone, name in (("outside", "outside"), ("in_band_frozen", "in-band frozen")):
        for what, drift in (("cut", p.drift_cut), ("training", now.drift_training), ("total", now.drift)):
            z: ZoneDriftTable | None = getattr(drift, zone, None)
            if z and z.heads:
                counts = f"{z.drifting} of {z.heads}"
                rows.append([[name], [what], [counts], [figure(z.mean, 4)], [figure(z.worst, 4)], [z.worst_head]])
    if not rows:
        return [Paragraph(["Not measured yet."])]
    return [
        Table(head, rows),
        Paragraph(
            [
                "δ is the BOS mass after less the one before: of the cut against stock, of the training against the "
                "cut, in total against stock. " + _spreading(m, p)
            ]
        ),
    ]


def _spreading(m: Material, p: PassTable) -> str:
    if p.spreading is None:
        return "Which columns spread is told when the pass has ended."
    if not p.spreading:
        return "No head-index column spread."
    return "Columns that spread: " + ", ".join(_column(m, p, index) for index in p.spreading) + "."


def _column(m: Material, p: PassTable, index: int) -> str:
    """A column with its mean |δ| at the first and last check, where the journal still has them."""
    charted = m.chart_of(p)
    if not charted or not charted.checks:
        return f"H{index}"
    first, last = charted.checks[0].columns[index], charted.checks[-1].columns[index]
    return f"H{index} (mean |δ| {figure(first, 4)} at the first check, {figure(last, 4)} at the last)"
