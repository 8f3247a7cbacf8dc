"""The pass: cut, train the slices, check, keep the best. A generator of typed events.

Everything a resume needs lies in one file (``engine.nn.state``), so a kill at any moment leaves the
last good state.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine import events
from engine.errors import Failure, InputError
from engine.files import require_space
from engine.nn import stages
from engine.nn.attention import levels
from engine.nn.corpus import Order
from engine.nn.embedding import stand_before
from engine.nn.memory import forget_peak, is_out_of_memory
from engine.nn.patch import Patch, save_patch, take_off
from engine.nn.setting import Setting
from engine.nn.slices import Slices
from engine.nn.state import Progress, load_state, save_state
from engine.nn.training import checkpointed, gradients, learning_rate, update
from engine.plan import changes
from engine.preflight import files_bytes, lowest_layer, smaller

Command = dict[str, Any]
Inbox = Callable[[], list[Command]]
Answer = Callable[[Command], Iterator[events.Event]]
REFUSED_IN_A_ROW = 3
STATE = "state.safetensors"


def no_answer(command: Command) -> Iterator[events.Event]:
    """Nothing is looked at while the pass runs."""
    yield from ()


@dataclass
class Running:
    """A pass under way: what of it changes, and what it is done with."""

    setting: Setting
    """Replaced when the operator changes an option of the plan."""
    slices: Slices
    originals: dict[str, Tensor]
    optimizer: torch.optim.Optimizer
    cut: events.Cut
    progress: Progress = field(default_factory=Progress)
    best: dict[str, Tensor] = field(default_factory=dict)
    """Slices of the best check so far."""

    @property
    def state(self) -> Path:
        return self.setting.folder / STATE


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
    group = {"params": list(slices.masters().values())}  # of a treatment that trains nothing there may be none
    optimizer = torch.optim.AdamW([group], lr=plan.lr, weight_decay=0.0)
    originals = slices.values()
    if interrupted is None:
        make_room(setting)
        yield (yield from stages.started(setting, slices))
        slices.cut(plan, levels(patient, setting.probe_ids()) if plan.treatment == "sink_logit" else None)
        if plan.treatment == "placeholder":
            stand_before(patient)
        run = Running(setting, slices, originals, optimizer, (yield from stages.cut(setting)))
        yield run.cut
        yield save(run)
    else:
        run = Running(setting, slices, originals, optimizer, interrupted)
        run.progress, run.best = load_state(run.state, slices.masters(), optimizer)
        slices.write_back()
        if plan.treatment == "placeholder":
            stand_before(patient)
        yield events.Resumed(number=setting.number, step=run.progress.step)
    try:
        with slices.training():
            yield from train(run, inbox, answer)
    except Failure:
        take_off(patient, patch(run, run.originals))  # as a resume expects to find it, in this process or another
        raise
    yield from finish(run)


def make_room(setting: Setting) -> None:
    """The folder of the pass, on a disk that has room for what will lie in it."""
    changed = setting.patient.anatomy.trained_parameters(setting.targets, setting.plan.touched)
    needed = files_bytes(changed, setting.patient.dtype) + 1_000_000
    require_space(setting.folder.parent, needed, f"pass {setting.number}")
    setting.folder.mkdir(exist_ok=True)


# -- the steps


def train(run: Running, inbox: Inbox, answer: Answer) -> Iterator[events.Event]:
    """Step after step until the outcome is known."""
    p = run.progress
    order = Order(len(run.setting.corpus.train), run.setting.plan.seed)
    while not p.outcome:
        if p.step == run.setting.n_steps:  # only when a resume finds nothing left to do
            p.outcome = "completed"
            return
        yield from step(run, order)
        asked = yield from obey(run, inbox, answer)
        p.outcome = outcome(run, asked)
        plan = run.setting.plan
        if p.outcome or asked == "check" or p.step % plan.check_every == 0:
            yield check(run)
            if not p.outcome and plan.patience and p.checks_since_best >= plan.patience:
                p.outcome = "patience"
            yield save(run)


def outcome(run: Running, asked: str) -> str:
    """Why the training is over after this step; empty if it is not."""
    if asked in ("stopped", "stopped_last"):
        return asked
    if run.progress.refused_in_a_row >= REFUSED_IN_A_ROW:
        return "diverged"
    return "completed" if run.progress.step == run.setting.n_steps else ""


def samples_of(run: Running, order: Order) -> Tensor:
    """Those of the next step  # (n, length)"""
    s = run.setting
    first = run.progress.step * s.per_step
    last = min(first + s.per_step, s.n_samples)
    return s.corpus.train.take([order.at(position) for position in range(first, last)])


def step(run: Running, order: Order) -> Iterator[events.Event]:
    """One optimizer step, refused where its loss or its gradient is no number.

    Raises:
        Failure: out of memory.
    """
    s, p = run.setting, run.progress
    plan = s.plan
    began = time.monotonic()
    run.optimizer.zero_grad(set_to_none=True)
    samples = samples_of(run, order)
    rate = learning_rate(p.step, s.n_steps, s.warmup, plan.lr)
    failed_in = ""
    with checkpointed(s.patient, lowest_layer(plan, s.targets)) if plan.checkpointing else nullcontext():
        try:
            failed_in = "gradients"
            loss = gradients(s.patient, samples, plan.micro_batch)
            failed_in = "update"
            taken, norm = update(run.slices, run.optimizer, loss, rate, plan.clip)
            failed_in = ""
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
    if failed_in:  # outside the handler, whose traceback keeps the half-made activations alive
        yield from stand_still(run, untouched=failed_in == "gradients")
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


def stand_still(run: Running, untouched: bool) -> Iterator[events.Event]:
    """The step did not fit: keep the state, offer what may fit, and leave.

    Args:
        untouched: the slices are as the step before left them; else the last saved state holds

    Raises:
        Failure: always.
    """
    s, plan = run.setting, run.setting.plan
    run.optimizer.zero_grad(set_to_none=True)
    if s.patient.device.type == "cuda":
        torch.cuda.empty_cache()
    if untouched:
        yield save(run)
    at_most_half = (c for c in smaller(plan) if c.get("micro_batch", plan.micro_batch) <= plan.micro_batch // 2)
    offered = next(at_most_half, {})
    yield events.OutOfMemory(
        number=s.number,
        step=run.progress.step,
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
    where = f"in step {run.progress.step + 1} with micro-batch {plan.micro_batch}"
    raise Failure(f"out of memory {where}; nothing is lost, {way_on}")


def obey(run: Running, inbox: Inbox, answer: Answer) -> Generator[events.Event, None, str]:
    """Carry out what was asked since the last step; returns check, stopped, stopped_last or nothing."""
    number, at = run.setting.number, run.progress.step
    asked, paused = "", False
    while True:
        for command in inbox():
            match command.get("command"):
                case "pause" if not paused:
                    paused = True
                    yield save(run)
                    yield events.Paused(number=number, step=at)
                case "continue" if paused:
                    paused = False
                    yield events.Continued(number=number, step=at)
                case "check":
                    asked = "check"
                case "stop":
                    return "stopped_last" if command.get("keep") == "last" else "stopped"
                case "set":
                    yield from change(run, {str(command.get("option")): command.get("value")})
                case "note":
                    yield events.Note(text=str(command.get("text", "")))
                case "operate" | "undo" | "accept":
                    yield events.Refused(message="a pass is running; stop it or wait for its end")
                case "pause" | "continue":
                    pass
                case _:
                    yield from answer(command)
        if not paused:
            return asked
        time.sleep(0.1)


def change(run: Running, values: dict[str, Any]) -> Iterator[events.Event]:
    """Set an option of the running pass; saved at once, so that a resume has it from the same step on."""
    s = run.setting
    try:
        found = changes(s.plan, values)
    except InputError as error:
        yield events.Refused(message=str(error))
        return
    if found:
        run.setting = replace(s, plan=s.plan.model_copy(update=found))
        yield events.Changed(number=s.number, step=run.progress.step, values=found)
        yield save(run)


# -- checks, what is kept, and the end


def check(run: Running) -> events.Check:
    """Evaluate, and keep the slices where they are the best so far."""
    p = run.progress
    found = stages.check(run.setting, p, run.cut)
    p.checks_since_best = 0 if found.best else p.checks_since_best + 1
    if found.best:
        p.best_perplexity, p.best_step, run.best = found.heldout_perplexity, p.step, run.slices.values()
    p.first_columns = p.first_columns or found.columns
    p.loss_sum, p.loss_steps = 0.0, 0
    return found


def save(run: Running) -> events.Saved:
    """Put all that a resume needs on the disk."""
    s = run.setting
    size = save_state(run.state, run.progress, run.slices.masters(), run.optimizer, run.best)
    name = f"{s.folder.name}/{run.state.name}"
    return events.Saved(number=s.number, step=run.progress.step, file=name, bytes=size)


def patch(run: Running, values: dict[str, Tensor]) -> Patch:
    """The slices with what belongs to them."""
    s = run.setting
    about = {
        "number": s.number,
        "source": s.patient.source,
        "weights_sha256": s.patient.weights_sha256,
        "target_heads": [str(head) for head in s.targets],
        "plan": s.plan.model_dump(),
    }
    return Patch(values, run.originals, about)


def finish(run: Running) -> Iterator[events.Event]:
    """Put the slices that are kept into the model and on the disk, and measure what came of them."""
    p, s = run.progress, run.setting
    kept = p.step if p.outcome == "stopped_last" else p.best_step
    if kept != p.step:
        run.slices.put(run.best)
    size = save_patch(s.patch, patch(run, run.slices.values()))
    yield events.Saved(number=s.number, step=kept, file=f"{s.folder.name}/{s.patch.name}", bytes=size)
    yield (yield from stages.ended(s, run.slices, p, run.cut, kept))
