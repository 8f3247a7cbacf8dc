"""The tables of the record, ``session.toml``, as they stand in the file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from engine.treatments import touched_parts, trains


class _Table(BaseModel):
    """A table of the record. Unknown keys are kept: a later program of the same schema wrote them."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)


class SessionTable(_Table):
    id: str
    state: str
    created: str
    updated: str
    headsurgeon: str
    model: str
    device: str
    dtype: str
    texts: str
    seed: int
    protocol: str = ""
    """Title of the protocol that this session is an arm of."""
    arm: str = ""


class PatientTable(_Table):
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
    token_at_position_0: list[str]
    config: dict[str, Any] = Field(default_factory=dict)
    """What of its ``config.json`` its anatomy follows from; ``null`` stands as false."""
    stored: str = ""
    """How its weights came where they are no longer that: dequantised from GGUF."""


class TextTable(_Table):
    name: str
    tokens: int
    first_token: str
    uniform_bos_mass: float | None = None
    """What uniform attention would score on it."""


class DiagnosisTable(_Table):
    counts: dict[str, int]
    band: list[int]
    """First and last head index; empty: no band."""
    sensitivity: dict[str, int]
    borderline: int
    mlp_dormancy: float | None = None
    """Share of MLP neurons with next to no weight."""
    mlp_dormancy_layers: list[float] = Field(default_factory=list)
    texts: list[TextTable]
    bos_mass: list[list[float]]
    bos_low: list[list[float]]
    bos_high: list[list[float]]
    entropy: list[list[float]]
    entropy_low: list[list[float]] = Field(default_factory=list)
    entropy_high: list[list[float]] = Field(default_factory=list)
    sink_mass: list[list[float]] | None = None
    """What the sink logits take; None: the model has none."""
    windows: list[int] | None = None
    """Per layer the keys that a query sees, 0: all; None: no layer has a window."""


class ZoneDriftTable(_Table):
    heads: int
    drifting: int
    mean: float
    worst: float
    worst_head: str


class DriftTable(_Table):
    outside: ZoneDriftTable
    in_band_frozen: ZoneDriftTable


class CheckTable(_Table):
    step: int
    train_loss: float
    heldout_perplexity: float
    woken: int
    best: bool
    drift: DriftTable
    """Against stock."""
    drift_training: DriftTable
    """Against the cut."""
    columns: dict[str, float] = Field(default_factory=dict)
    """Mean |drift| against stock of the untouched heads of a head index, by ``H5``; one without any is left out."""
    sink_mass: float | None = None
    """What the targets' sink logits take, mean over the targets; None: no head has one."""


class ZoneTable(_Table):
    """First and last layer, first and last head index."""

    layers: tuple[int, int]
    heads: tuple[int, int]


class CorpusTable(_Table):
    source: str
    sha256: str
    documents: int
    heldout_documents: int
    train_tokens: int
    heldout_tokens: int
    repeat: int = 1
    duplicates: int = 0
    broken: int = 0
    broken_first: list[str] = Field(default_factory=list)
    encoding_errors: int = 0

    @property
    def name(self) -> str:
        """The source without its repeat count."""
        return self.source.removesuffix(f"@{self.repeat}")

    @property
    def written(self) -> str:
        """The source as a plan has it: with its repeat count, where it is read more than once."""
        return self.name if self.repeat == 1 else f"{self.name}@{self.repeat}"


HeadName = Annotated[str, Field(pattern=r"^L\d+-H\d+$")]


class PassTable(_Table):
    """One pass. What is None is not known yet: the pass was not cut, or has not ended."""

    number: int
    started: str
    ended: str | None = None
    outcome: str
    accepted: bool
    targets: str
    classes: str = "now"
    treatment: str = "reinitialise"
    placeholder: int | None = None
    """The id of the token that stands before every text since this pass, and whose embedding it trained."""
    placeholder_text: str | None = None
    target_heads: list[HeadName]
    zone: ZoneTable
    trained_parameters: int
    touched_tensor_parameters: int
    corpus: list[CorpusTable]
    seed: int
    steps: int
    warmup: int
    epochs: int | None = None
    lr: float
    length: int
    micro_batch: int
    accumulate: int
    clip: float
    check_every: int
    patience: int
    init: str
    parts: str
    reinit: bool
    heldout_share: float
    heldout_samples: int
    checkpointing: bool = False
    whole_groups: bool = False
    sink_logits: str | None = None
    """What becomes of the targets' sink logits; None: the model has none."""
    strict: bool = False
    samples: int | None = None
    vocabulary: int = 0
    layout: str = "kept"
    watch: list[str] = Field(default_factory=list)
    watch_heldout: list[str] = Field(default_factory=list)
    generate: bool = False
    change: list[dict[str, Any]] = Field(default_factory=list)
    """What the operator set while the pass ran, and from which step on."""
    steps_done: int | None = None
    best_step: int | None = None
    """The step whose slices were kept; 0: the cut itself."""
    refused_steps: int | None = None
    woken_at_cut: int | None = None
    woken: int | None = None
    """Targets that rest neither on position 0 nor on a sink logit; the two together take at most the threshold."""
    sink_mass_cut: float | None = None
    sink_mass_after: float | None = None
    """What the targets' sink logits take, mean over the targets; None: no head has one."""
    learned_logits: list[float] | None = None
    """The targets' sink logits after the pass, in the order of ``target_heads``; None: it trained none."""
    trained_tokens: int | None = None
    training_seconds: float | None = None
    """Of the steps alone, without checks and what was measured before and after."""
    ablation_loss_stock: float
    ablation_loss_cut: float | None = None
    ablation_loss_after: float | None = None
    ablation_heads_stock: list[float] = Field(default_factory=list)
    """Of each target by itself, in the order of ``target_heads``, over ``ablation_tokens``."""
    ablation_heads_cut: list[float] | None = None
    ablation_heads_after: list[float] | None = None
    ablation_tokens: int = 0
    heldout_perplexity_stock: float
    heldout_perplexity_before: float | None = None
    heldout_perplexity_cut: float | None = None
    heldout_perplexity: float | None = None
    perplexity_stock: dict[str, float]
    """Of other texts, by name."""
    perplexity_after: dict[str, float] | None = None
    heldout_sources_stock: dict[str, float] = Field(default_factory=dict)
    """Held-out perplexity per source of the corpus."""
    heldout_sources_cut: dict[str, float] | None = None
    heldout_sources_after: dict[str, float] | None = None
    memory_bytes_estimated: int = 0
    memory_bytes_peak: int | None = None
    spreading: list[int] | None = None
    """Head indices whose column of untouched heads spread."""
    frozen_sha256_before: str
    frozen_sha256_after: str | None = None
    patch_sha256: str | None = None
    drift_cut: DriftTable | None = None
    drift_training: DriftTable | None = None
    drift: DriftTable | None = None
    check: list[CheckTable] = Field(default_factory=list)

    @property
    def touched(self) -> str:
        """Which parts the pass changed (``engine.plan.touched_parts``)."""
        return touched_parts(self.treatment, self.parts)

    @property
    def trains(self) -> bool:
        """Whether there were steps to do at all."""
        return trains(self.treatment)


class ContinuationTable(_Table):
    """One generated text. (Its keys alone are longer than a line, so it is never written on one.)"""

    prompt: str
    category: str
    language: str
    prompt_text: str
    text: str
    tokens: int
    repeated_ngrams: float
    longest_loop: int
    markup: list[str]
    code: bool
    script_switched: float
    language_switched: bool
    empty: bool


class GenerationTable(_Table):
    """Texts that the model wrote at a stage: means of their figures, of flags the share that bear them."""

    temperature: float
    top_p: float
    new_tokens: int
    seed: int
    figures: dict[str, float]
    category: dict[str, dict[str, float]]
    text: list[ContinuationTable]


class ContributionTable(_Table):
    """Per layer and head what the loss on a text gains when this head alone falls silent, in nats per token."""

    text: str
    samples: int
    tokens: int
    loss: float
    rows: list[list[float]]


class ArmTable(_Table):
    """One way of reading a long text."""

    kind: str
    """``full``, ``anchors`` (with 0 of them: the window alone) or ``recomputed``."""
    anchors: int
    perplexity: float
    tokens_per_second: float
    cache_bytes: int


class StreamTable(_Table):
    """A long text read through a window of slots in one state of the model, past its first window."""

    text: str
    text_sha256: str
    """Of its token ids."""
    tokens: int
    """Predicted in all, those of the first window too."""
    window: int
    stage: str
    arm: list[ArmTable]


class Record(_Table):
    """``session.toml`` as a whole."""

    schema_: int = Field(alias="schema")
    session: SessionTable
    environment: dict[str, str]
    patient: PatientTable | None = None
    thresholds: dict[str, float] = Field(default_factory=dict)
    diagnosis: dict[str, DiagnosisTable] = Field(default_factory=dict)
    passes: list[PassTable] = Field(default_factory=list, alias="pass")
    note: list[dict[str, str]] = Field(default_factory=list)
    contribution: dict[str, ContributionTable] = Field(default_factory=dict)
    stream: list[StreamTable] = Field(default_factory=list)
    generation: dict[str, GenerationTable] = Field(default_factory=dict)

    @property
    def standing(self) -> list[PassTable]:
        """Finished passes whose slices are in the model."""
        return [p for p in self.passes if p.ended is not None and p.outcome != "undone"]
