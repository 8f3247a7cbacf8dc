"""The section of a report on what every head by itself is worth."""

from __future__ import annotations

from engine.heads import Head
from engine.report.blocks import Block, Facts, Heading, Paragraph, Table
from engine.report.material import Material
from engine.report.words import Code, Text, figure, grouped, signed, stage_name
from engine.tables import ContributionTable

MOST = 10


def contribution(m: Material) -> list[Block]:
    """The heads that are worth most, by the newest map of it."""
    maps = {stage: table for stage, table in m.record.contribution.items() if table.rows}
    if not maps:
        return []
    newest = list(maps)[-1]
    measured: list[tuple[str, Text]] = [(stage_name(stage), _measured(table)) for stage, table in maps.items()]
    rows: list[list[Text]] = [
        [[str(head)], *([signed(table.rows[head.layer][head.head])] for table in maps.values())]
        for head in by_worth(maps[newest])[:MOST]
    ]
    return [
        Heading(2, ["What each head is worth"]),
        Facts(measured),
        Paragraph(
            [
                "What a text's loss gains when one head alone falls silent, in nats per predicted token; the heads "
                f"worth most {stage_name(newest)} come first. One head can stand in for another, so these do not "
                "add up."
            ]
        ),
        Table(["head", *(stage_name(stage) for stage in maps)], rows),
    ]


def _measured(t: ContributionTable) -> Text:
    told = f": {grouped(t.samples)} samples, {grouped(t.tokens)} predicted tokens, loss {figure(t.loss, 4)} nats"
    return [Code(t.text), told]


def by_worth(table: ContributionTable) -> list[Head]:
    """All heads, the one worth most first."""
    worth = {Head(layer, i): value for layer, row in enumerate(table.rows) for i, value in enumerate(row)}
    return sorted(worth, key=lambda head: -worth[head])
