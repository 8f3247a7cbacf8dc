"""The model card of an exported folder: what was done to the patient, by which figures, and the way back.

No torch here. What the card tells stands in the record, or in a lone patch's own description of itself.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from engine import __version__
from engine.chart import Chart
from engine.gguf import is_gguf, read_gguf
from engine.printable import printable
from engine.report import markdown_of
from engine.report.blocks import Block, Excerpts, Facts, Figures, Heading, Paragraph
from engine.report.material import Material
from engine.report.passes import pass_section
from engine.report.words import NOT_KNOWN, Code, Text
from engine.tables import PassTable, PatientTable, Record

FILE = "README.md"


def card(record: Record, license_: str = "") -> str:
    """The card of a model that bears all standing passes of a session; ``license_`` is the source's own."""
    m = Material(record, Chart(), {})
    blocks: list[Block] = [
        Heading(1, [Code(_short(record.session.model)), ", its attention heads operated on"]),
        Paragraph(
            [
                "Attention heads of this model were cut, trained anew and measured with headsurgeon. Only the slices "
                "of the target heads named below differ from the model it was made of, all else is the same."
            ]
        ),
        Facts([*_patient(record), *_heads(m), ("session", [Code(record.session.id)]), *_versions(record)]),
        *(block for p in m.record.standing for block in _pass(m, p)),
        *_way_back("SESSION", ["SESSION is the folder of the session ", Code(record.session.id), "."]),
    ]
    return _front_matter(record.session.model, license_) + markdown_of(blocks)


def card_of_patch(about: dict[str, Any], license_: str = "") -> str:
    """The card of a model that bears one patch, from what the patch's file says of itself."""
    plan: dict[str, Any] = about.get("plan", {})
    source = str(about.get("source", ""))
    settings: list[tuple[str, Text]] = [(name, [Code(_value(name, value))]) for name, value in plan.items()]
    blocks: list[Block] = [
        Heading(1, [Code(_short(source)), ", its attention heads operated on"]),
        Paragraph(
            [
                f"Pass {about.get('number', NOT_KNOWN)} of a session of headsurgeon, from its patch alone: what was "
                "measured stands in the session's record, not in the patch."
            ]
        ),
        Facts(
            [
                ("source", [Code(_short(source))]),
                ("weights sha256 of the source", [Code(str(about.get("weights_sha256", "")))]),
                ("target heads", [Code(", ".join(map(str, about.get("target_heads", []))))]),
                ("headsurgeon", [__version__]),
            ]
        ),
        Heading(2, ["Settings"]),
        Facts(settings),
        *_way_back("PATCH", ["PATCH is the file that was applied."]),
    ]
    return _front_matter(source, license_) + markdown_of(blocks)


def license_of(folder: Path) -> str:
    """The license that a model folder's own README or config.json, or a GGUF file, names; empty where neither does."""
    if is_gguf(folder):
        named = read_gguf(folder).metadata.get("general.license", "")
        return named if isinstance(named, str) and re.fullmatch(r"[\w.+-]+", named) else ""
    try:
        head = re.match(r"---\n(.*?)\n---", (folder / FILE).read_text("utf-8", "replace"), re.DOTALL)
    except OSError:
        head = None
    found = re.search(r"^license:[ \t]*[\"']?([\w.+-]+)[\"']?[ \t]*$", head[1] if head else "", re.MULTILINE)
    if found:
        return found[1]
    try:
        named = json.loads((folder / "config.json").read_text("utf-8")).get("license")
    except (OSError, ValueError, AttributeError):
        return ""
    return named if isinstance(named, str) else ""


def _front_matter(model: str, license_: str) -> str:
    lines = ["---"]
    if _on_hub(model):
        lines += [f"base_model: {_yaml(model)}"]
    if license_:
        lines += [f"license: {_yaml(license_)}"]
    lines += ["library_name: transformers", "pipeline_tag: text-generation"]
    lines += ["tags:", "- headsurgeon", "- attention-heads", "---", ""]
    return "\n".join([*lines, ""])


def _yaml(text: str) -> str:
    """A quoted scalar that reads as exactly this text: YAML takes JSON's."""
    return json.dumps(printable(text), ensure_ascii=False)


def _on_hub(model: str) -> bool:
    """Whether a name is one of the hub's: a path, or the demo, is nothing to link to there."""
    return bool(model) and model != "demo" and not _is_path(model)


def _is_path(source: str) -> bool:
    return source.startswith((".", "~", "/"))


def _short(source: str) -> str:
    """A source without the folders above it: they tell of the operator's machine, not of the model."""
    return Path(source).name if _is_path(source) else source


def _value(name: str, value: Any) -> str:
    if name in ("corpus", "watch", "watch_heldout") and isinstance(value, list):
        return ", ".join(_short(str(source)) for source in value)
    return str(value)


def _patient(record: Record) -> list[tuple[str, Text]]:
    t: PatientTable | None = record.patient
    if t is None:
        return [("source", [Code(_short(record.session.model))])]
    revision: Text = [", revision ", Code(t.revision)] if t.revision else []
    return [
        ("source", [Code(_short(t.source)), *revision]),
        ("weights sha256 of the source", [Code(t.weights_sha256)]),
        ("family", [Code(t.family), f", {t.n_layers} layers × {t.n_heads} heads"]),
        ("worked in", [Code(t.dtype), " on ", Code(t.device)]),
        *([("weights", [t.stored])] if t.stored else []),
    ]


def _heads(m: Material) -> list[tuple[str, Text]]:
    """Healthy heads before and, by the last standing pass, after."""
    stages = ["stock", *(f"pass-{p.number}" for p in m.record.standing)]
    found = [m.record.diagnosis[stage].counts for stage in stages if stage in m.record.diagnosis]
    if len(found) < 2:
        return []
    (first, last), of = (found[0], found[-1]), f" of {m.heads}" if m.heads else ""
    return [("healthy heads", [f"{first.get('healthy', NOT_KNOWN)} → {last.get('healthy', NOT_KNOWN)}{of}"])]


def _versions(record: Record) -> list[tuple[str, Text]]:
    shown = ", ".join(f"{name} {version}" for name, version in record.environment.items() if version)
    return [("headsurgeon", [record.session.headsurgeon]), *([("with", [Code(shown)])] if shown else [])]


def _pass(m: Material, p: PassTable) -> list[Block]:
    """A pass as the report tells it, without pictures, with the sum of its patch."""
    heading, facts, *rest = pass_section(m, _private(p))
    patch: Text = [Code(p.patch_sha256)] if p.patch_sha256 else [NOT_KNOWN]
    return [heading, facts, Facts([("patch sha256", patch)]), *(block for block in rest if block.kind != Figures.kind)]


def _private(p: PassTable) -> PassTable:
    """A pass whose sources go by their names alone."""
    tables = {
        field: getattr(p, field)
        for field in (
            "heldout_sources_stock",
            "heldout_sources_cut",
            "heldout_sources_after",
            "perplexity_stock",
            "perplexity_after",
        )
    }
    short = _names([*(c.source for c in p.corpus), *(name for table in tables.values() for name in table or ())])
    named = {field: table and {short[name]: value for name, value in table.items()} for field, table in tables.items()}
    corpus = [c.model_copy(update={"source": short[c.source], "broken_first": []}) for c in p.corpus]
    return p.model_copy(update={**named, "corpus": corpus})


def _names(sources: list[str]) -> dict[str, str]:
    """Sources with their short names, numbered where two would be called the same."""
    names: dict[str, str] = {}
    for source in dict.fromkeys(sources):
        name, number = _short(source), 1
        while name in names.values():
            number += 1
            name = f"{_short(source)} ({number})"
        names[source] = name
    return names


def _way_back(source: str, told: Text) -> list[Block]:
    return [
        Heading(2, ["How to take it off again"]),
        Paragraph(["The patch holds what it replaced, so the source's own files come back byte for byte. ", *told]),
        Excerpts([(["in a shell"], f"headsurgeon undo {source} THIS_FOLDER --to STOCK")]),
    ]
