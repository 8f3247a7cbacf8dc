"""The pass: cut, train the slices, check, keep the best. A generator of typed events.

Everything a resume needs lies in one file (``engine.nn.state``), so a kill at any moment leaves the
last good state.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine import events
from engine.drift import column_means, drift, spreading
from engine.files import require_space, sha256_of
from engine.heads import Head, HeadMap, Rows
from engine.nn.attention import bos_rows, measure
from engine.nn.corpus import Corpus, Order, read_corpus
from engine.nn.load import Patient
from engine.nn.patch import Patch, save_patch, taken_off
from engine.nn.slices import Slices
from engine.nn.state import Progress, load_state, save_state
from engine.nn.vitals import ablation_loss, mean_loss, perplexity, token_losses
from engine.plan import Plan
from engine.preflight import files_bytes
from engine.probes import Probe
from engine.targets import Model, resolve, zone_of, zones

Command = dict[str, Any]
Inbox = Callable[[], list[Command]]
REFUSED_IN_A_ROW = 3
STATE = "state.safetensors"


@dataclass
class Setting:
    """What stays the same during one pass."""

    patient: Patient
    plan: Plan
    number: int
    folder: Path
    stock: HeadMap
    before: HeadMap
    """Of the model as it stands; for the first pass the same as ``stock``."""
    earlier: list[Patch]
    """Of the passes that stand already, in order."""
    probes: list[Probe]
    other: dict[str, Tensor]
    """Samples of other texts whose perplexity is watched, by name."""
    targets: list[Head]
    corpus: Corpus
    n_steps: int
    probe_ids: list[Tensor]

    @property
    def warmup(self) -> int:
        return max(1, min(100, self.n_steps // 4))


def learning_rate(step: int, n_steps: int, warmup: int, lr: float) -> float:
    """Rate of a step (from 0): linear warmup that starts above 0, then a cosine that ends near 0.
    A pure function of the step."""
    if step < warmup:
        return lr * (step + 1) / warmup
    return lr * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, n_steps - warmup)))


def prepare(
    patient: Patient,
    plan: Plan,
    number: int,
    folder: Path,
    stock: HeadMap,
    before: HeadMap,
    earlier: list[Patch],
    probes: list[Probe],
    other: dict[str, Tensor],
    progress: Callable[[int], None],
    targets: list[Head] | None = None,
) -> Setting:
    """Resolve the targets against ``before`` (the model as it stands), read the corpus, count the steps.

    Raises:
        InputError: targets that select nothing or cannot be read, or a corpus that does not serve.
    """
    chosen = targets or resolve(plan.targets, Model.of(before))
    corpus = read_corpus(patient, plan, progress)
    per_step = plan.micro_batch * plan.accumulate
    n_steps = plan.steps or max(1, round(len(corpus.train) * plan.epochs / per_step))
    ids = [patient.ids(probe.text) for probe in probes]
    return Setting(patient, plan, number, folder, stock, before, earlier, probes, other, chosen, corpus, n_steps, ids)


def operate(setting: Setting, inbox: Inbox, interrupted: events.Cut | None = None) -> Iterator[events.Event]:
    """Run a pass from the start, or from its saved state where ``interrupted`` gives its cut.

    Yields PassStarted, Cut, Step …, Check …, Saved …, PassEnded and a Diagnosed of the result;
    Resumed instead of the first two when it goes on. The patient ends with the kept slices in it.

    Raises:
        InputError: a full disk, or a damaged state.
    """
    patient, plan = setting.patient, setting.plan
    slices = Slices(patient, setting.targets, plan.parts)
    originals = slices.values()
    optimizer = torch.optim.AdamW(slices.masters().values(), lr=plan.lr, weight_decay=0.0)
    theatre = _Theatre(setting, slices, originals, optimizer, inbox)
    if interrupted is None:
        yield theatre.start()
        if plan.reinit:
            slices.reinitialise(plan.init, plan.seed)
        yield theatre.cut()
        yield theatre.save()
    else:
        theatre.cut_event = interrupted
        theatre.load()
        yield events.Resumed(number=setting.number, step=theatre.progress.step)
    with slices.training():
        yield from theatre.train()
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
    ) -> None:
        self.setting = setting
        self.plan = setting.plan
        self.patient = setting.patient
        self.slices = slices
        self.originals = originals
        self.optimizer = optimizer
        self.inbox = inbox
        self.state = setting.folder / STATE
        self.progress = Progress()
        self.best: dict[str, Tensor] = {}
        self.order = Order(len(setting.corpus.train), self.plan.seed)
        self.zones = zones(setting.targets, Model.of(setting.stock))
        self.cut_event: events.Cut | None = None

    # -- before step 1

    def start(self) -> events.PassStarted:
        s, a = self.setting, self.patient.anatomy
        layers, heads = zone_of(s.targets)
        trained = a.trained_parameters(s.targets, self.plan.parts)
        require_space(s.folder.parent, files_bytes(trained, self.patient.dtype) + 1_000_000, f"pass {s.number}")
        s.folder.mkdir(exist_ok=True)
        with taken_off(self.patient, s.earlier):
            stock_loss = mean_loss(self.patient, s.corpus.heldout)
            ablation = ablation_loss(self.patient, s.targets, s.corpus.heldout, stock_loss)
            other = self._other_perplexities()
        loss_before = mean_loss(self.patient, s.corpus.heldout) if s.earlier else stock_loss
        return events.PassStarted(
            number=s.number,
            plan=self.plan.model_dump(),
            target_heads=[str(head) for head in s.targets],
            zone_layers=layers,
            zone_heads=heads,
            steps=s.n_steps,
            warmup=s.warmup,
            trained_parameters=trained,
            touched_tensor_parameters=a.touched_tensor_parameters(s.targets),
            corpus=s.corpus.sources,
            heldout_perplexity_stock=perplexity(stock_loss),
            heldout_perplexity_before=perplexity(loss_before),
            ablation_loss_stock=ablation,
            perplexity_stock=other,
            frozen_sha256_before=self.slices.frozen_sha256(),
        )

    def cut(self) -> events.Cut:
        rows = bos_rows(self.patient, self.setting.probe_ids)
        self.cut_event = events.Cut(
            number=self.setting.number,
            bos_mass=rows,
            woken=self._woken(rows),
            heldout_perplexity=perplexity(mean_loss(self.patient, self.setting.corpus.heldout)),
            drift=self._drift(self.setting.before.bos_mass, rows),
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
            yield self._step()
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

    def _step(self) -> events.Step:
        plan, p = self.plan, self.progress
        began = time.monotonic()
        predicted = plan.tokens_per_step - plan.micro_batch * plan.accumulate
        total = 0.0
        self.optimizer.zero_grad(set_to_none=True)
        for micro in range(plan.accumulate):
            first = (p.step * plan.accumulate + micro) * plan.micro_batch
            picks = [self.order.at(first + i) for i in range(plan.micro_batch)]
            loss = token_losses(self.patient, self.setting.corpus.train[picks]) / predicted
            loss.backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(self.slices.masters().values(), plan.clip).item()
        rate = learning_rate(p.step, self.setting.n_steps, self.setting.warmup, plan.lr)
        if math.isfinite(total) and math.isfinite(norm):
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            self.optimizer.step()
            self.slices.write_back()
            p.loss_sum, p.loss_steps, p.refused_in_a_row = p.loss_sum + total, p.loss_steps + 1, 0
        else:
            p.refused, p.refused_in_a_row = p.refused + 1, p.refused_in_a_row + 1
            total, norm = (x if math.isfinite(x) else -1.0 for x in (total, norm))
        p.step += 1
        return events.Step(
            number=self.setting.number,
            step=p.step,
            loss=round(total, 6),
            lr=rate,
            grad_norm=round(norm, 6),
            tokens=p.step * plan.tokens_per_step,
            seconds=round(time.monotonic() - began, 4),
        )

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
                    case "note":
                        yield events.Note(text=str(command.get("text", "")))
                    case "operate" | "undo" | "accept":
                        yield events.Refused(message="a pass is running; stop it or wait for its end")
            if not paused:
                return asked
            time.sleep(0.1)

    # -- checks and saving

    def _check(self) -> events.Check:
        p, s = self.progress, self.setting
        assert self.cut_event is not None
        rows = bos_rows(self.patient, s.probe_ids)
        loss = mean_loss(self.patient, s.corpus.heldout)
        found = perplexity(loss)
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
            woken=self._woken(rows),
            bos_mass=rows,
            drift=self._drift(s.stock.bos_mass, rows),
            drift_training=self._drift(self.cut_event.bos_mass, rows),
            columns=columns,
            best=best,
        )

    def _woken(self, rows: Rows) -> int:
        limit = self.setting.stock.thresholds.bos_sink
        return sum(rows[h.layer][h.head] <= limit for h in self.setting.targets)

    def _drift(self, before: Rows, after: Rows) -> Any:
        return drift(before, after, self.zones, self.setting.stock.thresholds)

    def _columns(self, rows: Rows) -> list[float | None]:
        return column_means(self.setting.stock.bos_mass, rows, self.zones[1] | self.zones[2])

    def _other_perplexities(self) -> dict[str, float]:
        return {name: perplexity(mean_loss(self.patient, text)) for name, text in self.setting.other.items()}

    def save(self) -> events.Saved:
        size = save_state(self.state, self.progress, self.slices.masters(), self.optimizer, self.best)
        name = f"{self.setting.folder.name}/{self.state.name}"
        return events.Saved(number=self.setting.number, step=self.progress.step, file=name, bytes=size)

    def load(self) -> None:
        self.progress, self.best = load_state(self.state, self.slices.masters(), self.optimizer)
        self.slices.write_back()

    # -- after the last step

    def finish(self) -> Iterator[events.Event]:
        p, s = self.progress, self.setting
        assert self.cut_event is not None
        kept = p.step if p.outcome == "stopped_last" else p.best_step
        if kept != p.step:
            self.slices.put(self.best)
        about = {
            "number": s.number,
            "source": self.patient.source,
            "weights_sha256": self.patient.weights_sha256,
            "target_heads": [str(head) for head in s.targets],
            "plan": self.plan.model_dump(),
        }
        path = s.folder / "best.safetensors"
        size = save_patch(path, Patch(self.slices.values(), self.originals, about))
        yield events.Saved(number=s.number, step=kept, file=f"{s.folder.name}/{path.name}", bytes=size)
        after: HeadMap | None = None
        for done in measure(self.patient, s.probes, s.stock.thresholds):
            if isinstance(done, HeadMap):
                after = done
            else:
                yield events.Progress(what="diagnosing", done=done, total=len(s.probes))
        assert after is not None
        loss = mean_loss(self.patient, s.corpus.heldout)
        columns = self._columns(after.bos_mass)
        yield events.Diagnosed(stage=f"pass-{s.number}", head_map=after)
        yield events.PassEnded(
            number=s.number,
            outcome=p.outcome,
            step=p.step,
            kept_step=kept,
            heldout_perplexity=perplexity(loss),
            woken=self._woken(after.bos_mass),
            ablation_loss_after=ablation_loss(self.patient, s.targets, s.corpus.heldout, loss),
            perplexity_after=self._other_perplexities(),
            drift=self._drift(s.stock.bos_mass, after.bos_mass),
            drift_training=self._drift(self.cut_event.bos_mass, after.bos_mass),
            spreading=spreading(p.first_columns or columns, columns, s.stock.thresholds),
            refused_steps=p.refused,
            frozen_sha256_after=self.slices.frozen_sha256(),
            patch_sha256=sha256_of(path),
        )
