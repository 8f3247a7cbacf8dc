"""What a report is written from: the record, and the journal's chart for the steps between its checks."""

from __future__ import annotations

from dataclasses import dataclass

from engine.chart import Chart, PassChart, read_chart
from engine.heads import Head, HeadMap, Rows, Thresholds, known
from engine.record import build, head_map, load
from engine.session import Session
from engine.tables import CheckTable, DriftTable, PassTable, Record


@dataclass(frozen=True)
class Material:
    record: Record
    chart: Chart
    """Empty where the journal is gone; the record alone is enough for all but the training curve."""
    maps: dict[str, HeadMap]
    """Head maps by stage, stock first."""

    @property
    def thresholds(self) -> Thresholds:
        return Thresholds(**known(Thresholds, self.record.thresholds))

    @property
    def heads(self) -> int:
        """Heads of the patient; 0 before it is loaded."""
        patient = self.record.patient
        return patient.n_layers * patient.n_heads if patient else 0

    def chart_of(self, p: PassTable) -> PassChart | None:
        return next((c for c in self.chart.passes if c.number == p.number), None)

    def rows_of(self, p: PassTable) -> Rows | None:
        """BOS mass after a pass; while it runs, or once it was undone, as last seen in it."""
        if f"pass-{p.number}" in self.maps:
            return self.maps[f"pass-{p.number}"].bos_mass
        charted = self.chart_of(p)
        return charted.bos_mass if charted else None


@dataclass(frozen=True)
class After:
    """A pass's figures as they stand: those it ended with, or its last check's."""

    step: int | None
    """Of which step they are; None before the first check."""
    woken: int | None
    perplexity: float | None
    drift: DriftTable | None
    drift_training: DriftTable | None


def after(p: PassTable) -> After:
    """The figures that a pass has come to."""
    if p.ended is not None:
        return After(p.best_step, p.woken, p.heldout_perplexity, p.drift, p.drift_training)
    if p.check:
        last = p.check[-1]
        return After(last.step, last.woken, last.heldout_perplexity, last.drift, last.drift_training)
    return After(None, None, None, None, None)


def best_check(p: PassTable) -> CheckTable | None:
    """The check with the lowest held-out perplexity."""
    return min(p.check, key=lambda check: check.heldout_perplexity, default=None)


def targets_of(p: PassTable) -> list[Head]:
    return [Head.parse(text) for text in p.target_heads]


def gather(session: Session) -> Material:
    """Read record and journal.

    Raises:
        InputError: there is no record, or it cannot be read.
    """
    record, chart = load(session), read_chart(session)
    if chart.created and chart.time_updated > record.session.updated:
        record = build(chart)  # a worker is under way: it writes the journal at every step, the record now and then
    thresholds = Thresholds(**known(Thresholds, record.thresholds))
    return Material(record, chart, {stage: head_map(table, thresholds) for stage, table in record.diagnosis.items()})
