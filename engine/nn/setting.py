"""What a pass needs before it begins: its targets, its corpus, and room to run."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from torch import Tensor

from engine.anatomy import whole_groups
from engine.errors import InputError
from engine.heads import Head, HeadMap
from engine.nn.attention import tokenized
from engine.nn.corpus import Corpus, read_corpus
from engine.nn.embedding import placeholder_token
from engine.nn.load import Patient
from engine.nn.memory import room_bytes
from engine.nn.patch import Patch
from engine.nn.tokens import start_ids
from engine.plan import Plan
from engine.preflight import TOLERANCE, change_words, memory_bytes, what_fits
from engine.probes import Probe
from engine.session import PATCH
from engine.targets import Heads, Model, resolve, zones


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
    n_samples: int
    """Samples to train on in all; the last step may have fewer than the others."""

    def probe_ids(self) -> list[Tensor]:
        """The probes as the patient reads them now, with its placeholder if it has one  # (T,) each"""
        return [text.ids for text in tokenized(self.patient, self.probes)]

    @property
    def patch(self) -> Path:
        """Where the slices that are kept will lie."""
        return self.folder / PATCH

    @cached_property
    def zones(self) -> tuple[Heads, Heads, Heads]:
        """Targets, in-band frozen and outside; targets of earlier passes are in neither of the last two."""
        earlier = frozenset(Head.parse(name) for patch in self.earlier for name in patch.about["target_heads"])
        return zones(self.targets, Model.of(self.stock), earlier)

    @property
    def per_step(self) -> int:
        return self.plan.micro_batch * self.plan.accumulate

    @property
    def n_steps(self) -> int:
        return math.ceil(self.n_samples / self.per_step)

    @property
    def warmup(self) -> int:
        return max(1, min(100, self.n_steps // 4))


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
    """Resolve the targets against ``before`` (the model as it stands), or against stock where the plan says
    so, see that there is room, read the corpus, count the steps.

    Raises:
        InputError: targets that select nothing, cannot be read or are half a K/V group, a patient that cannot be
            trained, too little memory, or a corpus that does not serve.
    """
    chosen = targets or resolve(plan.targets, Model.of(stock if plan.classes == "stock" else before))
    chosen = whole_groups(patient.anatomy, chosen, plan.touched, plan.whole_groups)
    if patient.untrainable:
        raise InputError(f"{patient.source} can be diagnosed, not operated on: {patient.untrainable}")
    if plan.treatment == "placeholder":
        require_placeholder(patient, plan)
    require_memory(patient, chosen, plan)
    corpus = read_corpus(patient, plan, progress)
    per_step = plan.micro_batch * plan.accumulate
    n_samples = plan.steps * per_step if plan.steps else len(corpus.train) * plan.epochs
    return Setting(
        patient, plan, number, folder, stock, before, earlier, probes, other, chosen, corpus,
        n_samples if plan.trains else 0,
    )  # fmt: skip


def require_placeholder(patient: Patient, plan: Plan) -> None:
    """Raises InputError: the patient has no token to stand before every text, or has one already, or the samples
    leave no room for it."""
    token = placeholder_token(patient)
    if patient.placeholder is not None:
        raise InputError("a placeholder stands before every text already; undo the pass that put it there first")
    if token not in start_ids(patient.tokenizer) and plan.length >= patient.context:
        raise InputError(
            f"samples of {plan.length} tokens leave no room in the context of {patient.context} for the placeholder "
            "before them; give a smaller --length"
        )


def require_memory(patient: Patient, targets: list[Head], plan: Plan, room: int | None = None) -> None:
    """Refuse a pass that is too large for the patient's device, and say what would fit.

    Args:
        room: bytes that the process may have in all; None: ask the device

    Raises:
        InputError: there is too little, even if the estimate is too high by its tolerance.
    """
    a, dtype, context = patient.anatomy, patient.dtype, patient.context
    room = room_bytes(patient.device) if room is None else room
    needed = memory_bytes(a, targets, plan, dtype, context)
    if needed <= room * TOLERANCE:
        return
    change = what_fits(a, targets, plan, dtype, context, room)
    if change:
        less = memory_bytes(a, targets, plan.model_copy(update=change), dtype, context)
        way_out = f"with {change_words(change)} it would need {less / 1e9:.1f} GB"
    else:
        way_out = "no smaller micro-batch would fit either: choose fewer targets, or shorter samples with --length"
    raise InputError(
        f"the pass would need about {needed / 1e9:.1f} GB on {patient.device} and there are {room / 1e9:.1f} GB for "
        f"it; {way_out}"
    )
