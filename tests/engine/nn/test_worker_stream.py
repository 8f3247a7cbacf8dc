"""A long text read by the worker: stock beside repaired, stopped and gone on with, and in the record."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from engine import events, record
from engine.chart import read_chart
from engine.errors import InputError
from engine.journal import Entry, Reader
from engine.nn import looking
from engine.nn.patch import load_patch
from engine.nn.slices import slice_view
from engine.nn.streaming import arm, long_ids
from engine.nn.worker import Worker
from engine.session import Session, create_session
from engine.streaming import Arm, ArmFigures
from engine.verify import verify

PLAN = {
    "targets": "L1-H0 | L2-H3",
    "steps": 2,
    "lr": 1e-2,
    "length": 16,
    "micro_batch": 2,
    "accumulate": 1,
    "check_every": 2,
    "generate": False,
}
WAYS = [Arm("full"), *(Arm("anchors", number) for number in (0, 1, 2, 4, 8)), Arm("recomputed")]


@pytest.fixture
def session(folder: Path, tmp_path: Path) -> Session:
    (tmp_path / "texts.txt").write_text("some words to look at\n")
    request = events.Created(session="", model=str(folder), device="cpu", texts=str(tmp_path / "texts.txt"))
    return create_session(tmp_path / "sessions", request)


def asked(session: Session, command: str, show: Callable[[Entry], None] = lambda entry: None, **values: Any) -> Worker:
    """A worker that was asked for one thing and left when that was done or refused."""

    def listening(entry: Entry) -> None:
        show(entry)
        if isinstance(entry.event, events.StreamEnded | events.PassEnded | events.Refused | events.Undone):
            session.send("quit")

    worker = Worker(session, listening)
    session.send(command, **values)
    worker.open(worker.inbox)
    worker.serve()
    worker.close()
    return worker


def told(session: Session, kind: type[events.Event]) -> list[Any]:
    return [entry.event for entry in Reader(session.journal).entries() if isinstance(entry.event, kind)]


def test_stock_beside_repaired_in_journal_and_record(session: Session, corpus: Path) -> None:
    asked(session, "operate", plan={**PLAN, "corpus": [str(corpus)]})
    worker = asked(session, "stream", text=str(corpus), window=10, tokens=30)
    (read,) = worker.chart.streams.values()
    assert list(read) == ["stock", "pass-1"]
    assert [list(found) for found in read.values()] == [WAYS, WAYS]
    ids = long_ids(worker.patient, [corpus.read_text()], 30)
    for how in (Arm("anchors", 0), Arm("full")):
        *_, figures = arm(worker.patient, ids, 10, how)
        assert isinstance(figures, ArmFigures)
        assert read["pass-1"][how].perplexity == pytest.approx(figures.perplexity, rel=1e-6)  # the slices are back
        assert read["stock"][how].perplexity != read["pass-1"][how].perplexity
    tables = tomllib.loads(session.record.read_text())["stream"]
    assert [(t["stage"], t["tokens"], t["window"], len(t["arm"])) for t in tables] == [
        ("stock", 29, 10, 7),
        ("pass-1", 29, 10, 7),
    ]
    assert record.streams_of(record.load(session)) == worker.chart.streams
    assert record.build(read_chart(session)) == record.load(session)
    assert [claim for claim in verify(session) if claim.holds is False] == []
    asked(session, "undo")
    assert [list(read) for read in read_chart(session).streams.values()] == [["stock"]]


def test_a_reading_that_was_stopped_keeps_what_is_done_and_goes_on_when_it_is_asked_again(
    session: Session, corpus: Path
) -> None:
    def stop_after_two(entry: Entry) -> None:
        if isinstance(entry.event, events.Streamed) and entry.event.way == "anchors":
            session.send("note", text="in the meantime")
            session.send("stop")

    few = {"text": str(corpus), "window": 10, "tokens": 30}
    worker = asked(session, "stream", stop_after_two, **few)
    assert [e.outcome for e in told(session, events.StreamEnded)] == ["stopped"]
    assert [e.text for e in told(session, events.Note)] == ["in the meantime"]  # it had to wait
    assert worker.chart.streaming is None
    asked(session, "stream", **few)
    assert [Arm(e.way, e.anchors) for e in told(session, events.Streamed)] == WAYS  # none of them twice
    asked(session, "stream", **few)
    assert len(told(session, events.Streamed)) == 7


def test_a_worker_that_dies_while_reading_does_not_begin_again_by_itself(session: Session, corpus: Path) -> None:
    def die(entry: Entry) -> None:
        if isinstance(entry.event, events.Streamed):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        asked(session, "stream", die, text=str(corpus), window=10, tokens=30)
    assert read_chart(session).streaming is not None
    worker = Worker(session)
    session.send("quit")
    worker.open(worker.inbox)
    worker.serve()
    worker.close()
    chart = read_chart(session)
    assert (chart.streaming, [len(read["stock"]) for read in chart.streams.values()]) == (None, [1])


def test_out_of_memory_leaves_the_repaired_patient_as_it_was(
    session: Session, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(session, "operate", plan={**PLAN, "corpus": [str(corpus)]})
    monkeypatch.setattr(looking, "arm", lambda *args: torch.empty(2**55))
    worker = asked(session, "stream", text=str(corpus), window=10, tokens=30)
    assert [e.outcome for e in told(session, events.StreamEnded)] == ["out_of_memory"]
    assert "out of memory while reading" in worker.chart.message
    patch = load_patch(session.patch(1))
    for piece in worker.patient.anatomy.slices_of(worker.chart.passes[0].targets, "qkv"):
        assert torch.equal(slice_view(worker.patient, piece), patch.values[piece.key])


@pytest.mark.parametrize(
    ("values", "why"),
    [
        ({"text": "missing.txt", "window": 8, "tokens": 30}, "missing.txt"),
        ({"window": 65, "tokens": 300}, "no longer than the patient's context of 64"),
        ({"window": 20, "tokens": 20}, "which a window of 20 holds whole"),
        ({"window": "8", "tokens": 30}, "window is '8'; it must be a whole number"),
        ({"window": 8}, "tokens is None"),
    ],
)
def test_what_cannot_be_read_is_refused(values: dict[str, Any], why: str, session: Session, corpus: Path) -> None:
    worker = asked(session, "stream", **{"text": str(corpus), **values})
    assert why in worker.chart.message
    assert told(session, events.StreamStarted) == []


def test_a_family_whose_positions_do_not_go_by_slot_is_refused(patient: Any, corpus: Path) -> None:
    from dataclasses import replace

    other = replace(patient, anatomy=replace(patient.anatomy, family="gpt2"))
    with pytest.raises(InputError, match="is of the family gpt2"):
        next(looking.read_on(other, {"stock": []}, str(corpus), 8, 30, {}))
