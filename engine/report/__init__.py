"""Reports of a session: Markdown, self-contained HTML, LaTeX, JSON, CSV and SVG. No torch here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jinja2

from engine.errors import InputError
from engine.files import write_text
from engine.report.beside import paper
from engine.report.blocks import Block, Figure, Figures, Fold
from engine.report.latex import latex, latex_columns, latex_lines
from engine.report.material import Material, gather
from engine.report.methods import methods
from engine.report.passes import pass_section
from engine.report.plain import report_json
from engine.report.streaming import stream_csv, streaming
from engine.report.tables import checks_csv, contribution_csv, generation_csv, heads_csv, perplexities_csv, targets_csv
from engine.report.whole import closing, heads, how_to_read, measured_on, opening, patient
from engine.report.words import fenced, html, lines_of, markdown
from engine.report.worth import contribution
from engine.report.written import generation, texts
from engine.session import Session

_TEMPLATES = jinja2.Environment(
    loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
    autoescape=jinja2.select_autoescape(["html.jinja"]),
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters |= {"markdown": markdown, "html": html, "fenced": fenced, "lines_of": lines_of}
_LATEX = _TEMPLATES.overlay(  # braces and number signs are LaTeX's own
    block_start_string="<%",
    block_end_string="%>",
    variable_start_string="<<",
    variable_end_string=">>",
    comment_start_string="<#",
    comment_end_string="#>",
)
_LATEX.filters = _TEMPLATES.filters | {
    "latex": latex,
    "latex_lines": latex_lines,
    "latex_columns": latex_columns,
}


def write_report(session: Session, to: Path) -> list[Path]:
    """Write the report of a session, finished or under way, into the folder ``to``; returns its files.

    Raises:
        InputError: the record cannot be read, or ``to`` cannot be written to.
    """
    return write_files(render(gather(session)), to)


def write_files(files: dict[str, str], to: Path) -> list[Path]:
    """Write a report's files into a folder.

    Raises:
        InputError: it cannot be written to.
    """
    try:
        to.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            write_text(to / name, text)
    except OSError as error:
        raise InputError(f"cannot write the report to {to}: {error.strerror}; choose another folder") from error
    return [to / name for name in files]


def render(material: Material) -> dict[str, str]:
    """All files of a report, by name."""
    blocks = _blocks(material)
    title = f"Head surgery on {material.record.session.model}"
    seldom = {  # those that are no more than a header are left out
        "targets.csv": targets_csv(material),
        "perplexities.csv": perplexities_csv(material),
        "generation.csv": generation_csv(material),
        "contribution.csv": contribution_csv(material),
        "stream.csv": stream_csv(material),
    }
    return {
        **documents(blocks, title),
        "report.json": report_json(material),
        "heads.csv": heads_csv(material),
        "checks.csv": checks_csv(material),
        **{name: text for name, text in seldom.items() if text.count("\n") > 1},
        **{figure.file: figure.svg + "\n" for figure in pictures_in(blocks)},
    }


def documents(blocks: list[Block], title: str) -> dict[str, str]:
    """Blocks as Markdown, HTML and LaTeX, by the names of their files."""
    return {
        "report.md": markdown_of(blocks),
        "report.html": _TEMPLATES.get_template("report.html.jinja").render(blocks=blocks, title=title),
        "report.tex": _LATEX.get_template("report.tex.jinja").render(blocks=blocks) + "\n",
    }


def pictures_in(blocks: list[Block]) -> Iterator[Figure]:
    """All pictures, those that are folded away too."""
    for block in blocks:
        if isinstance(block, Figures):
            yield from block.figures
        elif isinstance(block, Fold):
            yield from pictures_in(block.blocks)


def markdown_of(blocks: list[Block]) -> str:
    """Blocks as Markdown."""
    return _TEMPLATES.get_template("report.md.jinja").render(blocks=blocks)


def _blocks(m: Material) -> list[Block]:
    passes = [block for p in m.record.passes for block in pass_section(m, p)]
    before = [*opening(m), *how_to_read(m), *patient(m), *measured_on(m), *heads(m)]
    after = [*generation(m), *contribution(m), *streaming(m), *paper(m), *methods(m), *closing(m), *texts(m)]
    return [*before, *passes, *after]
