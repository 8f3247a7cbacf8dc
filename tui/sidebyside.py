"""What a comparison shows: a table of figures, of sessions or of arms over their seeds. Imported late: it reads
records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from engine.arms import arms_of, figures_of, of_arm
from engine.arms_told import extremes, findings, told
from engine.compare import STAGES, Comparison
from engine.figures import GROUPS
from engine.tables import Record


@dataclass(frozen=True)
class Table:
    """Rows are figures; a row without cells is a heading."""

    corner: str
    """Over the labels."""
    columns: list[str]
    rows: list[tuple[str, list[str]]]
    common: list[tuple[str, str]] = field(default_factory=list)
    """What all share."""
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """What keeps the columns from being compared figure by figure."""


def of_sessions(found: Comparison) -> Table:
    """A column per session."""
    return Table(
        corner=STAGES,
        columns=found.columns,
        rows=[(row.label, row.cells) for row in found.rows],
        common=[(row.label, row.cells[0]) for row in found.common],
        warnings=found.notes,
    )


def of_arms(records: Sequence[Record], found: Comparison) -> Table | None:
    """A column per arm, mean ± standard deviation over its seeds; None where no arm has several."""
    arms = arms_of(records)
    most = max((len(arm.runs) for arm in arms), default=0)
    if most < 2 or len(arms) > len(records):
        return None
    rows: list[tuple[str, list[str]]] = [("runs", [str(len(arm.runs)) for arm in arms])]
    figures = figures_of(arms)
    for group in GROUPS:
        its = [figure for figure in figures if figure.group == group]
        if its:
            rows.append((group, []))
        rows += [(figure.label, [told(figure, of_arm(figure, arm)) for arm in arms]) for figure in its]
    notes = [f"{arm.label}: {'; '.join(phrases)}." for arm, phrases in findings(arms)]
    for first in extremes(arms):
        after = f", then {first.after.label} {first.after_words}" if first.after else ""
        notes.append(f"{first.label}: {', '.join(arm.label for arm in first.first)} {first.words}{after}.")
    return Table(
        corner="mean ± sd over seeds",
        columns=[arm.label for arm in arms],
        rows=rows,
        common=[(row.label, row.cells[0]) for row in found.common],
        notes=notes,
        warnings=found.notes,
    )
