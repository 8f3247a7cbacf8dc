"""The record, ``session.toml``: built from the journal's chart, enough for a report and read by people."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import asdict
from statistics import fmean
from typing import Any

import tomli_w
from pydantic import ValidationError

from engine import __version__, events
from engine.chart import Chart, PassChart
from engine.drift import named_columns
from engine.errors import InputError
from engine.files import write_text
from engine.generation import averages, by_category
from engine.heads import Head, HeadMap, ProbeText, Rows, Thresholds, as_rows
from engine.plan import first_complaint
from engine.session import Session
from engine.streaming import Arm, ArmFigures, Passage, Read
from engine.tables import (
    ArmTable,
    CheckTable,
    ContinuationTable,
    ContributionTable,
    DiagnosisTable,
    DriftTable,
    GenerationTable,
    PassTable,
    PatientTable,
    Record,
    SessionTable,
    StreamTable,
    TextTable,
)

SCHEMA = 1


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
        protocol=created.protocol,
        arm=created.arm,
    )
    return Record.model_validate(
        {
            "schema": SCHEMA,
            "session": session,
            "environment": dict(chart.worker.versions) if chart.worker else {},
            "patient": _patient(chart),
            "thresholds": asdict(chart.stock.thresholds) if chart.stock else {},
            "diagnosis": {stage: _diagnosis(m, chart.dormancy.get(stage, [])) for stage, m in chart.maps.items()},
            "pass": [_pass(pass_, chart.maps.get(f"pass-{pass_.number}")) for pass_ in chart.passes],
            "note": [{"time": time, "text": text} for time, text in chart.notes],
            "contribution": {stage: _contribution(found) for stage, found in chart.contributions.items()},
            "stream": [_stream(p, stage, read) for p, by in chart.streams.items() for stage, read in by.items()],
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
        sink_mass=as_rows(m.sink_mass) or None,
        windows=m.windows or None,
    )


def _contribution(found: events.Contributed) -> ContributionTable:
    return ContributionTable(
        text=found.text, samples=found.samples, tokens=found.tokens, loss=found.loss, rows=as_rows(found.rows)
    )


def _stream(passage: Passage, stage: str, read: dict[Arm, ArmFigures]) -> StreamTable:
    rows = [ArmTable(kind=arm.kind, anchors=arm.anchors, **asdict(figures)) for arm, figures in read.items()]
    return StreamTable(
        text=passage.text,
        text_sha256=passage.sha256,
        tokens=passage.tokens,
        window=passage.window,
        stage=stage,
        arm=rows,
    )


def streams_of(record: Record) -> dict[Passage, Read]:
    """Long texts that were read, as the chart has them."""
    found: dict[Passage, Read] = {}
    for t in record.stream:
        read = found.setdefault(Passage(t.text, t.text_sha256, t.tokens, t.window), {})
        for row in t.arm:
            figures = ArmFigures(row.perplexity, row.tokens_per_second, row.cache_bytes)
            read.setdefault(t.stage, {})[Arm(row.kind, row.anchors)] = figures
    return found


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


def _pass(p: PassChart, after: HeadMap | None) -> PassTable:
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
        "sink_logits": started.sink_logits or None,
        "placeholder": started.placeholder,
        "placeholder_text": started.placeholder_text or None,
        "frozen_sha256_before": started.frozen_sha256_before,
        "change": [{"step": change.step, **change.values} for change in p.changes],
        "check": [_check(check, p.targets) for check in p.checks],
    }
    if p.cut:
        table |= {
            "woken_at_cut": p.cut.woken,
            "sink_mass_cut": _mean_of(p.cut.sink_mass, p.targets),
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
            "sink_mass_after": _mean_of(after.sink_mass, p.targets) if after else None,
            "learned_logits": ended.learned_logits or None,
            "heldout_perplexity": ended.heldout_perplexity,
            "perplexity_after": ended.perplexity_after,
            "heldout_sources_after": ended.heldout_sources,
            "ablation_loss_after": ended.ablation_loss_after,
            "ablation_heads_after": ended.ablation_heads_after,
            "memory_bytes_peak": ended.peak_memory_bytes or None,
            "trained_tokens": ended.trained_tokens,
            "training_seconds": round(sum(step.seconds for step in p.steps), 3),
            "frozen_sha256_after": ended.frozen_sha256_after,
            "patch_sha256": ended.patch_sha256,
            "spreading": ended.spreading,
            "drift": asdict(ended.drift),
            "drift_training": asdict(ended.drift_training),
        }
    return PassTable.model_validate(table)


def _mean_of(rows: Rows, heads: list[Head]) -> float | None:
    """Of some heads; None where there are no rows."""
    return round(fmean(rows[head.layer][head.head] for head in heads), 6) if rows else None


def _check(check: events.Check, targets: list[Head]) -> CheckTable:
    return CheckTable(
        step=check.step,
        train_loss=check.train_loss,
        heldout_perplexity=check.heldout_perplexity,
        woken=check.woken,
        sink_mass=_mean_of(check.sink_mass, targets),
        drift=DriftTable(**asdict(check.drift)),
        drift_training=DriftTable(**asdict(check.drift_training)),
        columns=named_columns(check.columns),
        best=check.best,
    )


def head_map(table: DiagnosisTable, thresholds: Thresholds) -> HeadMap:
    """The head map that a diagnosis of the record tells of; without the single texts' figures."""
    return HeadMap(
        bos_mass=table.bos_mass,
        entropy=table.entropy,
        bos_low=table.bos_low,
        bos_high=table.bos_high,
        entropy_low=table.entropy_low,
        entropy_high=table.entropy_high,
        sink_mass=table.sink_mass or [],
        windows=table.windows or [],
        texts=[ProbeText(text.name, text.tokens, text.first_token) for text in table.texts],
        thresholds=thresholds,
    )


def save(session: Session, chart: Chart) -> None:
    """Write ``session.toml`` anew, atomically. Its id is the folder's name, also where that was renamed."""
    record = build(chart)
    record.session.id = session.id
    write_text(session.record, dumps(record))


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
