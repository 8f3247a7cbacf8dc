"""What happens in a session, as typed events. The engine yields them, the worker writes them to the
journal, the screen and the headless commands read them.

Everything that a record or a screen shows is in some event, so the journal alone tells the story.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from engine.drift import Drift
from engine.generation import Continuation
from engine.heads import HeadMap, Rows


@dataclass(frozen=True, kw_only=True)
class Event:
    """Base of all events; ``kind`` is its name in the journal."""

    kind: ClassVar[str]


@dataclass(frozen=True, kw_only=True)
class Created(Event):
    """A session was begun: what was asked for."""

    kind: ClassVar[str] = "created"
    session: str
    model: str
    device: str = "auto"
    dtype: str = "auto"
    texts: str = ""
    """File with the operator's own probe texts; empty: the built-in ones."""
    seed: int = 42
    plans: list[dict[str, Any]] = field(default_factory=list)
    """Passes that were ordered from the start; a resume goes on with those that are left."""
    protocol: str = ""
    """Title of the protocol that the session is an arm of."""
    arm: str = ""


@dataclass(frozen=True, kw_only=True)
class WorkerStarted(Event):
    """A worker took the session. Commands written before this are not obeyed."""

    kind: ClassVar[str] = "worker_started"
    pid: int
    versions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Progress(Event):
    """Work without a number of its own is under way: loading, diagnosing, reading a corpus."""

    kind: ClassVar[str] = "progress"
    what: str
    done: int = 0
    total: int = 0


@dataclass(frozen=True, kw_only=True)
class Loaded(Event):
    """The patient is in memory."""

    kind: ClassVar[str] = "loaded"
    source: str
    revision: str
    weights_sha256: str
    family: str
    n_layers: int
    n_heads: int
    n_kv_heads: int
    d_model: int
    d_head: int
    vocabulary: int
    context: int
    parameters: int
    position_encoding: str
    slopes: list[float]
    dtype: str
    device: str
    threads: int
    config: dict[str, Any] = field(default_factory=dict)
    """What of its ``config.json`` its anatomy follows from; ``null`` stands as false."""
    stored: str = ""
    """How its weights came where they are no longer that: dequantised from GGUF."""


@dataclass(frozen=True, kw_only=True)
class Diagnosed(Event):
    """A whole head map was measured. ``stage`` is ``stock`` or ``pass-N``."""

    kind: ClassVar[str] = "diagnosed"
    stage: str
    head_map: HeadMap
    mlp_dormancy: list[float] = field(default_factory=list)
    """Share of dormant MLP neurons per layer."""


@dataclass(frozen=True, kw_only=True)
class Attention(Event):
    """Where one head looks on one text, token by token; a long text is shown by its first tokens."""

    kind: ClassVar[str] = "attention"
    stage: str
    """The state of the model: ``stock`` or ``pass-N``."""
    layer: int
    head: int
    text: str
    """Name of the text."""
    tokens: list[str]
    top: list[list[list[float]]]
    """Per query token the keys with most weight, heaviest first: [index, weight]."""
    received: list[float]
    """Mean weight that each token got over all queries; the first is the BOS mass, but on a layer with a window."""
    sink: list[float] = field(default_factory=list)
    """Per query what the sink logit takes; empty where the head has none."""


@dataclass(frozen=True, kw_only=True)
class CorpusSource(Event):
    """One source of a pass's corpus as it was read. (Not journalled alone: part of PassStarted.)"""

    kind: ClassVar[str] = "corpus"
    source: str
    sha256: str
    documents: int
    heldout_documents: int
    train_tokens: int
    """Of its training documents, each counted once whatever ``repeat`` says."""
    heldout_tokens: int
    repeat: int = 1
    """How often its training documents stand in one epoch."""
    duplicates: int = 0
    """Documents that stood in this source, or in one before it, already."""
    broken: int = 0
    """Lines or rows that could not be read and were left out."""
    broken_first: list[str] = field(default_factory=list)
    """The first of them, and of the encoding errors, as ``file:line: why``."""
    encoding_errors: int = 0
    """Lines with characters that could not be read; they were read as U+FFFD."""


@dataclass(frozen=True, kw_only=True)
class PassStarted(Event):
    """A pass begins; nothing is changed yet, and the stock side of every comparison is measured, with
    earlier passes taken off for the while.

    Losses and perplexities are per predicted token on the held-out part of the corpus (nats).
    """

    kind: ClassVar[str] = "pass_started"
    number: int
    plan: dict[str, Any]
    target_heads: list[str]
    zone_layers: tuple[int, int]
    zone_heads: tuple[int, int]
    steps: int
    warmup: int
    trained_parameters: int
    touched_tensor_parameters: int
    corpus: list[CorpusSource]
    heldout_perplexity_stock: float
    ablation_loss_stock: float
    perplexity_stock: dict[str, float]
    """Per other text (name -> perplexity), e.g. texts of the pretraining distribution."""
    frozen_sha256_before: str
    heldout_perplexity_before: float | None = None
    """Of the model as it stood before this pass; where others stand already, that is not stock."""
    heldout_sources_stock: dict[str, float] = field(default_factory=dict)
    """Held-out perplexity per source of the corpus."""
    ablation_heads_stock: list[float] = field(default_factory=list)
    """Ablation loss of each target by itself, in the order of ``target_heads``."""
    ablation_tokens: int = 0
    """Predicted tokens that the single heads' ablation losses are means over."""
    memory_bytes: int = 0
    """What the pass was estimated to need at its peak."""
    sink_logits: str = ""
    """What becomes of the targets' sink logits, in words; empty where the model has none."""
    placeholder: int | None = None
    """Id of the token that is to stand before every text, and whose embedding trains."""
    placeholder_text: str = ""

    @property
    def tokens_per_epoch(self) -> int:
        """Tokens that one time through the corpus trains on, repeated sources as often as they are, but no more
        than the plan's samples hold."""
        found = sum(source.train_tokens * source.repeat for source in self.corpus)
        samples = self.plan.get("samples")
        return min(found, samples * self.plan["length"]) if samples else found


@dataclass(frozen=True, kw_only=True)
class Cut(Event):
    """What the treatment does before any training is done: the targets are reinitialised, given a sink logit, pruned
    … or, in the control, left as they are; step 0."""

    kind: ClassVar[str] = "cut"
    number: int
    bos_mass: Rows
    woken: int
    """Targets that rest neither on position 0 nor on a sink logit, before any training."""
    heldout_perplexity: float
    drift: Drift
    """Of the cut alone, against the model as it stood before the pass."""
    columns: list[float | None]
    heldout_sources: dict[str, float] = field(default_factory=dict)
    ablation_loss: float | None = None
    """Of the targets together, as in PassStarted; 0 where the cut has silenced them."""
    ablation_heads: list[float] = field(default_factory=list)
    sink_mass: Rows = field(default_factory=list)
    """What sink logits take, of every head; empty where no head has one."""


@dataclass(frozen=True, kw_only=True)
class Step(Event):
    """One optimizer step. ``loss`` is the mean over the step's predicted tokens, in nats."""

    kind: ClassVar[str] = "step"
    number: int
    step: int
    """Steps done, from 1."""
    loss: float
    lr: float
    grad_norm: float
    tokens: int
    """Tokens trained on so far in this pass."""
    seconds: float
    """Wall time of this step."""


@dataclass(frozen=True, kw_only=True)
class Check(Event):
    """One evaluation inside a pass."""

    kind: ClassVar[str] = "check"
    number: int
    step: int
    train_loss: float
    """Mean training loss since the check before."""
    heldout_perplexity: float
    woken: int
    bos_mass: Rows
    drift: Drift
    """Against stock."""
    drift_training: Drift
    """Against the cut."""
    columns: list[float | None]
    """Mean |drift| against stock per head index, over untouched heads."""
    best: bool
    sink_mass: Rows = field(default_factory=list)
    """As in Cut."""


@dataclass(frozen=True, kw_only=True)
class Saved(Event):
    """State or patch is on the disk; a resume goes on from ``step``."""

    kind: ClassVar[str] = "saved"
    number: int
    step: int
    file: str
    bytes: int


@dataclass(frozen=True, kw_only=True)
class Paused(Event):
    kind: ClassVar[str] = "paused"
    number: int
    step: int


@dataclass(frozen=True, kw_only=True)
class Continued(Event):
    """A paused pass goes on."""

    kind: ClassVar[str] = "continued"
    number: int
    step: int


@dataclass(frozen=True, kw_only=True)
class Resumed(Event):
    """A pass goes on from a saved state; whatever the journal holds of later steps did not count."""

    kind: ClassVar[str] = "resumed"
    number: int
    step: int


@dataclass(frozen=True, kw_only=True)
class Queued(Event):
    """Passes that were ordered and wait for their turn, all of them; each leaves as it starts."""

    kind: ClassVar[str] = "queued"
    plans: list[dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Changed(Event):
    """The operator set options of the running pass; they hold from ``step`` on, and after a resume."""

    kind: ClassVar[str] = "changed"
    number: int
    step: int
    values: dict[str, Any]
    """Names and values as in the plan."""


@dataclass(frozen=True, kw_only=True)
class OutOfMemory(Event):
    """A step did not fit. The pass stands still at ``step``, its state saved."""

    kind: ClassVar[str] = "out_of_memory"
    number: int
    step: int
    micro_batch: int
    accumulate: int
    offered_micro_batch: int
    """Smaller, with the same samples per step; 0: there is no smaller one."""
    offered_accumulate: int
    checkpointing: bool
    """Whether gradient checkpointing was on; where it was not, it can be offered too."""


@dataclass(frozen=True, kw_only=True)
class PassEnded(Event):
    """A pass is over and its best (or last) slices are in the model."""

    kind: ClassVar[str] = "pass_ended"
    number: int
    outcome: str
    """completed, patience, stopped (best kept), stopped_last, or diverged (three steps in a row refused)."""
    step: int
    kept_step: int
    """The step whose slices were kept."""
    heldout_perplexity: float
    woken: int
    ablation_loss_after: float
    perplexity_after: dict[str, float]
    drift: Drift
    drift_training: Drift
    spreading: list[int]
    refused_steps: int
    frozen_sha256_after: str
    patch_sha256: str
    heldout_sources: dict[str, float] = field(default_factory=dict)
    ablation_heads_after: list[float] = field(default_factory=list)
    peak_memory_bytes: int = 0
    """Largest resident memory of the worker on a CPU, largest allocation on a GPU; 0: not known."""
    trained_tokens: int = 0
    learned_logits: list[float] = field(default_factory=list)
    """The targets' sink logits in the order of ``target_heads``; empty where the pass trained none."""


@dataclass(frozen=True, kw_only=True)
class Generated(Event):
    """The model as it stands continued prompts. ``stage`` is ``stock`` or ``pass-N``."""

    kind: ClassVar[str] = "generated"
    stage: str
    temperature: float
    top_p: float
    new_tokens: int
    seed: int
    continuations: list[Continuation]


@dataclass(frozen=True, kw_only=True)
class Contributed(Event):
    """What every head by itself is worth: the loss that a text gains when it alone falls silent."""

    kind: ClassVar[str] = "contributed"
    stage: str
    text: str
    """What the samples were taken from."""
    samples: int
    tokens: int
    """Predicted tokens."""
    loss: float
    """With every head at work, nats per predicted token."""
    rows: Rows
    """Gain per layer and head, in the same unit."""


@dataclass(frozen=True, kw_only=True)
class StreamStarted(Event):
    """A long text is being read through windows, in one state of the model after the other."""

    kind: ClassVar[str] = "stream_started"
    text: str
    tokens: int
    window: int


@dataclass(frozen=True, kw_only=True)
class Streamed(Event):
    """One way of reading a long text is done, in one state of the model."""

    kind: ClassVar[str] = "streamed"
    stage: str
    """``stock`` or ``pass-N``."""
    text: str
    """The source, as it was named."""
    text_sha256: str
    """Of its token ids."""
    tokens: int
    """Predicted in all; the figures are of those past the first window."""
    window: int
    way: str
    """``full``, ``anchors`` (with 0 of them: the window alone) or ``recomputed``."""
    anchors: int
    perplexity: float
    tokens_per_second: float
    cache_bytes: int
    """Keys and values at the end of the text."""


@dataclass(frozen=True, kw_only=True)
class StreamEnded(Event):
    """No more of the text is read; what was done stands."""

    kind: ClassVar[str] = "stream_ended"
    outcome: str
    """completed, stopped or out_of_memory."""


@dataclass(frozen=True, kw_only=True)
class Undone(Event):
    """The slices of a pass got their originals back."""

    kind: ClassVar[str] = "undone"
    number: int


@dataclass(frozen=True, kw_only=True)
class Accepted(Event):
    """The operator keeps a pass."""

    kind: ClassVar[str] = "accepted"
    number: int


@dataclass(frozen=True, kw_only=True)
class Note(Event):
    kind: ClassVar[str] = "note"
    text: str


@dataclass(frozen=True, kw_only=True)
class Refused(Event):
    """A command could not be carried out; the session is as it was."""

    kind: ClassVar[str] = "refused"
    message: str


@dataclass(frozen=True, kw_only=True)
class Failed(Event):
    """The worker stops because of this."""

    kind: ClassVar[str] = "error"
    message: str


@dataclass(frozen=True, kw_only=True)
class Closed(Event):
    """The worker left in order."""

    kind: ClassVar[str] = "closed"
