"""Sessions side by side, from their records: what was done to each patient and what came of it."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.analysis import wall_seconds
from engine.heads import CLASSES
from engine.printable import printable
from engine.report.words import NOT_KNOWN, Code, figure, grouped, markdown, percent
from engine.tables import DriftTable, PassTable, Record

WIDTH = 80
LABEL = 26
NARROWEST = 23
"""Room for three perplexities with arrows between them."""
NARROW = 16
"""Three columns of this width fit beside each other; the last of three perplexities goes into a second line."""
STAGES = "stock (→ cut) → after"


@dataclass(frozen=True)
class Column:
    """A session, with the pass that its figures are of; None where none was begun."""

    record: Record
    pass_: PassTable | None
    name: str


@dataclass(frozen=True)
class Row:
    """One figure of every column."""

    key: str
    label: str
    values: list[Any]
    """As in the records; stages, as ``{"stock": …, "after": …}``, where there are several."""
    cells: list[str]
    """The same in words."""


@dataclass(frozen=True)
class Comparison:
    columns: list[str]
    common: list[Row] = field(default_factory=list)
    """Settings that all share."""
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    """What makes the columns not quite comparable."""


@dataclass(frozen=True)
class _Figure:
    key: str
    label: str
    value: Callable[[Column], Any]
    words: Callable[[Any], str]


def compare(records: Sequence[Record], all_passes: bool = False) -> Comparison:
    """Put records side by side, each with its last standing pass, or with all its passes."""
    names = column_names(records)
    columns = [
        column for record, name in zip(records, names, strict=True) for column in _columns(record, name, all_passes)
    ]
    settings = [_row(made, columns) for made in [*_settings(), *_unusual(columns)]]
    equal = [row for row in settings if all(value == row.values[0] for value in row.values)]
    figures = [_row(made, columns) for made in _figures(columns)]
    return Comparison(
        columns=[column.name for column in columns],
        common=[row for row in equal if row.values[0] is not None],
        rows=[row for row in settings if row not in equal] + [row for row in figures if any(map(_known, row.values))],
        notes=_notes(columns),
    )


def column_names(records: Sequence[Record]) -> list[str]:
    """The ids of sessions; where all are of one protocol, their arms, with the seed where an arm has several."""
    ids = [record.session.id for record in records]
    arms = [record.session.arm for record in records]
    if not all(arms) or _differ([record.session.protocol for record in records]):
        return ids
    names = [
        arm if arms.count(arm) == 1 else f"{arm} seed {record.session.seed}"
        for arm, record in zip(arms, records, strict=True)
    ]
    return names if len({*names}) == len(names) else ids


def _columns(record: Record, name: str, all_passes: bool) -> list[Column]:
    if all_passes and record.passes:
        return [Column(record, p, f"{name} pass {p.number}") for p in record.passes]
    last = next(reversed(record.standing or record.passes), None)
    return [Column(record, last, name)]


def _row(made: _Figure, columns: list[Column]) -> Row:
    values = [made.value(column) for column in columns]
    return Row(made.key, made.label, values, [made.words(v) if _known(v) else NOT_KNOWN for v in values])


def _known(value: Any) -> bool:
    """Whether anything is known of a figure."""
    return any(v is not None for v in value.values()) if isinstance(value, dict) else value is not None


# -- what is told


def _settings() -> list[_Figure]:
    def of_pass(name: str) -> Callable[[Column], Any]:
        return lambda c: getattr(c.pass_, name) if c.pass_ else None

    def targets(c: Column) -> int | None:
        return len(c.pass_.target_heads) if c.pass_ else None

    def corpus(c: Column) -> list[str] | None:
        return [s.written for s in c.pass_.corpus] if c.pass_ else None

    def reinit(c: Column) -> bool | None:
        return c.pass_.reinit and c.pass_.treatment == "reinitialise" if c.pass_ else None

    def patient(c: Column) -> str:
        weights = c.record.patient.weights_sha256[:12] if c.record.patient else ""
        return f"{c.record.session.model} ({weights}…)" if weights else c.record.session.model

    return [
        _Figure("patient", "patient", patient, str),
        _Figure("dtype", "dtype", lambda c: c.record.patient.dtype if c.record.patient else None, str),
        _Figure("corpus", "corpus", corpus, ", ".join),
        _Figure("targets", "targets", of_pass("targets"), str),
        _Figure("target_heads", "target heads", targets, str),
        _Figure("reinit", "reinitialised", reinit, _yes),
        _Figure("parts", "parts", of_pass("parts"), str),
        _Figure("lr", "learning rate", of_pass("lr"), lambda v: f"{v:g}"),
        _Figure("steps", "steps planned", of_pass("steps"), grouped),
        _Figure("length", "tokens per sample", of_pass("length"), grouped),
        _Figure("seed", "seed", of_pass("seed"), str),
    ]


def _unusual(columns: list[Column]) -> list[_Figure]:
    """Settings that are told only where a pass departs from what is usual."""

    def of_pass(name: str, usual: Any) -> Callable[[Column], Any]:
        def value(c: Column) -> Any:
            found = getattr(c.pass_, name) if c.pass_ else None
            return usual if c.pass_ and found is None else found

        return value

    settings: list[tuple[str, str, Any, Callable[[Any], str]]] = [
        ("treatment", "treatment", "reinitialise", str),
        ("classes", "classes of the targets", "now", str),
        ("samples", "different samples", "all", lambda v: v if v == "all" else grouped(v)),
        ("vocabulary", "most frequent words", 0, lambda v: grouped(v) if v else "all"),
        ("layout", "layout", "kept", str),
    ]
    return [
        _Figure(name, label, of_pass(name, usual), words)
        for name, label, usual, words in settings
        if any(of_pass(name, usual)(c) not in (None, usual) for c in columns)
    ]


def _sinks(columns: list[Column]) -> list[_Figure]:
    """What sink logits take, where any pass knows of some."""
    if all(c.pass_ is None or c.pass_.sink_mass_after is None for c in columns):
        return []
    return [_Figure("sink_mass", "sink logits take", lambda c: c.pass_ and c.pass_.sink_mass_after, "{:.3f}".format)]


def _figures(columns: list[Column]) -> list[_Figure]:
    out = [
        _Figure("outcome", "outcome", lambda c: c.pass_.outcome if c.pass_ else c.record.session.state, str),
        _Figure("steps_done", "steps done", lambda c: c.pass_ and c.pass_.steps_done, grouped),
        _Figure("best_step", "step kept", lambda c: c.pass_ and c.pass_.best_step, grouped),
        *(_Figure(name, f"{name} heads", _count(name), _stages(0)) for name in CLASSES),
        _Figure("woken_at_cut", "woken at the cut", _of_targets("woken_at_cut"), _of),
        _Figure("woken", "woken after", _of_targets("woken"), _of),
        *_sinks(columns),
        _Figure("ablation_loss", "working (nats)", _three("ablation_loss", "ablation_loss_after"), _stages(4)),
        _Figure(
            "heldout_perplexity",
            "held-out perplexity",
            _three("heldout_perplexity", "heldout_perplexity"),
            _stages(2),
        ),
    ]
    watched = dict.fromkeys(name for c in columns if c.pass_ for name in c.pass_.perplexity_stock)
    out += [_Figure(f"perplexity.{name}", f"perplexity of {name}", _watched(name), _stages(2)) for name in watched]
    for zone, words in (("outside", "outside"), ("in_band_frozen", "in the band")):
        out += [
            _Figure(f"drift.{zone}.drifting", f"drifting, {words}", _drifting(zone), _of),
            _Figure(f"drift.{zone}.mean", f"mean drift, {words}", _drift(zone, "mean"), lambda v: figure(v, 4)),
            _Figure(f"drift.{zone}.worst", f"worst drift, {words}", _worst(zone), _worst_words),
        ]
    return [
        *out,
        _Figure("spreading", "spreading columns", lambda c: c.pass_ and c.pass_.spreading, _indices),
        _Figure("trained_parameters", "trained parameters", lambda c: c.pass_ and c.pass_.trained_parameters, grouped),
        _Figure("trained_tokens", "trained tokens", lambda c: c.pass_ and c.pass_.trained_tokens, grouped),
        _Figure("seconds", "seconds", lambda c: c.pass_ and wall_seconds(c.pass_), lambda v: grouped(round(v))),
        _Figure(
            "memory_bytes_peak",
            "peak memory (GB)",
            lambda c: c.pass_ and c.pass_.memory_bytes_peak,
            lambda v: f"{v / 1e9:.2f}",
        ),
        _Figure("generation.repeated_ngrams", "repeated 4-grams", _written("repeated_ngrams"), _shares),
        _Figure("generation.code", "texts with code", _written("code"), _shares),
        _Figure("generation.language_switched", "language switched", _written("language_switched"), _shares),
    ]


def _count(name: str) -> Callable[[Column], dict[str, int | None]]:
    def value(c: Column) -> dict[str, int | None]:
        stock = c.record.diagnosis.get("stock")
        after = c.record.diagnosis.get(f"pass-{c.pass_.number}") if c.pass_ else None
        sides = {"stock": stock, "after": after}
        return {side: table.counts.get(name) if table else None for side, table in sides.items()}

    return value


def _of_targets(name: str) -> Callable[[Column], dict[str, int] | None]:
    def value(c: Column) -> dict[str, int] | None:
        woken = getattr(c.pass_, name) if c.pass_ else None
        return None if woken is None or c.pass_ is None else {"heads": woken, "of": len(c.pass_.target_heads)}

    return value


def _three(name: str, after: str) -> Callable[[Column], dict[str, float | None] | None]:
    def value(c: Column) -> dict[str, float | None] | None:
        if c.pass_ is None:
            return None
        names = {"stock": f"{name}_stock", "cut": f"{name}_cut", "after": after}
        return {stage: getattr(c.pass_, of) for stage, of in names.items()}

    return value


def _watched(name: str) -> Callable[[Column], dict[str, float | None] | None]:
    def value(c: Column) -> dict[str, float | None] | None:
        if c.pass_ is None:
            return None
        return {"stock": c.pass_.perplexity_stock.get(name), "after": (c.pass_.perplexity_after or {}).get(name)}

    return value


def _drift(zone: str, name: str) -> Callable[[Column], Any]:
    def value(c: Column) -> Any:
        table: DriftTable | None = c.pass_.drift if c.pass_ else None
        return getattr(getattr(table, zone), name) if table else None

    return value


def _drifting(zone: str) -> Callable[[Column], dict[str, Any]]:
    return lambda c: {"heads": _drift(zone, "drifting")(c), "of": _drift(zone, "heads")(c)}


def _worst(zone: str) -> Callable[[Column], dict[str, Any]]:
    return lambda c: {"drift": _drift(zone, "worst")(c), "head": _drift(zone, "worst_head")(c)}


def _written(name: str) -> Callable[[Column], dict[str, float | None]]:
    def value(c: Column) -> dict[str, float | None]:
        stages = {"stock": "stock", "after": f"pass-{c.pass_.number}" if c.pass_ else ""}
        tables = {side: c.record.generation.get(stage) for side, stage in stages.items()}
        return {side: table.figures.get(name) if table else None for side, table in tables.items()}

    return value


# -- in words


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _stages(digits: int) -> Callable[[dict[str, float | None]], str]:
    return lambda stages: " → ".join(figure(value, digits) for value in stages.values())


def _shares(stages: dict[str, float | None]) -> str:
    return " → ".join(percent(value) for value in stages.values())


def _of(value: dict[str, int]) -> str:
    return f"{value['heads']} of {value['of']}"


def _worst_words(value: dict[str, Any]) -> str:
    return f"{figure(value['drift'], 4)} {value['head']}".rstrip()


def _indices(columns: list[int]) -> str:
    return ", ".join(f"H{index}" for index in columns) or "none"


def _notes(columns: list[Column]) -> list[str]:
    """What keeps the columns from being compared figure by figure."""
    passes = [c.pass_ for c in columns if c.pass_]
    notes = []
    if _differ([(c.record.session.model, _weights(c)) for c in columns]):
        notes.append("The patients differ: their figures stand on different models.")
    read = [[(s.name, s.sha256) for s in p.corpus] for p in passes]
    held = [[(s.name, s.heldout_documents, s.heldout_tokens) for s in p.corpus] for p in passes]
    if _differ(read) and _differ([(part, p.heldout_perplexity_stock) for part, p in zip(held, passes, strict=True)]):
        notes.append("The corpora differ: the perplexities are on different texts, and so is what heads are worth.")
    elif _differ([(p.length, p.heldout_share, p.heldout_samples) for p in passes]):
        notes.append("The held-out parts were cut differently: the perplexities are on different samples.")
    elif _differ(read):
        notes.append("Not all read equally far into the corpus; what is held out of it is the same.")
    stock = [c.record.diagnosis["stock"] for c in columns if "stock" in c.record.diagnosis]
    if _differ([[(t.name, t.tokens) for t in table.texts] for table in stock]):
        notes.append("The heads were measured on different texts.")
    if _differ([c.record.thresholds for c in columns if c.record.thresholds]):
        notes.append("The thresholds differ: the classes mean different things.")
    return notes


def _weights(c: Column) -> str:
    return c.record.patient.weights_sha256 if c.record.patient else ""


def _differ(values: list[Any]) -> bool:
    return any(value != values[0] for value in values)


# -- on paper


def compare_json(found: Comparison) -> dict[str, Any]:
    """``compare --json``."""
    return {
        "columns": found.columns,
        "common": {row.key: row.values[0] for row in found.common},
        "figures": {row.key: row.values for row in found.rows},
        "notes": found.notes,
    }


def compare_text(found: Comparison) -> str:
    """``compare`` for people, in 80 columns: two sessions beside each other, more of them in blocks of three."""
    least = NARROWEST if len(found.columns) < 3 else NARROW
    per_block = (WIDTH - LABEL) // (least + 2)
    width = max(least, (WIDTH - LABEL) // min(per_block, max(1, len(found.columns))) - 2)
    lines = []
    for row in found.common:
        lines += _wrapped([row.label, row.cells[0]], [LABEL, WIDTH - LABEL - 2])
    for at in range(0, len(found.columns), per_block):
        names = found.columns[at : at + per_block]
        widths = [LABEL, *[width] * len(names)]
        lines += ["", *_wrapped([STAGES, *names], widths)]
        for row in found.rows:
            lines += _wrapped([row.label, *row.cells[at : at + per_block]], widths)
    for note in found.notes:
        lines += ["", *textwrap.wrap(note, WIDTH)]
    return "\n".join(lines).lstrip("\n")


def _wrapped(cells: list[str], widths: list[int]) -> list[str]:
    """The lines of one row."""
    parts = [
        textwrap.wrap(printable(cell), width, break_on_hyphens=False) or [""]
        for cell, width in zip(cells, widths, strict=True)
    ]
    height = max(map(len, parts))
    filled = [part + [""] * (height - len(part)) for part in parts]
    return [
        "  ".join(f"{text:<{width}}" for text, width in zip(line, widths, strict=True)).rstrip()
        for line in zip(*filled, strict=True)
    ]


def compare_markdown(found: Comparison) -> str:
    """``--to FILE.md``."""
    lines = ["# Sessions side by side", ""]
    lines += [f"- {markdown([row.label])}: {markdown([Code(row.cells[0])])}" for row in found.common]
    lines += ["", _markdown_row([STAGES, *found.columns]), "|" + " --- |" * (1 + len(found.columns))]
    lines += [_markdown_row([row.label, *row.cells]) for row in found.rows]
    for note in found.notes:
        lines += ["", markdown([note])]
    return "\n".join(lines) + "\n"


def _markdown_row(cells: list[str]) -> str:
    return "| " + " | ".join(markdown([cell], in_table=True) for cell in cells) + " |"


def compare_csv(found: Comparison) -> str:
    """``--to FILE.csv``: a line per figure and stage, plain numbers; empty where nothing is known."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["figure", *map(_cell, found.columns)])
    for row in [*found.common, *found.rows]:
        stages = next((value for value in row.values if isinstance(value, dict)), None)
        if stages is None:
            writer.writerow([_cell(row.key), *map(_cell, row.values)])
        for stage in stages or {}:
            writer.writerow([_cell(f"{row.key}.{stage}"), *(_cell((value or {}).get(stage)) for value in row.values)])
    return file.getvalue()


def _cell(value: Any) -> str:
    """A value of a CSV file; no spreadsheet takes a text from outside for a formula."""
    match value:
        case None:
            return ""
        case list():
            return _cell(" ".join(map(str, value)) or "none")
        case str():
            text = printable(value)
            return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
        case _:
            return str(value)
