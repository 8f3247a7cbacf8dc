"""The cheap claims of a record, replayed: what can be computed anew from maps, journal and files is.

No model is loaded. A claim holds, does not hold, or cannot be checked here. What only the model can
say (perplexities, losses, the maps themselves) is held against the journal, which was written at the
time. ``engine.verify_pass`` has the claims of a pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine import demo
from engine.anatomy import recorded_anatomy
from engine.chart import Chart, read_chart
from engine.checkpoint import weights_sha256
from engine.claims import Claim, compared, differences, shown
from engine.errors import InputError
from engine.families import FAMILIES
from engine.generation import Continuation, averages, by_category
from engine.heads import HeadMap, Thresholds, known, uniform_bos_mass
from engine.printable import printable
from engine.record import build, head_map, load
from engine.session import Session
from engine.tables import DiagnosisTable, PatientTable, Record, StreamTable
from engine.verify_pass import pass_claims, retell

NAMED = 5
"""So many differing keys are named."""


def verify(session: Session) -> list[Claim]:
    """Every claim of a session's record that needs no model.

    Raises:
        InputError: there is no record, or it cannot be read.
    """
    record, chart = load(session), read_chart(session)
    claims = [_journal_claim(session, record, chart)]
    patient, maps = record.patient, dict[str, HeadMap]()
    if patient is not None:
        claims += _patient_claims(record, patient)
        for stage, table in record.diagnosis.items():
            claims += _diagnosis_claims(stage, table, record, patient, maps)
    for stage, written in record.generation.items():
        texts = [Continuation(**known(Continuation, dict(text))) for text in written.text]
        where = f"generation {stage}"
        if texts:
            claims.append(compared(where, "figures", written.figures, averages(texts)))
            claims.append(compared(where, "category", written.category, by_category(texts)))
        else:
            claims.append(Claim("figures", where, None, "the record holds none of its texts"))
    if patient is not None:
        claims += [_stream_claim(t, patient) for t in record.stream]
    if patient is not None and "stock" in maps:
        told = retell(session, maps["stock"])
        for p in record.passes:
            claims += pass_claims(session, patient, p, maps, told.get(p.number))
    elif record.passes:
        claims.append(Claim("pass", "session", None, "the passes rest on the stock map, which is not there"))
    return claims


def _limits(record: Record) -> dict[str, Any]:
    return known(Thresholds, record.thresholds)


def _journal_claim(session: Session, record: Record, chart: Chart) -> Claim:
    """Every figure of the record, field by field, is the journal's."""
    name, where = "record", "session"
    if chart.created is None:
        return Claim(name, where, None, "the journal is gone, or holds no beginning")
    journal = build(chart)
    journal.session.updated, journal.session.headsurgeon = record.session.updated, record.session.headsurgeon
    if record.session.id == session.id:  # a record bears the name of its folder, also where that was renamed
        journal.session.id = session.id
    found = list(differences(record, journal))
    if not found:
        return Claim(name, where, True, f"every figure is the journal's, {chart.seq} entries long")
    few = "; ".join(f"{path} is {shown(said)}, in the journal {shown(told)}" for path, said, told in found[:NAMED])
    more = f"; and {len(found) - NAMED} more" if len(found) > NAMED else ""
    if session.holder() is not None:
        return Claim(name, where, None, f"a worker is under way, and the record follows its journal later: {few}{more}")
    return Claim(name, where, False, f"{len(found)} figures are not the journal's: {few}{more}")


def _patient_claims(record: Record, patient: PatientTable) -> Iterator[Claim]:
    where = "patient"
    try:
        anatomy = recorded_anatomy(patient)
    except InputError as error:
        yield Claim("parameters", where, False if patient.family in FAMILIES else None, printable(str(error)))
    else:
        yield compared(where, "parameters", patient.parameters, anatomy.total_parameters)
        names = ("n_layers", "n_heads", "n_kv_heads", "d_model", "d_head", "vocabulary", "position_encoding")
        said, found = ({name: getattr(told, name) for name in names} for told in (patient, anatomy))
        yield compared(where, "shape", said, found)
        yield compared(where, "slopes", patient.slopes, list(anatomy.slopes), tolerance=1e-6)
    yield _weights_claim(record.session.model, patient)


def _weights_claim(model: str, patient: PatientTable) -> Claim:
    name, where = "weights_sha256", "patient"
    folder = demo.FOLDER if model == "demo" else Path(model).expanduser()
    if not folder.exists():
        return Claim(name, where, None, f"there is no folder {printable(model)} here")
    try:
        found = weights_sha256(folder)
    except (InputError, OSError) as error:
        return Claim(name, where, None, printable(str(error)))
    return compared(where, name, patient.weights_sha256, found)


def _diagnosis_claims(
    stage: str, table: DiagnosisTable, record: Record, patient: PatientTable, maps: dict[str, HeadMap]
) -> Iterator[Claim]:
    """Also puts the stage's map into ``maps``, where it has the patient's shape."""
    where = f"diagnosis {stage}"
    m = head_map(table, Thresholds(**_limits(record)))
    needed, optional = (m.bos_mass, m.entropy), (m.bos_low, m.bos_high, m.entropy_low, m.entropy_high)
    shape = Counter({patient.n_heads: patient.n_layers})
    if any(Counter(map(len, rows)) != shape for rows in (*needed, *filter(None, (*optional, m.sink_mass)))):
        sentence = f"a map is not of {patient.n_layers} layers × {patient.n_heads} heads"
        yield Claim("shape", where, False, sentence)
        return
    if any(bool(low) != bool(high) for low, high in (optional[:2], optional[2:])):
        yield Claim("shape", where, False, "one end of the intervals is missing")
        return
    if m.windows and len(m.windows) != patient.n_layers:
        yield Claim("shape", where, False, f"{len(m.windows)} windows for {patient.n_layers} layers")
        return
    maps[stage] = m
    yield compared(where, "counts", table.counts, m.counts())
    yield compared(where, "band", table.band, list(m.band() or ()))
    yield compared(where, "sensitivity", table.sensitivity, m.sensitivity())
    yield compared(where, "borderline", table.borderline, sum(map(m.is_borderline, m.heads())))
    layers = table.mlp_dormancy_layers
    if layers:
        yield compared(where, "mlp_dormancy", table.mlp_dormancy, round(sum(layers) / len(layers), 6))
    measurable = [text for text in table.texts if 0 < text.tokens <= patient.context]
    if len(measurable) < len(table.texts):
        sentence = f"{len(table.texts) - len(measurable)} texts have no token, or more than the context holds"
        yield Claim("texts", where, False, sentence)
    elif all(text.uniform_bos_mass is not None for text in measurable):
        said = {text.name: text.uniform_bos_mass for text in measurable}
        found = {text.name: round(uniform_bos_mass(text.tokens), 6) for text in measurable}
        yield compared(where, "uniform_bos_mass", said, found)


def _stream_claim(t: StreamTable, patient: PatientTable) -> Claim:
    """The caches took what their tokens take: those of a window its slots, whatever the text, and the others' all."""
    name, where = "cache_bytes", f"stream {t.stage}"
    value = {"float32": 4, "float16": 2, "bfloat16": 2}.get(patient.dtype)
    if value is None:
        return Claim(name, where, None, f"what a value of {patient.dtype} takes is not known")
    a_token = 2 * patient.n_layers * patient.n_kv_heads * patient.d_head * value
    if patient.family == "falcon" and patient.n_kv_heads > 1:  # its new decoder repeats shared K and V first
        a_token = a_token // patient.n_kv_heads * patient.n_heads
    tokens = {"full": t.tokens, "anchors": t.window, "recomputed": 0}
    said = {f"{arm.kind} {arm.anchors}": arm.cache_bytes for arm in t.arm if arm.kind in tokens}
    found = {f"{arm.kind} {arm.anchors}": tokens[arm.kind] * a_token for arm in t.arm if arm.kind in tokens}
    claim = compared(where, name, said, found)
    return replace(claim, detail=f"{a_token} bytes a token on {printable(t.text)}") if claim.holds else claim


WORDS = {True: "holds", False: "DOES NOT HOLD", None: "cannot be checked here"}


def verify_json(session: Session, claims: list[Claim]) -> dict[str, Any]:
    """``verify --json``."""
    return {
        "session": session.id,
        "holds": all(claim.holds is not False for claim in claims),
        "claims": [vars(claim) for claim in claims],
    }


def verify_text(session: Session, claims: list[Claim]) -> str:
    """``verify`` for people: a sentence per claim, then how many hold."""
    lines = [
        f"{printable(claim.where)}, {claim.name}: {WORDS[claim.holds]} ({printable(claim.detail)})" for claim in claims
    ]
    counts = Counter(claim.holds for claim in claims)
    last = (
        f"{printable(session.id)}: {len(claims)} claims, {counts[True]} hold, {counts[False]} do not, "
        f"{counts[None]} cannot be checked here"
    )
    return "\n".join([*lines, last])
