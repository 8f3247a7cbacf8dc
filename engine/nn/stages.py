"""What a pass measures of the model before it begins, after the cut, at each check and at its end.

Each function looks at the weights as they stand; none changes them.
"""

from __future__ import annotations

from collections.abc import Generator

from torch import Tensor

from engine import events
from engine.drift import Drift, column_means, drift, spreading
from engine.files import sha256_of
from engine.heads import HeadMap, Rows, woken
from engine.nn.attention import measure, rest_rows
from engine.nn.memory import peak_bytes
from engine.nn.patch import taken_off
from engine.nn.setting import Setting
from engine.nn.slices import Slices
from engine.nn.state import Progress
from engine.nn.vitals import (
    ablation_loss,
    dormancy,
    mean_loss,
    perplexities,
    perplexity,
    pooled,
    silence_each,
    text_losses,
)
from engine.preflight import memory_bytes, sink_logits
from engine.targets import zone_of

ABLATION_SAMPLES = 16
"""Held-out samples on which each target is silenced by itself; on all of them it would take too long."""


def started(s: Setting, slices: Slices) -> Generator[events.Event, None, events.PassStarted]:
    """The model as it was loaded, and what the pass is to do. Earlier passes are taken off meanwhile."""
    a, plan, patient, embedding = s.patient.anatomy, s.plan, s.patient, slices.embedding
    layers, heads = zone_of(s.targets)
    with taken_off(patient, s.earlier):
        stock, sources = heldout(s)
        ablation = ablation_loss(patient, s.targets, s.corpus.all_heldout, stock)
        each = yield from silenced(s)
        other = perplexities(patient, s.other)
    before = heldout(s)[0] if s.earlier else stock
    return events.PassStarted(
        number=s.number,
        plan=plan.model_dump(),
        target_heads=[str(head) for head in s.targets],
        zone_layers=layers,
        zone_heads=heads,
        steps=s.n_steps,
        warmup=s.warmup,
        trained_parameters=a.trained_parameters(s.targets, plan.touched) if plan.trains else 0,
        touched_tensor_parameters=a.touched_tensor_parameters(s.targets, plan.touched),
        corpus=s.corpus.sources,
        heldout_perplexity_stock=perplexity(stock),
        heldout_perplexity_before=perplexity(before),
        heldout_sources_stock=sources,
        ablation_loss_stock=ablation,
        ablation_heads_stock=each,
        ablation_tokens=len(few(s)) * (plan.length - 1),
        perplexity_stock=other,
        memory_bytes=memory_bytes(a, s.targets, plan, patient.dtype, patient.context),
        sink_logits=sink_logits(a, plan),
        placeholder=embedding.token if embedding else None,
        placeholder_text=patient.tokenizer.decode([embedding.token]) if embedding else "",
        frozen_sha256_before=slices.frozen_sha256(),
    )


def cut(s: Setting) -> Generator[events.Event, None, events.Cut]:
    """After the treatment has been begun and before any training."""
    rows, sinks = rest_rows(s.patient, s.probe_ids())
    loss, sources = heldout(s)
    each = yield from silenced(s)
    return events.Cut(
        number=s.number,
        bos_mass=rows,
        sink_mass=sinks,
        woken=awake(s, rows, sinks),
        heldout_perplexity=perplexity(loss),
        heldout_sources=sources,
        ablation_loss=ablation_loss(s.patient, s.targets, s.corpus.all_heldout, loss),
        ablation_heads=each,
        drift=moved(s, s.before.bos_mass, rows),
        columns=columns(s, rows),
    )


def check(s: Setting, progress: Progress, at_cut: events.Cut) -> events.Check:
    """One evaluation inside the training."""
    rows, sinks = rest_rows(s.patient, s.probe_ids())
    found = perplexity(heldout(s)[0])
    train_loss = progress.loss_sum / progress.loss_steps if progress.loss_steps else 0.0
    return events.Check(
        number=s.number,
        step=progress.step,
        train_loss=round(train_loss, 6),
        heldout_perplexity=found,
        woken=awake(s, rows, sinks),
        bos_mass=rows,
        sink_mass=sinks,
        drift=moved(s, s.stock.bos_mass, rows),
        drift_training=moved(s, at_cut.bos_mass, rows),
        columns=columns(s, rows),
        best=progress.best_perplexity is None or found < progress.best_perplexity,
    )


def ended(
    s: Setting, slices: Slices, progress: Progress, at_cut: events.Cut, kept: int
) -> Generator[events.Event, None, events.PassEnded]:
    """The model with the slices that were kept, whose patch is on the disk. Yields its Diagnosed on the way."""
    after: HeadMap | None = None
    for done in measure(s.patient, s.probes, s.stock.thresholds):
        if isinstance(done, HeadMap):
            after = done
        else:
            yield events.Progress(what="diagnosing", done=done, total=len(s.probes))
    assert after is not None
    loss, sources = heldout(s)
    each = yield from silenced(s)
    now = columns(s, after.bos_mass)
    yield events.Diagnosed(stage=f"pass-{s.number}", head_map=after, mlp_dormancy=dormancy(s.patient))
    return events.PassEnded(
        number=s.number,
        outcome=progress.outcome,
        step=progress.step,
        kept_step=kept,
        heldout_perplexity=perplexity(loss),
        woken=awake(s, after.bos_mass, after.sink_mass),
        heldout_sources=sources,
        ablation_loss_after=ablation_loss(s.patient, s.targets, s.corpus.all_heldout, loss),
        ablation_heads_after=each,
        perplexity_after=perplexities(s.patient, s.other),
        drift=moved(s, s.stock.bos_mass, after.bos_mass),
        drift_training=moved(s, at_cut.bos_mass, after.bos_mass),
        spreading=spreading(progress.first_columns or now, now, s.stock.thresholds),
        refused_steps=progress.refused,
        frozen_sha256_after=slices.frozen_sha256(),
        patch_sha256=sha256_of(s.patch),
        peak_memory_bytes=peak_bytes(s.patient.device),
        trained_tokens=progress.tokens,
        learned_logits=slices.logits(),
    )


def heldout(s: Setting) -> tuple[float, dict[str, float]]:
    """Loss in nats per predicted token over the whole held-out part, and perplexity per source."""
    losses = text_losses(s.patient, {name: [part] for name, part in s.corpus.heldout.items()})
    return pooled(losses.values()).loss, {name: found.perplexity for name, found in losses.items()}


def few(s: Setting) -> Tensor:
    """Held-out samples for what has to be done head by head, evenly from all of them  # (n, length)"""
    all_ = s.corpus.all_heldout
    return all_[:: max(1, len(all_) // ABLATION_SAMPLES)][:ABLATION_SAMPLES]


def silenced(s: Setting) -> Generator[events.Event, None, list[float]]:
    """What each target by itself is worth: nats that the held-out loss loses when it falls silent."""
    samples, worth = few(s), list[float]()
    for found in silence_each(s.patient, s.targets, samples, mean_loss(s.patient, samples)):
        if isinstance(found, list):
            worth = found
        elif found % 8 == 0:
            yield events.Progress(what="silencing each target", done=found, total=len(s.targets))
    return worth


def awake(s: Setting, rows: Rows, sinks: Rows) -> int:
    """Targets that rest neither on position 0 nor on a sink logit."""
    return woken(rows, sinks, s.targets, s.stock.thresholds)


def moved(s: Setting, before: Rows, after: Rows) -> Drift:
    """Drift of the heads that were left alone."""
    return drift(before, after, s.zones, s.stock.thresholds)


def columns(s: Setting, rows: Rows) -> list[float | None]:
    """Mean drift against stock of each head index, over heads that were left alone."""
    return column_means(s.stock.bos_mass, rows, s.zones[1] | s.zones[2])
