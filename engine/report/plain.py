"""The report as one JSON object, for programs: the record as it is, and what the report works out of it."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from engine.analysis import PassAnalysis, analyse, ratio
from engine.paper import beside
from engine.record import streams_of
from engine.report.material import Material, after, best_check, targets_of
from engine.report.working import targets_by_head
from engine.report.worth import by_worth
from engine.streaming import without
from engine.tables import PassTable
from engine.targets import Model, zones

FORMAT = "headsurgeon-report-1"


def report_json(m: Material) -> str:
    """Record and derived figures."""
    return json_text({"format": FORMAT, "record": m.record.model_dump(by_alias=True), "derived": _derived(m)})


def json_text(told: dict[str, Any]) -> str:
    """An object as JSON; a number that is not finite, as another hand might write one, is null."""
    plain = json.loads(json.dumps(told, default=str), parse_constant=lambda _: None)
    return json.dumps(plain, allow_nan=False, indent=1) + "\n"


def analysis_told(found: PassAnalysis) -> dict[str, Any]:
    """Everything worked out of a pass, the reading of its phases with it."""
    told = asdict(found)
    return {**told, "phases": {**told["phases"], "reading": found.phases.reading}}


def _derived(m: Material) -> dict[str, Any]:
    stock = m.maps.get("stock")
    return {
        "heads": m.heads,
        "uniform_bos_mass": stock.uniform() if stock and stock.texts else None,
        "healthy": {stage: table.counts.get("healthy") for stage, table in m.record.diagnosis.items()},
        "shares": {
            stage: {name: ratio(count, m.heads) for name, count in table.counts.items()}
            for stage, table in m.record.diagnosis.items()
        },
        "standing_passes": [p.number for p in m.record.standing],
        "passes": [_pass(m, p) for p in m.record.passes],
        "paper": [asdict(group) for group in beside(m.record)],
        "streams": [
            {**asdict(passage), "without_anchors": {name: without(found) for name, found in read.items()}}
            for passage, read in streams_of(m.record).items()
        ],
        "heads_by_worth": {
            stage: [str(head) for head in by_worth(table)] for stage, table in m.record.contribution.items()
        },
    }


def _pass(m: Material, p: PassTable) -> dict[str, Any]:
    """What a pass has come to, finished or not."""
    now, best = after(p), best_check(p)
    compared = p.frozen_sha256_after is not None
    return {
        "number": p.number,
        "at_step": now.step,
        "woken": now.woken,
        "heldout_perplexity": now.perplexity,
        "heldout_ratio_to_stock": ratio(now.perplexity, p.heldout_perplexity_stock),
        "best_checked_step": best.step if best else None,
        "working_gained": _less(p.ablation_loss_after, p.ablation_loss_stock),
        "tokens_per_step": p.length * p.micro_batch * p.accumulate,
        "trained_share": ratio(p.trained_parameters, m.record.patient.parameters) if m.record.patient else None,
        "zones": _zones(m, p),
        "frozen_unchanged": p.frozen_sha256_after == p.frozen_sha256_before if compared else None,
        "drift": now.drift.model_dump() if now.drift else None,
        "drift_training": now.drift_training.model_dump() if now.drift_training else None,
        "analysis": analysis_told(analyse(m.record, p)),
        "targets": [{**asdict(target), "head": str(target.head)} for target in targets_by_head(m, p)],
    }


def _zones(m: Material, p: PassTable) -> dict[str, int] | None:
    if m.record.patient is None:
        return None
    targets, frozen, outside = zones(targets_of(p), Model(m.record.patient.n_layers, m.record.patient.n_heads))
    return {"targets": len(targets), "in_band_frozen": len(frozen), "outside": len(outside)}


def _less(a: float | None, b: float) -> float | None:
    return None if a is None else round(a - b, 6)
