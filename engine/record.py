"""The record, ``session.toml``: built from the journal's chart, enough for a report and read by people."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import asdict
from typing import Annotated, Any

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine import __version__, events
from engine.chart import Chart, PassChart
from engine.errors import InputError
from engine.files import write_text
from engine.generation import averages, by_category
from engine.heads import HeadMap, as_rows
from engine.plan import first_complaint
from engine.session import Session

SCHEMA = 1


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


HeadName = Annotated[str, Field(pattern=r"^L\d+-H\d+$")]


class PassTable(_Table):
    """One pass. What is None is not known yet: the pass was not cut, or has not ended."""

    number: int
    started: str
    ended: str | None = None
    outcome: str
    accepted: bool
    targets: str
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
    strict: bool = False
    watch: list[str] = Field(default_factory=list)
    generate: bool = False
    change: list[dict[str, Any]] = Field(default_factory=list)
    """What the operator set while the pass ran, and from which step on."""
    steps_done: int | None = None
    best_step: int | None = None
    """The step whose slices were kept; 0: the cut itself."""
    refused_steps: int | None = None
    woken_at_cut: int | None = None
    woken: int | None = None
    trained_tokens: int | None = None
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
    generation: dict[str, GenerationTable] = Field(default_factory=dict)


def build(chart: Chart) -> Record:
    """The record of a session, from its chart."""
    created = chart.created
    assert created is not None
    session = SessionTable(
        id=created.session,
        state=chart.state,
        created=chart.time_created,
        updated=chart.time_updated,
        headsurgeon=__version__,
        model=created.model,
        device=created.device,
        dtype=created.dtype,
        texts=created.texts,
        seed=created.seed,
    )
    return Record.model_validate(
        {
            "schema": SCHEMA,
            "session": session,
            "environment": dict(chart.worker.versions) if chart.worker else {},
            "patient": _patient(chart),
            "thresholds": asdict(chart.stock.thresholds) if chart.stock else {},
            "diagnosis": {stage: _diagnosis(m, chart.dormancy.get(stage, [])) for stage, m in chart.maps.items()},
            "pass": [_pass(pass_) for pass_ in chart.passes],
            "note": [{"time": time, "text": text} for time, text in chart.notes],
            "contribution": {stage: _contribution(found) for stage, found in chart.contributions.items()},
            "generation": {stage: _generation(found) for stage, found in chart.generated.items()},
        }
    )


def _patient(chart: Chart) -> PatientTable | None:
    if chart.loaded is None:
        return None
    firsts = list(dict.fromkeys(text.first_token for text in chart.stock.texts)) if chart.stock else []
    return PatientTable(**asdict(chart.loaded), token_at_position_0=firsts)


def _diagnosis(m: HeadMap, dormancy: list[float]) -> DiagnosisTable:
    return DiagnosisTable(
        counts=m.counts(),
        band=list(m.band() or ()),
        sensitivity=m.sensitivity(),
        borderline=sum(map(m.is_borderline, m.heads())),
        mlp_dormancy=round(sum(dormancy) / len(dormancy), 6) if dormancy else None,
        mlp_dormancy_layers=dormancy,
        texts=[TextTable(**asdict(text), uniform_bos_mass=round(text.uniform, 6)) for text in m.texts],
        bos_mass=as_rows(m.bos_mass),
        bos_low=as_rows(m.bos_low),
        bos_high=as_rows(m.bos_high),
        entropy=as_rows(m.entropy),
        entropy_low=as_rows(m.entropy_low),
        entropy_high=as_rows(m.entropy_high),
    )


def _contribution(found: events.Contributed) -> ContributionTable:
    return ContributionTable(
        text=found.text, samples=found.samples, tokens=found.tokens, loss=found.loss, rows=as_rows(found.rows)
    )


def _generation(found: events.Generated) -> GenerationTable:
    return GenerationTable(
        temperature=found.temperature,
        top_p=found.top_p,
        new_tokens=found.new_tokens,
        seed=found.seed,
        figures=averages(found.continuations),
        category=by_category(found.continuations),
        text=[ContinuationTable(**asdict(continuation)) for continuation in found.continuations],
    )


def _pass(p: PassChart) -> PassTable:
    started, ended = p.started, p.ended
    plan = p.plan
    unused = "epochs" if plan["steps"] else "steps"  # the pass was counted by the other
    table: dict[str, Any] = {k: v for k, v in plan.items() if k != unused} | {
        "number": p.number,
        "started": p.time_started,
        "target_heads": started.target_heads,
        "zone": {"layers": started.zone_layers, "heads": started.zone_heads},
        "corpus": [asdict(source) for source in started.corpus],
        "trained_parameters": started.trained_parameters,
        "touched_tensor_parameters": started.touched_tensor_parameters,
        "steps": started.steps,
        "warmup": started.warmup,
        "outcome": p.outcome,
        "accepted": p.accepted,
        "heldout_perplexity_stock": started.heldout_perplexity_stock,
        "heldout_perplexity_before": started.heldout_perplexity_before,
        "perplexity_stock": started.perplexity_stock,
        "heldout_sources_stock": started.heldout_sources_stock,
        "ablation_loss_stock": started.ablation_loss_stock,
        "ablation_heads_stock": started.ablation_heads_stock,
        "ablation_tokens": started.ablation_tokens,
        "memory_bytes_estimated": started.memory_bytes,
        "frozen_sha256_before": started.frozen_sha256_before,
        "change": [{"step": change.step, **change.values} for change in p.changes],
        "check": [_check(check) for check in p.checks],
    }
    if p.cut:
        table |= {
            "woken_at_cut": p.cut.woken,
            "heldout_perplexity_cut": p.cut.heldout_perplexity,
            "heldout_sources_cut": p.cut.heldout_sources,
            "ablation_loss_cut": p.cut.ablation_loss,
            "ablation_heads_cut": p.cut.ablation_heads,
            "drift_cut": asdict(p.cut.drift),
        }
    if ended:
        table |= {
            "ended": p.time_ended,
            "best_step": ended.kept_step,
            "steps_done": ended.step,
            "refused_steps": ended.refused_steps,
            "woken": ended.woken,
            "heldout_perplexity": ended.heldout_perplexity,
            "perplexity_after": ended.perplexity_after,
            "heldout_sources_after": ended.heldout_sources,
            "ablation_loss_after": ended.ablation_loss_after,
            "ablation_heads_after": ended.ablation_heads_after,
            "memory_bytes_peak": ended.peak_memory_bytes or None,
            "trained_tokens": ended.trained_tokens,
            "frozen_sha256_after": ended.frozen_sha256_after,
            "patch_sha256": ended.patch_sha256,
            "spreading": ended.spreading,
            "drift": asdict(ended.drift),
            "drift_training": asdict(ended.drift_training),
        }
    return PassTable.model_validate(table)


def _check(check: events.Check) -> CheckTable:
    return CheckTable(
        step=check.step,
        train_loss=check.train_loss,
        heldout_perplexity=check.heldout_perplexity,
        woken=check.woken,
        drift=DriftTable(**asdict(check.drift)),
        drift_training=DriftTable(**asdict(check.drift_training)),
        best=check.best,
    )


def save(session: Session, chart: Chart) -> None:
    """Write ``session.toml`` anew, atomically."""
    write_text(session.record, dumps(build(chart)))


def dumps(record: Record) -> str:
    """The record as TOML.

    Raises:
        ValueError: a number is not finite; no NaN ever reaches a record.
    """
    data = record.model_dump(by_alias=True, exclude_none=True)
    json.dumps(data, allow_nan=False, default=str)  # TOML itself would write nan
    # the texts go to the end, so that people find the figures first
    texts = {stage: {"text": table.pop("text")} for stage, table in data.get("generation", {}).items() if table["text"]}
    # one row of figures, or of heads, on one line: people read this
    return re.sub(
        r"\[\n((?:\s+[-+.\w\"]+,\n)+)\s*\]",
        lambda rows: f"[{' '.join(rows[1].split()).rstrip(',')}]",
        tomli_w.dumps(data) + ("\n" + tomli_w.dumps({"generation": texts}) if texts else ""),
    )


def load(session: Session) -> Record:
    """Read ``session.toml``.

    Raises:
        InputError: it is missing, damaged, or of a newer schema.
    """
    way_out = (
        f"mend it, or move it away and run `headsurgeon resume {session.folder}`, which writes it anew from the journal"
    )
    try:
        data = tomllib.loads(session.record.read_text("utf-8"))
    except FileNotFoundError as error:
        raise InputError(
            f"{session.id} has no session.toml yet; `headsurgeon resume {session.folder}` writes it"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{session.record} is damaged ({error}): {way_out}") from error
    schema = data.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise InputError(
            f"{session.record} has schema {schema} and this headsurgeon reads up to {SCHEMA}; "
            "install a newer headsurgeon"
        )
    try:
        return Record.model_validate(data)
    except ValidationError as error:
        raise InputError(f"{session.record} is damaged ({first_complaint(error)}): {way_out}") from error


def summary(record: Record) -> dict[str, Any]:
    """One line of the session list: id, patient, state, healthy heads before and after, date."""
    total = record.patient.n_layers * record.patient.n_heads if record.patient else 0
    stages = list(record.diagnosis.values())
    return {
        "id": record.session.id,
        "patient": record.session.model,
        "state": record.session.state,
        "heads": total,
        "healthy_before": stages[0].counts["healthy"] if stages else None,
        "healthy_after": stages[-1].counts["healthy"] if len(stages) > 1 else None,
        "updated": record.session.updated,
    }
