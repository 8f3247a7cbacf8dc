"""The pass: cut, train the slices, check, keep the best. A generator of typed events.

Everything a resume needs lies in one file (``engine.nn.state``), so a kill at any moment leaves the
last good state.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from engine import events
from engine.drift import column_means, drift, spreading
from engine.errors import Failure, InputError
from engine.files import require_space, sha256_of
from engine.heads import Head, HeadMap, Rows, woken
from engine.nn.attention import levels, measure, rest_rows
from engine.nn.corpus import Order
from engine.nn.embedding import stand_before
from engine.nn.memory import forget_peak, is_out_of_memory, peak_bytes
from engine.nn.patch import Patch, save_patch, take_off, taken_off
from engine.nn.setting import Setting
from engine.nn.slices import Slices
from engine.nn.state import Progress, load_state, save_state
from engine.nn.training import checkpointed, gradients, learning_rate, update
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
from engine.plan import changes
from engine.preflight import files_bytes, lowest_layer, memory_bytes, sink_logits, smaller
from engine.targets import Model, zone_of, zones

Command = dict[str, Any]
Inbox = Callable[[], list[Command]]
Answer = Callable[[Command], Iterator[events.Event]]
REFUSED_IN_A_ROW = 3
STATE = "state.safetensors"
ABLATION_SAMPLES = 16
"""Held-out samples on which each target is silenced by itself; on all of them it would take too long."""


def no_answer(command: Command) -> Iterator[events.Event]:
    """Nothing is looked at while the pass runs."""
    yield from ()


def operate(
    setting: Setting, inbox: Inbox, interrupted: events.Cut | None = None, answer: Answer = no_answer
) -> Iterator[events.Event]:
    """Run a pass from the start, or from its saved state where ``interrupted`` gives its cut.

    Yields PassStarted, Cut, Step …, Check …, Saved …, PassEnded and a Diagnosed of the result;
    Resumed instead of the first two when it goes on. The patient ends with the kept slices in it.

    Args:
        answer: carries out a command that only looks at the model

    Raises:
        InputError: a full disk, or a damaged state.
        Failure: out of memory in mid-pass; the state is kept.
    """
    patient, plan = setting.patient, setting.plan
    forget_peak(patient.device)
    slices = Slices(patient, setting.targets, plan.touched)
    originals = slices.values()
    group = {"params": list(slices.masters().values())}  # of a treatment that trains nothing there may be none
    optimizer = torch.optim.AdamW([group], lr=plan.lr, weight_decay=0.0)
    theatre = _Theatre(setting, slices, originals, optimizer, inbox, answer)
    if interrupted is None:
        yield (yield from theatre.start())
        slices.cut(plan, levels(patient, setting.probe_ids()) if plan.treatment == "sink_logit" else None)
        if plan.treatment == "placeholder":
            stand_before(patient)
        yield (yield from theatre.cut())
        yield theatre.save()
    else:
        theatre.cut_event = interrupted
        theatre.load()
        if plan.treatment == "placeholder":
            stand_before(patient)
        yield events.Resumed(number=setting.number, step=theatre.progress.step)
    try:
        with slices.training():
            yield from theatre.train()
    except Failure:
        take_off(patient, theatre.patch(originals))  # as a resume expects to find it, in this process or another
        raise
    yield from theatre.finish()


class _Theatre:
    """The state of a running pass."""

    def __init__(
        self,
        setting: Setting,
        slices: Slices,
        originals: dict[str, Tensor],
        optimizer: torch.optim.Optimizer,
        inbox: Inbox,
        answer: Answer,
    ) -> None:
        self.setting = setting
        self.plan = setting.plan
        self.patient = setting.patient
        self.slices = slices
        self.originals = originals
        self.optimizer = optimizer
        self.inbox = inbox
        self.answer = answer
        self.state = setting.folder / STATE
        self.progress = Progress()
        self.best: dict[str, Tensor] = {}
        self.order = Order(len(setting.corpus.train), self.plan.seed)
        earlier = frozenset(Head.parse(name) for patch in setting.earlier for name in patch.about["target_heads"])
        self.zones = zones(setting.targets, Model.of(setting.stock), earlier)
        self.cut_event: events.Cut | None = None

    # -- before step 1

    def start(self) -> Generator[events.Event, None, events.PassStarted]:
        s, a, patient = self.setting, self.patient.anatomy, self.patient
        layers, heads = zone_of(s.targets)
        changed = a.trained_parameters(s.targets, self.plan.touched)
        require_space(s.folder.parent, files_bytes(changed, patient.dtype) + 1_000_000, f"pass {s.number}")
        s.folder.mkdir(exist_ok=True)
        with taken_off(patient, s.earlier):
            stock, sources = self._heldout()
            ablation = ablation_loss(patient, s.targets, s.corpus.all_heldout, stock)
            each = yield from self._ablate_each()
            other = self._other_perplexities()
        before = self._heldout()[0] if s.earlier else stock
        return events.PassStarted(
            number=s.number,
            plan=self.plan.model_dump(),
            target_heads=[str(head) for head in s.targets],
            zone_layers=layers,
            zone_heads=heads,
            steps=s.n_steps,
            warmup=s.warmup,
            trained_parameters=changed if self.plan.trains else 0,
            touched_tensor_parameters=a.touched_tensor_parameters(s.targets, self.plan.touched),
            corpus=s.corpus.sources,
            heldout_perplexity_stock=perplexity(stock),
            heldout_perplexity_before=perplexity(before),
            heldout_sources_stock=sources,
            ablation_loss_stock=ablation,
            ablation_heads_stock=each,
            ablation_tokens=self._few().shape[0] * (self.plan.length - 1),
            perplexity_stock=other,
            memory_bytes=memory_bytes(a, s.targets, self.plan, patient.dtype, patient.context),
            sink_logits=sink_logits(a, self.plan),
            placeholder=self.slices.embedding.token if self.slices.embedding else None,
            placeholder_text=patient.tokenizer.decode([self.slices.embedding.token]) if self.slices.embedding else "",
            frozen_sha256_before=self.slices.frozen_sha256(),
        )

    def cut(self) -> Generator[events.Event, None, events.Cut]:
        s = self.setting
        rows, sinks = rest_rows(self.patient, s.probe_ids())
        loss, sources = self._heldout()
        each = yield from self._ablate_each()
        self.cut_event = events.Cut(
            number=s.number,
            bos_mass=rows,
            sink_mass=sinks,
            woken=self._woken(rows, sinks),
            heldout_perplexity=perplexity(loss),
            heldout_sources=sources,
            ablation_loss=ablation_loss(self.patient, s.targets, s.corpus.all_heldout, loss),
            ablation_heads=each,
            drift=self._drift(s.before.bos_mass, rows),
            columns=self._columns(rows),
        )
        return self.cut_event

    # -- steps

    def train(self) -> Iterator[events.Event]:
        p = self.progress
        while not p.outcome:
            if p.step == self.setting.n_steps:  # only when a resume finds nothing left to do
                p.outcome = "completed"
                return
            yield from self._step()
            asked = yield from self._obey()
            self._decide(asked)
            if p.outcome or asked == "check" or p.step % self.plan.check_every == 0:
                yield self._check()
                if not p.outcome and self.plan.patience and p.checks_since_best >= self.plan.patience:
                    p.outcome = "patience"
                yield self.save()

    def _decide(self, asked: str) -> None:
        """Whether the training is over after this step, and why."""
        p = self.progress
        if asked in ("stopped", "stopped_last"):
            p.outcome = asked
        elif p.refused_in_a_row >= REFUSED_IN_A_ROW:
            p.outcome = "diverged"
        elif p.step == self.setting.n_steps:
            p.outcome = "completed"

    def _samples(self) -> Tensor:
        """Those of the next step  # (n, length)"""
        s = self.setting
        first = self.progress.step * s.per_step
        last = min(first + s.per_step, s.n_samples)
        return s.corpus.train.take([self.order.at(position) for position in range(first, last)])

    def _step(self) -> Iterator[events.Event]:
        plan, p, s = self.plan, self.progress, self.setting
        began = time.monotonic()
        self.optimizer.zero_grad(set_to_none=True)
        samples = self._samples()
        lowest = lowest_layer(plan, s.targets)
        rate = learning_rate(p.step, s.n_steps, s.warmup, plan.lr)
        failed_in = ""
        with checkpointed(self.patient, lowest) if plan.checkpointing else nullcontext():
            try:
                failed_in = "gradients"
                loss = gradients(self.patient, samples, plan.micro_batch)
                failed_in = "update"
                taken, norm = update(self.slices, self.optimizer, loss, rate, plan.clip)
                failed_in = ""
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
        if failed_in:  # outside the handler, whose traceback keeps the half-made activations alive
            yield from self._stand_still(untouched=failed_in == "gradients")
        if taken:
            p.loss_sum, p.loss_steps, p.refused_in_a_row = p.loss_sum + loss, p.loss_steps + 1, 0
        else:
            p.refused, p.refused_in_a_row = p.refused + 1, p.refused_in_a_row + 1
            loss, norm = (x if math.isfinite(x) else -1.0 for x in (loss, norm))
        p.step += 1
        p.tokens += samples.numel()
        yield events.Step(
            number=s.number,
            step=p.step,
            loss=round(loss, 6),
            lr=rate,
            grad_norm=round(norm, 6),
            tokens=p.tokens,
            seconds=round(time.monotonic() - began, 4),
        )

    def _stand_still(self, untouched: bool) -> Iterator[events.Event]:
        """The step did not fit: keep the state, offer what may fit, and leave.

        Args:
            untouched: the slices are as the step before left them; else the last saved state holds

        Raises:
            Failure: always.
        """
        self.optimizer.zero_grad(set_to_none=True)
        if self.patient.device.type == "cuda":
            torch.cuda.empty_cache()
        if untouched:
            yield self.save()
        plan, s = self.plan, self.setting
        at_most_half = (c for c in smaller(plan) if c.get("micro_batch", plan.micro_batch) <= plan.micro_batch // 2)
        offered = next(at_most_half, {})
        yield events.OutOfMemory(
            number=s.number,
            step=self.progress.step,
            micro_batch=plan.micro_batch,
            accumulate=plan.accumulate,
            offered_micro_batch=offered.get("micro_batch", 0),
            offered_accumulate=offered.get("accumulate", 0),
            checkpointing=plan.checkpointing,
        )
        resume = f"go on with: headsurgeon resume {s.folder.parent}"
        if offered:
            way_on = f"{resume} --micro-batch {offered['micro_batch']}"
        elif not plan.checkpointing:
            way_on = f"{resume} --checkpointing"
        else:
            way_on = "nothing smaller is left: undo the pass and choose fewer targets or shorter samples"
        step = self.progress.step + 1
        raise Failure(f"out of memory in step {step} with micro-batch {plan.micro_batch}; nothing is lost, {way_on}")

    def _obey(self) -> Generator[events.Event, None, str]:
        """Carry out what was asked since the last step; returns check, stopped, stopped_last or nothing."""
        asked, paused = "", False
        while True:
            for command in self.inbox():
                match command.get("command"):
                    case "pause" if not paused:
                        paused = True
                        yield self.save()
                        yield events.Paused(number=self.setting.number, step=self.progress.step)
                    case "continue" if paused:
                        paused = False
                        yield events.Continued(number=self.setting.number, step=self.progress.step)
                    case "check":
                        asked = "check"
                    case "stop":
                        return "stopped_last" if command.get("keep") == "last" else "stopped"
                    case "set":
                        yield from self._change({str(command.get("option")): command.get("value")})
                    case "note":
                        yield events.Note(text=str(command.get("text", "")))
                    case "operate" | "undo" | "accept":
                        yield events.Refused(message="a pass is running; stop it or wait for its end")
                    case "pause" | "continue":
                        pass
                    case _:
                        yield from self.answer(command)
            if not paused:
                return asked
            time.sleep(0.1)

    def _change(self, values: dict[str, Any]) -> Iterator[events.Event]:
        """Set an option of the running pass; saved at once, so that a resume has it from the same step on."""
        try:
            found = changes(self.plan, values)
        except InputError as error:
            yield events.Refused(message=str(error))
            return
        if found:
            self.plan = self.plan.model_copy(update=found)
            self.setting = replace(self.setting, plan=self.plan)
            yield events.Changed(number=self.setting.number, step=self.progress.step, values=found)
            yield self.save()

    # -- checks and saving

    def _check(self) -> events.Check:
        p, s = self.progress, self.setting
        assert self.cut_event is not None
        rows, sinks = rest_rows(self.patient, s.probe_ids())
        found = perplexity(self._heldout()[0])
        best = p.best_perplexity is None or found < p.best_perplexity
        p.checks_since_best = 0 if best else p.checks_since_best + 1
        if best:
            p.best_perplexity, p.best_step, self.best = found, p.step, self.slices.values()
        columns = self._columns(rows)
        p.first_columns = p.first_columns or columns
        train_loss = p.loss_sum / p.loss_steps if p.loss_steps else 0.0
        p.loss_sum, p.loss_steps = 0.0, 0
        return events.Check(
            number=s.number,
            step=p.step,
            train_loss=round(train_loss, 6),
            heldout_perplexity=found,
            woken=self._woken(rows, sinks),
            bos_mass=rows,
            sink_mass=sinks,
            drift=self._drift(s.stock.bos_mass, rows),
            drift_training=self._drift(self.cut_event.bos_mass, rows),
            columns=columns,
            best=best,
        )

    def _heldout(self) -> tuple[float, dict[str, float]]:
        """Loss per predicted token over the whole held-out part, and perplexity per source."""
        losses = text_losses(self.patient, {name: [part] for name, part in self.setting.corpus.heldout.items()})
        return pooled(losses.values()).loss, {name: found.perplexity for name, found in losses.items()}

    def _few(self) -> Tensor:
        """Held-out samples for what has to be done head by head, evenly from all of them."""
        heldout = self.setting.corpus.all_heldout
        return heldout[:: max(1, len(heldout) // ABLATION_SAMPLES)][:ABLATION_SAMPLES]

    def _ablate_each(self) -> Generator[events.Event, None, list[float]]:
        """What each target by itself is worth."""
        targets, few, worth = self.setting.targets, self._few(), list[float]()
        for found in silence_each(self.patient, targets, few, mean_loss(self.patient, few)):
            if isinstance(found, list):
                worth = found
            elif found % 8 == 0:
                yield events.Progress(what="silencing each target", done=found, total=len(targets))
        return worth

    def _woken(self, rows: Rows, sinks: Rows) -> int:
        return woken(rows, sinks, self.setting.targets, self.setting.stock.thresholds)

    def _drift(self, before: Rows, after: Rows) -> Any:
        return drift(before, after, self.zones, self.setting.stock.thresholds)

    def _columns(self, rows: Rows) -> list[float | None]:
        return column_means(self.setting.stock.bos_mass, rows, self.zones[1] | self.zones[2])

    def _other_perplexities(self) -> dict[str, float]:
        return perplexities(self.patient, self.setting.other)

    def save(self) -> events.Saved:
        size = save_state(self.state, self.progress, self.slices.masters(), self.optimizer, self.best)
        name = f"{self.setting.folder.name}/{self.state.name}"
        return events.Saved(number=self.setting.number, step=self.progress.step, file=name, bytes=size)

    def load(self) -> None:
        self.progress, self.best = load_state(self.state, self.slices.masters(), self.optimizer)
        self.slices.write_back()

    def patch(self, values: dict[str, Tensor]) -> Patch:
        s = self.setting
        about = {
            "number": s.number,
            "source": self.patient.source,
            "weights_sha256": self.patient.weights_sha256,
            "target_heads": [str(head) for head in s.targets],
            "plan": self.plan.model_dump(),
        }
        return Patch(values, self.originals, about)

    # -- after the last step

    def finish(self) -> Iterator[events.Event]:
        p, s = self.progress, self.setting
        assert self.cut_event is not None
        kept = p.step if p.outcome == "stopped_last" else p.best_step
        if kept != p.step:
            self.slices.put(self.best)
        path = s.folder / "best.safetensors"
        size = save_patch(path, self.patch(self.slices.values()))
        yield events.Saved(number=s.number, step=kept, file=f"{s.folder.name}/{path.name}", bytes=size)
        after: HeadMap | None = None
        for done in measure(self.patient, s.probes, s.stock.thresholds):
            if isinstance(done, HeadMap):
                after = done
            else:
                yield events.Progress(what="diagnosing", done=done, total=len(s.probes))
        assert after is not None
        loss, sources = self._heldout()
        each = yield from self._ablate_each()
        columns = self._columns(after.bos_mass)
        yield events.Diagnosed(stage=f"pass-{s.number}", head_map=after, mlp_dormancy=dormancy(self.patient))
        yield events.PassEnded(
            number=s.number,
            outcome=p.outcome,
            step=p.step,
            kept_step=kept,
            heldout_perplexity=perplexity(loss),
            woken=self._woken(after.bos_mass, after.sink_mass),
            heldout_sources=sources,
            ablation_loss_after=ablation_loss(self.patient, s.targets, s.corpus.all_heldout, loss),
            ablation_heads_after=each,
            perplexity_after=self._other_perplexities(),
            drift=self._drift(s.stock.bos_mass, after.bos_mass),
            drift_training=self._drift(self.cut_event.bos_mass, after.bos_mass),
            spreading=spreading(p.first_columns or columns, columns, s.stock.thresholds),
            refused_steps=p.refused,
            frozen_sha256_after=self.slices.frozen_sha256(),
            patch_sha256=sha256_of(path),
            peak_memory_bytes=peak_bytes(self.patient.device),
            trained_tokens=p.tokens,
            learned_logits=self.slices.logits(),
        )
