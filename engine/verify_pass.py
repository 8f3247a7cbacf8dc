"""The cheap claims of one pass, replayed from the maps, the journal and the patch file."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from engine import events
from engine.anatomy import Anatomy, Slice, recorded_anatomy, whole_groups
from engine.chart import Chart
from engine.checkpoint import PATCH_FORMAT, read_header
from engine.claims import Claim, compared, differences, shown
from engine.drift import Drift, column_means, drift, named_columns, spreading
from engine.errors import InputError
from engine.files import sha256_of
from engine.heads import Head, HeadMap, Rows, woken
from engine.journal import Reader
from engine.session import Session
from engine.tables import DriftTable, PassTable, PatientTable
from engine.targets import Model, needs_head_map, resolve, zone_of, zones

CLOSE = 1e-3
"""A perplexity taken again over the kept slices may differ by so much on a GPU, relatively."""


@dataclass(frozen=True)
class Moved:
    """What a map inside a pass says, computed anew."""

    woken: int
    drift: Drift
    drift_training: Drift | None
    """Of a check, against the cut; None for the cut itself."""
    columns: list[float | None]


@dataclass
class Told:
    """What the journal knows of a pass beyond the record."""

    started: events.PassStarted
    before: HeadMap | None
    """The newest map of the model as it stood when the pass began."""
    targets: list[Head]
    earlier: frozenset[Head] = frozenset()
    """Targets of the passes that stood already."""
    outcome: str = ""
    cut_rows: Rows | None = None
    cut: Moved | None = None
    checks: dict[int, Moved] = field(default_factory=dict)
    after: HeadMap | None = None


def retell(session: Session, stock: HeadMap) -> dict[int, Told]:
    """Walk through the journal and compute its maps' figures anew, pass by pass. Maps that fit no
    patient of stock's shape are passed over."""
    chart, told = Chart(), dict[int, Told]()
    current: Told | None = None
    for entry in Reader(session.journal).entries():
        event = entry.event
        match event:
            case events.PassStarted():
                earlier = frozenset(head for done in chart.standing for head in done.targets)
                current = Told(event, chart.head_map, _heads(event.target_heads, stock), earlier)
                told[event.number] = current
            case events.Cut() if current and current.targets and _fits(event.bos_mass, stock):
                current.cut_rows = event.bos_mass
                if current.before and _fits(current.before.bos_mass, stock):
                    before = current.before.bos_mass
                    current.cut = _moved(current, stock, before, event.bos_mass, _fitting(event.sink_mass, stock))
            case events.Check() if current and current.targets and _fits(event.bos_mass, stock):
                sinks = _fitting(event.sink_mass, stock)
                current.checks[event.step] = _moved(current, stock, stock.bos_mass, event.bos_mass, sinks)
            case events.Resumed() if current:
                current.checks = {step: made for step, made in current.checks.items() if step <= event.step}
            case events.Diagnosed() if current and event.stage == f"pass-{current.started.number}":
                current.after = event.head_map if _fits(event.head_map.bos_mass, stock) else None
            case events.PassEnded() if current:
                current.outcome = event.outcome
        chart.add(entry)
    return told


def _fits(rows: Rows, stock: HeadMap) -> bool:
    return len(rows) == stock.n_layers and all(len(row) == stock.n_heads for row in rows)


def _fitting(rows: Rows, stock: HeadMap) -> Rows:
    """Rows of the sink mass, where there are any."""
    return rows if _fits(rows, stock) else []


def _heads(names: list[str], stock: HeadMap) -> list[Head]:
    """Those that the model has."""
    heads = []
    for name in names:
        try:
            head = Head.parse(name)
        except ValueError:
            continue
        if head.layer < stock.n_layers and head.head < stock.n_heads:
            heads.append(head)
    return heads


def _moved(told: Told, stock: HeadMap, before: Rows, rows: Rows, sinks: Rows) -> Moved:
    chosen, in_band, outside = zones(told.targets, Model.of(stock), told.earlier)
    t = stock.thresholds
    return Moved(
        woken=woken(rows, sinks, told.targets, t),
        drift=drift(before, rows, (chosen, in_band, outside), t),
        drift_training=drift(told.cut_rows, rows, (chosen, in_band, outside), t) if told.cut_rows else None,
        columns=column_means(stock.bos_mass, rows, in_band | outside),
    )


def pass_claims(
    session: Session, patient: PatientTable, p: PassTable, maps: dict[str, HeadMap], told: Told | None
) -> Iterator[Claim]:
    """Every claim of a pass that needs no model; ``maps`` are those of the record, by stage."""
    where = f"pass {p.number}"
    targets = [Head.parse(name) for name in p.target_heads]
    if not targets or any(h.layer >= patient.n_layers or h.head >= patient.n_heads for h in targets):
        yield Claim("target_heads", where, False, "none is named, or one that the patient lacks")
        return
    yield _targets_claim(where, patient, p, maps, told)
    layers, heads = zone_of(targets)
    yield compared(where, "zone", {"layers": p.zone.layers, "heads": p.zone.heads}, {"layers": layers, "heads": heads})
    anatomy = _anatomy(patient)
    if anatomy:
        found = anatomy.trained_parameters(targets, p.touched) if p.trains else 0
        yield compared(where, "trained_parameters", p.trained_parameters, found)
        found = anatomy.touched_tensor_parameters(targets, p.touched)
        yield compared(where, "touched_tensor_parameters", p.touched_tensor_parameters, found)
    yield from _map_claims(where, p, targets, maps, told)
    yield from _step_claims(where, p, told)
    if p.ended is None:
        return
    yield compared(where, "frozen_sha256_after", p.frozen_sha256_after, p.frozen_sha256_before)
    path = session.patch(p.number)
    if path.is_file():
        yield compared(where, "patch_sha256", p.patch_sha256, sha256_of(path))
        yield _patch_claim(where, path, patient, anatomy, p, targets)
    else:
        yield Claim("patch_sha256", where, None, f"{path.parent.name}/{path.name} is not there")


def _anatomy(patient: PatientTable) -> Anatomy | None:
    """The patient's, where there is an adapter for it."""
    try:
        return recorded_anatomy(patient)
    except InputError:
        return None


def _targets_claim(
    where: str, patient: PatientTable, p: PassTable, maps: dict[str, HeadMap], told: Told | None
) -> Claim:
    """The targets are what the expression names, on the map of the model as it stood before the pass."""
    before = told.before if told else None
    if p.number == 1 or p.classes == "stock":
        before = maps["stock"]
    try:
        if before is None and needs_head_map(p.targets):
            return Claim("target_heads", where, None, "the map that stood before the pass is gone")
        found = resolve(p.targets, Model(patient.n_layers, patient.n_heads, before))
    except InputError as error:
        return Claim("target_heads", where, False, str(error))
    anatomy = _anatomy(patient)
    if anatomy and p.whole_groups:
        found = whole_groups(anatomy, found, p.touched, take_along=True)
    said, names = set(p.target_heads), [str(head) for head in found]
    if said == set(names) and len(p.target_heads) == len(names):
        return Claim("target_heads", where, True, f"{p.targets!r} names these {len(names)} heads")
    odd = sorted(said ^ set(names))
    sentence = f"the record names {len(p.target_heads)} heads and {p.targets!r} {len(names)}; differing: {shown(odd)}"
    return Claim("target_heads", where, False, sentence)


def _map_claims(
    where: str, p: PassTable, targets: list[Head], maps: dict[str, HeadMap], told: Told | None
) -> Iterator[Claim]:
    """Woken heads and drift, at the cut, at each check and after."""
    stock = maps["stock"]
    if told is None:
        yield Claim("woken", where, None, "the journal is gone, and the map of the cut with it")
        return
    if p.woken_at_cut is not None:
        if told.cut:
            yield compared(where, "woken_at_cut", p.woken_at_cut, told.cut.woken)
            yield compared(where, "drift_cut", p.drift_cut, _table(told.cut.drift))
        else:
            yield Claim("woken_at_cut", where, None, "the map of the cut is gone")
    steps = [check.step for check in p.check]
    if not all(step in told.checks and told.checks[step].drift_training for step in steps):
        yield Claim("check", where, None, "the journal lacks the map of a check, or of the cut")
    elif steps:
        said, found = dict[int, dict[str, object]](), dict[int, dict[str, object]]()
        for check in p.check:
            made, names = told.checks[check.step], ("woken", "drift", "drift_training", "columns")
            its_own = (check.woken, check.drift, check.drift_training, check.columns)
            said[check.step] = dict(zip(names, its_own, strict=True))
            its = (made.woken, _table(made.drift), _table(made.drift_training), named_columns(made.columns))
            found[check.step] = dict(zip(names, its, strict=True))
        claim = compared(where, "check", said, found)
        sentence = f"woken and drift of {len(steps)} checks are those of their maps"
        yield replace(claim, detail=sentence) if claim.holds else claim
    if p.ended is None:
        return
    after = maps.get(f"pass-{p.number}", told.after)
    if after is None or told.cut_rows is None:
        yield Claim("woken", where, None, "the map of the pass, or of its cut, is gone")
        return
    sinks = _fitting(after.sink_mass, stock)
    made_after = _moved(replace(told, targets=targets), stock, stock.bos_mass, after.bos_mass, sinks)
    yield compared(where, "woken", p.woken, made_after.woken)
    yield compared(where, "drift", p.drift, _table(made_after.drift))
    yield compared(where, "drift_training", p.drift_training, _table(made_after.drift_training))
    first = told.checks[min(told.checks)].columns if told.checks else made_after.columns
    found_columns = spreading(first, made_after.columns, stock.thresholds)
    yield compared(where, "spreading", p.spreading, found_columns)


def _table(found: Drift | None) -> DriftTable | None:
    return DriftTable.model_validate(asdict(found)) if found else None


def _step_claims(where: str, p: PassTable, told: Told | None) -> Iterator[Claim]:
    """Steps, checks and tokens fit one another and the plan."""
    planned = told.started.plan.get("steps") if told and p.trains else None
    if planned:
        yield compared(where, "steps", p.steps, planned)
    yield compared(where, "warmup", p.warmup, max(1, min(100, p.steps // 4)))
    lowest, marks = math.inf, list[bool]()
    for check in p.check:
        marks.append(check.heldout_perplexity < lowest)
        lowest = min(lowest, check.heldout_perplexity)
    yield compared(where, "check.best", [check.best for check in p.check], marks)
    steps = [check.step for check in p.check]
    yield compared(where, "check.step", steps, sorted(set(steps)))
    if p.ended is None or p.steps_done is None:
        return
    outcome = told.outcome if told and told.outcome else p.outcome
    if steps:
        yield compared(where, "steps_done", p.steps_done, p.steps if outcome == "completed" else steps[-1])
        yield _best_claim(where, p, outcome)
        kept = [check.heldout_perplexity for check in p.check if check.step == p.best_step]
        if kept:
            yield compared(where, "heldout_perplexity", p.heldout_perplexity, kept[0], CLOSE)
    per_step = p.length * p.micro_batch * p.accumulate
    if p.trained_tokens and per_step > 0:
        name, needed = "trained_tokens", math.ceil(p.trained_tokens / per_step)
        sentence = f"{p.trained_tokens} tokens fill {needed} steps of up to {per_step}, and {p.steps_done} were done"
        yield Claim(name, where, needed == p.steps_done, sentence)


def _best_claim(where: str, p: PassTable, outcome: str) -> Claim:
    """The slices kept are those of the best check, or the last where that was asked for."""
    best = min(p.check, key=lambda check: check.heldout_perplexity)
    if outcome == "stopped_last":
        return compared(where, "best_step", p.best_step, p.steps_done)
    if outcome == "undone" and p.best_step == p.steps_done:  # how it ended is not known without the journal
        return Claim("best_step", where, None, "the journal does not say whether the last slices were asked for")
    if p.best_step == best.step:
        sentence = f"step {best.step} has the lowest held-out perplexity, {best.heldout_perplexity}"
        return Claim("best_step", where, True, sentence)
    sentence = f"the record says {p.best_step}; step {best.step} has the lowest perplexity, {best.heldout_perplexity}"
    return Claim("best_step", where, False, sentence)


def _patch_claim(
    where: str, path: Path, patient: PatientTable, anatomy: Anatomy | None, p: PassTable, targets: list[Head]
) -> Claim:
    """The patch holds the slices of the targets, before and after, and was made for this patient."""
    name = "patch"
    try:
        header, _ = read_header(path)
        about = json.loads(header.pop("__metadata__", {})[PATCH_FORMAT])
        shapes = {tensor: list(told["shape"]) for tensor, told in header.items()}
        its = {key: about[key] for key in ("number", "target_heads", "weights_sha256")}
    except InputError as error:
        return Claim(name, where, False, str(error))
    except (KeyError, TypeError, ValueError):
        return Claim(name, where, False, f"{path.name} is no headsurgeon patch")
    its_own = {"number": p.number, "target_heads": p.target_heads, "weights_sha256": patient.weights_sha256}
    wrong = next(differences(its_own, its, name), None)
    if wrong:
        return Claim(name, where, False, f"{wrong[0]}: the record says {shown(wrong[1])}, the file {shown(wrong[2])}")
    if anatomy is None:
        return Claim(name, where, None, f"there is no adapter for the family {patient.family}")
    slices = anatomy.slices_of(targets, p.touched)
    if p.placeholder is not None:  # whichever tensor the embedding is
        named = {key.partition("/")[2] for key in shapes if key.endswith(f"|0:{p.placeholder}:{p.placeholder + 1}")}
        slices += [Slice.parse(key) for key in named]
    needed = {f"{side}/{s.key}": list(anatomy.slice_shape(s)) for side in ("values", "originals") for s in slices}
    odd = sorted(key for key in needed.keys() | shapes.keys() if needed.get(key) != shapes.get(key))
    if odd:
        return Claim(name, where, False, f"{len(odd)} tensors are not the targets' slices: {shown(odd[:3])}")
    return Claim(name, where, True, f"{len(slices)} slices of {len(targets)} heads, before and after")
