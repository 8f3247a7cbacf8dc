"""The paper's figures beside the measured ones, where the patient is one of the paper's."""

from __future__ import annotations

from engine.paper import PAPER, Group, beside
from engine.report.blocks import Block, Heading, Paragraph, Table
from engine.report.material import Material
from engine.report.words import NOT_KNOWN, Text, figure, grouped

MARKED = "the paper's"


def paper(m: Material) -> list[Block]:
    """A table per group; the paper's column is marked as the paper's in each."""
    groups = beside(m.record)
    return [*preface(), *tables_of(groups)] if groups else []


def preface() -> list[Block]:
    """What stands above the tables."""
    return [
        Heading(2, ["Beside the paper"]),
        Paragraph(
            [
                f"The columns headed “{MARKED}” hold figures that {PAPER} reports; nothing in them was measured here. "
                "Texts, corpora and rules of measurement differ, so the figures stand side by side and no more."
            ]
        ),
    ]


def tables_of(groups: list[Group]) -> list[Block]:
    """The groups, a table each."""
    blocks: list[Block] = []
    for group in groups:
        rows: list[list[Text]] = [
            [[row.label], [row.as_written or _told(row.paper, row.digits)], [_told(row.measured, row.digits)]]
            for row in group.rows
        ]
        blocks += [
            Heading(3, [group.name]),
            Paragraph([f"{group.about} The paper's: {group.source}."]),
            Table(["", MARKED, "measured here"], rows),
        ]
    return blocks


def _told(values: tuple[float | None, ...], digits: int) -> str:
    if not values:
        return NOT_KNOWN
    return " / ".join(grouped(int(v)) if digits == 0 and v is not None else figure(v, digits) for v in values)
