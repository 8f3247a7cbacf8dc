"""Arms for a terminal of 80 columns: tables in blocks of as many columns as fit, and what came of each arm."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from pathlib import PurePath

from engine.arms import Arm, PatientRow, TextMatrix, arms_of, figures_of, of_arm, patients_of, text_matrix
from engine.arms_told import PERPLEXITY, extremes, findings, range_of, told
from engine.figures import GROUPS, Figure
from engine.heads import CLASSES
from engine.printable import printable
from engine.report.words import percent
from engine.tables import Record

WIDTH = 80
LABEL = 24
"""Most that a row's name takes of a line."""
CELL = 20
"""Most that a heading or a cell takes."""
GAP = 2


def arms_text(records: Sequence[Record]) -> str:
    """What came of a protocol, from the records of its sessions: arms as rows."""
    arms = arms_of(records)
    if not arms:
        return ""
    done = [arm for arm in arms if arm.number is not None]
    blocks = [] if done else [patients_text(patients_of(arms))]
    if done:
        blocks += [_seeds(done), *_figures(done), _matrix(text_matrix(done))]
        blocks += [_found(done)]
    waiting = [arm.label for arm in arms if arm.number is None and arm not in done] if done else []
    if waiting:
        blocks.append(_filled("without a pass: " + ", ".join(waiting)))
    return "\n\n".join(block for block in blocks if block)


def table_text(head: list[str], rows: list[list[str]], width: int = WIDTH) -> str:
    """A table whose first column holds names; columns that find no room go into a block below, under the same names."""
    rows = [[printable(cell) for cell in row] for row in rows]
    head = [printable(cell) for cell in head]
    label = min(LABEL, max(len(row[0]) for row in [head, *rows]))
    widths = [_width(head[i], [row[i] for row in rows]) for i in range(1, len(head))]
    blocks: list[list[int]] = [[]]
    for i, wide in enumerate(widths, 1):
        used = label + sum(GAP + widths[j - 1] for j in blocks[-1])
        if blocks[-1] and used + GAP + wide > width:
            blocks.append([])
        blocks[-1].append(i)
    out = []
    for block in blocks:
        sizes = [label, *(widths[i - 1] for i in block)]
        lines = _lines([head[0], *(head[i] for i in block)], sizes, break_on_hyphens=True)
        lines += [line for row in rows for line in _lines([row[0], *(row[i] for i in block)], sizes)]
        out.append("\n".join(lines))
    return "\n\n".join(out)


def _width(head: str, cells: list[str]) -> int:
    """Room for every cell, and for the heading on three lines."""
    wide = max([*map(len, re.split(r" |(?<=-)", head)), *map(len, cells), 1])
    while wide < CELL and len(textwrap.wrap(head, wide)) > 3:
        wide += 1
    return min(CELL, wide)


def _lines(cells: list[str], sizes: list[int], break_on_hyphens: bool = False) -> list[str]:
    """The lines of one row: the name to the left, all else to the right."""
    parts = [
        textwrap.wrap(cell, size, break_on_hyphens=break_on_hyphens) or [""]
        for cell, size in zip(cells, sizes, strict=True)
    ]
    height = max(map(len, parts))
    out = []
    for i in range(height):
        line = [part[i] if i < len(part) else "" for part in parts]
        padded = [
            f"{line[0]:<{sizes[0]}}",
            *(f"{text:>{size}}" for text, size in zip(line[1:], sizes[1:], strict=True)),
        ]
        out.append((" " * GAP).join(padded).rstrip())
    return out


def _seeds(arms: list[Arm]) -> str:
    """What the figures are means of."""
    most = max(len(arm.runs) for arm in arms)
    if most == 1:
        return ""
    seeds = {tuple(arm.seeds) for arm in arms}
    over = f"seeds {', '.join(map(str, arms[0].seeds))}" if len(seeds) == 1 else f"up to {most} seeds"
    return _filled(f"mean ± standard deviation over {over}; without ± where all are alike")


def _figures(arms: list[Arm]) -> list[str]:
    """The main figures, a table per group. Those that stand before training and are alike in all are told once."""
    shown = [figure for figure in figures_of(arms) if figure.main]
    alike = [figure for figure in shown if figure.before and len(_values(figure, arms)) == 1]
    blocks = []
    if alike and len(arms) > 1:
        words = [f"{_named(figure)} {told(figure, of_arm(figure, arms[0]))}" for figure in alike]
        blocks.append(_filled("alike in all: " + "; ".join(words)))
        shown = [figure for figure in shown if figure not in alike]
    for group in GROUPS:
        its = [figure for figure in shown if figure.group == group]
        if its:
            rows = [[arm.label, *(told(figure, of_arm(figure, arm)) for figure in its)] for arm in arms]
            blocks.append(table_text([group, *(figure.label for figure in its)], rows))
    return blocks


def _named(figure: Figure) -> str:
    return f"{figure.group}, {figure.label}" if figure.label == "stock" else figure.label


def _values(figure: Figure, arms: list[Arm]) -> set[float | None]:
    return {figure.of(run) for arm in arms for run in arm.runs}


def _matrix(found: TextMatrix) -> str:
    if len(found.texts) < 2:
        return ""
    head = ["perplexity after, of", *map(short, found.texts)]
    rows = [["stock", *map(range_of, found.stock)]]
    rows += [
        [arm.label, *(told(PERPLEXITY, cell) for cell in row)] for arm, row in zip(found.arms, found.after, strict=True)
    ]
    return table_text(head, rows)


def short(text: str) -> str:
    """A source without its folders."""
    name, held, _ = text.partition(" (held out)")
    return PurePath(name).name + held if name.startswith("/") else text


def _found(arms: list[Arm]) -> str:
    lines = []
    for arm, phrases in findings(arms):
        lines.append(_filled(f"{arm.label}: " + "; ".join(phrases)))
    for first in extremes(arms):
        names = ", ".join(arm.label for arm in first.first)
        after = f", then {first.after.label} {first.after_words}" if first.after else ""
        lines.append(_filled(f"{first.label}: {names} {first.words}{after}"))
    return "\n".join(lines)


def _filled(text: str) -> str:
    return "\n".join(textwrap.wrap(printable(text), WIDTH, subsequent_indent="  ", break_on_hyphens=False))


# -- patients


def patients_text(patients: Sequence[PatientRow]) -> str:
    """Several patients in one table, as they were loaded."""
    if not patients:
        return ""
    head = ["patient", "layers × heads", "sick", "sick %", "band", *CLASSES, "borderline", "texts", "tokens"]
    rows = [[row.name, *patient_cells(row)] for row in patients]
    return table_text(head, rows)


def patient_cells(row: PatientRow) -> list[str]:
    """The cells of a patient's row: shape, sick heads and their share, band, classes, borderline, texts, tokens."""
    band = f"H{row.band[0]}–H{row.band[1]}" if row.band else "none"
    return [
        f"{row.n_layers} × {row.n_heads}",
        str(row.sick),
        percent(row.sick / row.heads if row.heads else None).removesuffix(" %"),
        band,
        *(str(row.counts.get(name, 0)) for name in CLASSES),
        str(row.borderline),
        str(row.texts),
        str(row.tokens),
    ]
