"""The part of a pass's section that is about its corpus."""

from __future__ import annotations

from collections.abc import Callable

from engine.report.blocks import Block, Listing, Paragraph, Table
from engine.report.words import Code, Text, grouped
from engine.tables import CorpusTable, PassTable

_SELDOM: list[tuple[str, Callable[[CorpusTable], bool], Callable[[CorpusTable], str]]] = [
    ("read", lambda c: c.repeat != 1, lambda c: f"{c.repeat} ×"),
    ("duplicates", lambda c: c.duplicates > 0, lambda c: grouped(c.duplicates)),
    ("broken lines", lambda c: c.broken > 0, lambda c: grouped(c.broken)),
    ("encoding errors", lambda c: c.encoding_errors > 0, lambda c: grouped(c.encoding_errors)),
]
"""Columns that stand only where a source has something to tell there: head, whether it has, its cell."""


def corpus(p: PassTable) -> list[Block]:
    """Every source as it was read, and the first of its lines that could not be."""
    seldom = [(name, cell) for name, has, cell in _SELDOM if any(map(has, p.corpus))]
    rows: list[list[Text]] = [
        [
            [Code(c.source)],
            [grouped(c.documents)],
            [grouped(c.heldout_documents)],
            [grouped(c.train_tokens)],
            [grouped(c.heldout_tokens)],
            *([cell(c)] for _, cell in seldom),
            [Code(c.sha256[:16])],
        ]
        for c in p.corpus
    ]
    head = ["source", "documents", "of them held out", "training tokens", "tokens held out"]
    blocks: list[Block] = [Table([*head, *(name for name, _ in seldom), "sha256 begins"], rows)]
    told = [name for name, _ in seldom]
    if "read" in told:
        blocks.append(Paragraph(["Training tokens are counted once, however often an epoch reads them."]))
    first = [line for c in p.corpus for line in c.broken_first]
    if first:
        why = "Broken lines were left out; what could not be decoded was read as U+FFFD. The first of them:"
        blocks += [Paragraph([why]), Listing([[Code(line)] for line in first])]
    return blocks
