"""One line per past session, read fast: the heads' figures of a record are skipped."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass

from engine.chart import read_chart
from engine.session import Session

_HEADER = re.compile(r"^\[+[^\s\[\]]+\]+\s*$")
_WANTED = re.compile(r"^\[(session|patient|diagnosis\.[^.\]]+\.counts)\]")


@dataclass(frozen=True)
class Past:
    """What the list of sessions shows."""

    session: Session
    patient: str
    state: str
    heads: int
    healthy_before: int | None
    healthy_after: int | None
    updated: str


def read_past(session: Session) -> Past:
    """From ``session.toml``; from the journal where there is none yet or it cannot be read."""
    try:
        return _from_record(session)
    except (OSError, ValueError, KeyError, TypeError):
        return _from_journal(session)


def _from_record(session: Session) -> Past:
    data = tomllib.loads(wanted_tables(session.record.read_text("utf-8")))
    about, counts = data["session"], [stage["counts"] for stage in data.get("diagnosis", {}).values()]
    return Past(
        session=session,
        patient=str(about["model"]),
        state=str(about["state"]),
        heads=sum(counts[0].values()) if counts else 0,
        healthy_before=counts[0]["healthy"] if counts else None,
        healthy_after=counts[-1]["healthy"] if len(counts) > 1 else None,
        updated=str(about["updated"]),
    )


def _from_journal(session: Session) -> Past:
    chart = read_chart(session)
    before, after = chart.stock, chart.head_map
    return Past(
        session=session,
        patient=chart.created.model if chart.created else "",
        state=chart.state,
        heads=before.n_layers * before.n_heads if before else 0,
        healthy_before=before.counts()["healthy"] if before else None,
        healthy_after=after.counts()["healthy"] if after and after is not before else None,
        updated=chart.time_updated,
    )


def wanted_tables(text: str) -> str:
    """The few small tables of a record that the list needs; the rows of figures take long to parse."""
    kept, keep = [], False
    for line in text.splitlines():
        if _HEADER.match(line):
            keep = _WANTED.match(line) is not None
        if keep:
            kept.append(line)
    return "\n".join(kept)
