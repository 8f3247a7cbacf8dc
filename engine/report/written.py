"""The sections of a report that are about the texts which the model wrote."""

from __future__ import annotations

from engine.generation import FIGURES
from engine.report.blocks import Block, Excerpts, Facts, Fold, Heading, Paragraph, Table
from engine.report.material import Material
from engine.report.words import NOT_KNOWN, Code, Text, grouped, percent, stage_name
from engine.tables import ContinuationTable, GenerationTable

_NAMES = {
    "texts": "texts",
    "tokens": "new tokens",
    "repeated_ngrams": "repeated 4-grams of words",
    "longest_loop": "longest loop, words",
    "markup": "markup unasked",
    "code": "code unasked",
    "script_switched": "letters of other scripts",
    "language_switched": "other language",
    "empty": "empty",
}

LOOP = 5
"""Words from which a loop is told of a single text; "had had" is one of 2."""


def generation(m: Material) -> list[Block]:
    """The figures of the texts: over all, and per category."""
    found = {stage: table for stage, table in m.record.generation.items() if table.text}
    if not found:
        return []
    figures = ("texts", "tokens", *FIGURES)
    overall: list[list[Text]] = [
        [[_NAMES[name]], *([_figure(name, table.figures)] for table in found.values())] for name in figures
    ]
    blocks: list[Block] = [
        Heading(2, ["What it writes"]),
        Facts([(", ".join(stages), [sampling]) for sampling, stages in _samplings(found).items()]),
        Table(["", *(stage_name(stage) for stage in found)], overall),
        Paragraph(
            [
                "Means over the texts; of markup, code, other language and empty, the share of texts that bear them. "
                "Plain rules count what is plain to see, and none stands for reading the texts, which are at the end."
            ]
        ),
    ]
    categories = list(dict.fromkeys(name for table in found.values() for name in table.category))
    if len(categories) > 1:
        rows: list[list[Text]] = [
            [[Code(category)], [stage_name(stage)], *([_figure(name, table.category[category])] for name in figures)]
            for category in categories
            for stage, table in found.items()
            if category in table.category
        ]
        blocks.append(Table(["category", "model", *(_NAMES[name] for name in figures)], rows))
    return blocks


def _samplings(found: dict[str, GenerationTable]) -> dict[str, list[str]]:
    """How texts were drawn, and at which stages so."""
    out: dict[str, list[str]] = {}
    for stage, t in found.items():
        told = (
            f"temperature {t.temperature:g}, top-p {t.top_p:g}, up to {grouped(t.new_tokens)} new tokens a text, "
            f"seed {t.seed}"
        )
        out.setdefault(told, []).append(stage_name(stage))
    return out


def _figure(name: str, figures: dict[str, float]) -> str:
    value = figures.get(name)
    if value is None:
        return NOT_KNOWN
    if name == "texts":
        return grouped(int(value))
    return f"{value:.1f}" if name in ("tokens", "longest_loop") else percent(value)


def texts(m: Material) -> list[Block]:
    """Every prompt with what was written after it, stage beside stage."""
    pairs: dict[tuple[str, str], list[tuple[str, ContinuationTable]]] = {}
    for stage, table in m.record.generation.items():
        for written in table.text:
            pairs.setdefault((written.prompt, written.prompt_text), []).append((stage, written))
    if not pairs:
        return []
    return [Heading(2, ["Texts"]), *(_pair(prompt, sides) for (_, prompt), sides in pairs.items())]


def _pair(prompt: str, sides: list[tuple[str, ContinuationTable]]) -> Fold:
    first = sides[0][1]
    name: Text = [Code(first.prompt), " (", Code(first.category), ")"]
    rows: list[tuple[Text, str]] = [(["prompt"], prompt)]
    rows += [([stage_name(stage) + _flags(written)], written.text) for stage, written in sides]
    return Fold(3, name, [Excerpts(rows)])


def _flags(t: ContinuationTable) -> str:
    """What the rules found in one text."""
    shares = [(t.repeated_ngrams, "repeated 4-grams"), (t.script_switched, "of letters in other scripts")]
    found = [f"{percent(share)} {name}" for share, name in shares if share]
    found += ["a loop of " + grouped(t.longest_loop) + " words"] if t.longest_loop >= LOOP else []
    found += [_NAMES["markup"]] if t.markup else []
    found += [_NAMES[name] for name in ("code", "language_switched", "empty") if getattr(t, name)]
    return ": " + ", ".join(found) if found else ""
