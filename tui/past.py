"""One line per past session, read fast: the heads' figures of a record are skipped."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import dataclass

from engine.chart import read_chart
from engine.events import Closed, Failed
from engine.session import PROTOCOL, Session

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


@dataclass(frozen=True)
class PastTrial:
    """What the list tells of a trial."""

    folder: Session
    title: str
    patient: str
    arms: int
    runs: int
    done: int
    failed: int
    updated: str


def read_trial(folder: Session) -> PastTrial:
    """From the trial's file, and of each run the last line of its journal and a look into its record.

    Raises:
        OSError, ValueError, KeyError, TypeError: the file is damaged.
    """
    data = tomllib.loads((folder.folder / PROTOCOL).read_text("utf-8"))
    runs = data["run"]
    models = list(dict.fromkeys(str(run["model"]) for run in runs))
    done, failed, updated = 0, 0, ""
    for run in runs:
        session = Session(folder.folder / str(run["name"]))
        if "/" in str(run["name"]) or not session.journal.exists():
            continue
        last = last_line(session)
        updated = max(updated, str(last.get("time", "")))
        failed += last.get("kind") == Failed.kind
        done += last.get("kind") == Closed.kind and passes_in(session) >= len(run.get("pass", []))
    return PastTrial(
        folder=folder,
        title=str(data["title"]),
        patient=models[0] if len(models) == 1 else f"{len(models)} patients",
        arms=len({run["arm"] for run in runs}),
        runs=len(runs),
        done=done,
        failed=failed,
        updated=updated,
    )


def last_line(session: Session) -> dict[str, object]:
    """The last whole line of a journal; empty where it is longer than what is looked at, or torn."""
    with session.journal.open("rb") as file:
        file.seek(max(0, session.journal.stat().st_size - 4096))
        lines = file.read().splitlines()
    try:
        found = json.loads(lines[-1]) if lines else {}
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def passes_in(session: Session) -> int:
    """How many passes a record tells of."""
    try:
        return session.record.read_text("utf-8").count("\n[[pass]]\n")
    except (OSError, ValueError):
        return 0


def wanted_tables(text: str) -> str:
    """The few small tables of a record that the list needs; the rows of figures take long to parse."""
    kept, keep = [], False
    for line in text.splitlines():
        if _HEADER.match(line):
            keep = _WANTED.match(line) is not None
        if keep:
            kept.append(line)
    return "\n".join(kept)
