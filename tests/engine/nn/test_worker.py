from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch

from engine import events, record
from engine.chart import read_chart
from engine.errors import InputError
from engine.files import sha256_of
from engine.nn import training
from engine.nn.attention import statistics
from engine.nn.worker import Worker, session_patches
from engine.plan import make_plan
from engine.session import Session, create_session

TEXTS = "some words to look at\nand a second line of them\n"


@pytest.fixture
def session(folder: Path, tmp_path: Path) -> Session:
    (tmp_path / "texts.txt").write_text(TEXTS)
    request = events.Created(session="", model=str(folder), device="cpu", texts=str(tmp_path / "texts.txt"))
    return create_session(tmp_path / "sessions", request)


def plan_for(corpus: Path, targets: str = "L1-H0 | L2-H3", **values: Any) -> dict[str, Any]:
    few: dict[str, Any] = {"steps": 4, "lr": 1e-2, "length": 16, "micro_batch": 2, "accumulate": 1, "check_every": 2}
    few["generate"] = False
    return {"targets": targets, "corpus": [str(corpus)], **few, **values}


def sent(session: Session, *commands: tuple[str, dict[str, Any]]) -> Worker:
    """A worker that opened the session, found these commands and a ``quit``, and left."""
    worker = Worker(session)
    for name, values in (*commands, ("quit", {})):
        session.send(name, **values)
    worker.open(worker.inbox)
    worker.serve()
    worker.close()
    return worker


def test_opening_diagnoses_once(session: Session) -> None:
    sent(session)
    assert list(read_chart(session).maps) == ["stock"]
    seq = read_chart(session).seq
    kinds = [entry.event.kind for entry in _entries(session)]
    assert kinds[:4] == ["created", "worker_started", "progress", "loaded"]
    sent(session)
    assert [e.event.kind for e in _entries(session)][seq:] == ["worker_started", "progress", "loaded", "closed"]


def _entries(session: Session) -> list[Any]:
    from engine.journal import Reader

    return list(Reader(session.journal).entries())


def test_a_pass_on_command_ends_in_a_record(session: Session, corpus: Path) -> None:
    sent(session, ("operate", {"plan": plan_for(corpus)}), ("accept", {}))
    found = record.load(session)
    assert found.session.state == "operated"
    assert found.passes[0].target_heads == ["L1-H0", "L2-H3"]
    assert found.passes[0].frozen_sha256_before == found.passes[0].frozen_sha256_after
    assert [c.step for c in found.passes[0].check] == [2, 4]
    assert set(found.diagnosis) == {"stock", "pass-1"}
    raw = tomllib.loads(session.record.read_text())
    assert raw["schema"] == 1
    assert raw["pass"][0]["accepted"] is True
    assert raw["pass"][0]["patch_sha256"] == sha256_of(session.patch(1))
    assert record.build(read_chart(session)).passes == found.passes


def test_a_wrong_command_is_refused_and_the_session_goes_on(session: Session, corpus: Path) -> None:
    worker = sent(
        session,
        ("operate", {"plan": plan_for(corpus, targets="dead")}),
        ("operate", {"plan": {"targets": "all", "rate": 3}}),
        ("undo", {}),
        ("pause", {}),
        ("dance", {}),
        ("note", {"text": "still here"}),
    )
    said = [e.event.message for e in _entries(session) if isinstance(e.event, events.Refused)]
    assert "select no head" in said[0]
    assert "rate: Extra inputs are not permitted" in said[1]
    assert said[2:] == ["there is no pass to undo", "no pass is running", "unknown command 'dance'"]
    assert worker.chart.notes[0][1] == "still here"
    assert worker.chart.passes == []


def test_what_comes_in_mid_pass_is_refused_and_quit_waits_for_its_end(session: Session, corpus: Path) -> None:
    def at_step_two(entry: Any) -> None:
        if isinstance(entry.event, events.Step) and entry.event.step == 2:
            session.send("undo")
            session.send("quit")

    worker = Worker(session, at_step_two)
    session.send("operate", plan=plan_for(corpus))
    worker.open(worker.inbox)
    worker.serve()
    assert worker.chart.passes[0].outcome == "completed"
    assert [e.event.message for e in _entries(session) if isinstance(e.event, events.Refused)] == [
        "a pass is running; stop it or wait for its end"
    ]


def test_commands_from_before_the_worker_are_not_obeyed(session: Session) -> None:
    session.send("note", text="to somebody who is gone")
    assert sent(session).chart.notes == []


def test_a_pass_works_on_what_the_one_before_left_and_both_come_off(session: Session, corpus: Path) -> None:
    first = sent(session, ("operate", {"plan": plan_for(corpus)}))
    ids = torch.arange(4, 30)
    after_one = statistics(first.patient, ids[None])[0][0]
    both = sent(session, ("operate", {"plan": plan_for(corpus, targets="L1 x H0-1")}))
    assert [p.number for p in both.chart.standing] == [1, 2]
    one, two = (p.started for p in both.chart.passes)
    assert one.heldout_perplexity_before == one.heldout_perplexity_stock == two.heldout_perplexity_stock
    assert two.heldout_perplexity_before == both.chart.passes[0].ended.heldout_perplexity  # type: ignore[union-attr]
    assert two.heldout_perplexity_before != two.heldout_perplexity_stock
    paths, _ = session_patches(session)
    assert [p.parent.name for p in paths] == ["pass-1", "pass-2"]
    one_off = sent(session, ("undo", {}))
    assert torch.equal(statistics(one_off.patient, ids[None])[0][0], after_one)
    assert record.load(session).passes[1].outcome == "undone"
    both_off = sent(session, ("undo", {}))
    stock = torch.tensor(both_off.chart.stock.by_text).mean(0)  # type: ignore[union-attr]
    texts = [both_off.patient.ids(line) for line in TEXTS.splitlines()]
    now = torch.stack([statistics(both_off.patient, t[None])[0][0] for t in texts]).mean(0)
    assert torch.allclose(now, stock, atol=1e-4)
    with pytest.raises(InputError, match="no finished pass"):
        session_patches(session)


def test_ordered_passes_go_on_where_they_were_left(folder: Path, corpus: Path, tmp_path: Path) -> None:
    plans = [make_plan(plan_for(corpus)).model_dump(), make_plan(plan_for(corpus, targets="L0-H2")).model_dump()]
    session = create_session(tmp_path / "s", events.Created(session="", model=str(folder), device="cpu", plans=plans))

    def stop_in_first(entry: Any) -> None:
        if isinstance(entry.event, events.Step) and entry.event.step == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Worker(session, stop_in_first).open()
    assert record.load(session).session.state == "operating"
    sent(session)
    assert [(p.number, p.outcome) for p in read_chart(session).passes] == [(1, "completed"), (2, "completed")]


def test_a_patient_that_changed_meanwhile_is_refused(session: Session, folder: Path) -> None:
    from tests.engine.nn.patients import make_patient

    sent(session)
    make_patient(folder, seed=8)
    with pytest.raises(InputError, match="has changed since session"):
        Worker(session).open()


def test_a_damaged_record_stops_the_worker_before_it_writes(session: Session) -> None:
    sent(session)
    before = session.journal.read_bytes()
    session.record.write_text("schema = 1\n[session\n")
    with pytest.raises(InputError, match=r"session\.toml is damaged"):
        Worker(session)
    assert session.journal.read_bytes() == before
    session.record.unlink()
    sent(session)
    assert record.load(session).session.state == "diagnosed"


def test_passes_wait_for_their_turn_and_outlive_the_worker(session: Session, corpus: Path) -> None:
    plans = [plan_for(corpus), plan_for(corpus, targets="L0-H2"), plan_for(corpus, targets="L1-H1")]

    def stop_in_second(entry: Any) -> None:
        if isinstance(entry.event, events.Step) and (entry.event.number, entry.event.step) == (2, 3):
            raise KeyboardInterrupt

    worker = Worker(session, stop_in_second)
    session.send("operate", plan=plans[0], then=plans[1:])
    worker.open(worker.inbox)
    with pytest.raises(KeyboardInterrupt):
        worker.serve()
    assert [plan["targets"] for plan in read_chart(session).queue] == ["L1-H1"]
    sent(session)
    chart = read_chart(session)
    assert [(p.started.plan["targets"], p.outcome) for p in chart.passes] == [
        ("L1-H0 | L2-H3", "completed"),
        ("L0-H2", "completed"),
        ("L1-H1", "completed"),
    ]
    assert chart.queue == []


def test_a_queued_pass_that_cannot_be_run_takes_the_rest_with_it(session: Session, corpus: Path) -> None:
    then = [plan_for(corpus, targets="dead & !dead"), plan_for(corpus)]
    worker = sent(session, ("operate", {"plan": plan_for(corpus), "then": then}))
    assert [p.outcome for p in worker.chart.passes] == ["completed"]
    assert worker.chart.queue == []
    assert "select no head" in worker.chart.message


def test_out_of_memory_waits_for_the_operator_and_goes_on_with_less(
    session: Session, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = training.token_losses

    def hungry(patient: Any, samples: torch.Tensor) -> torch.Tensor:
        if len(samples) > 1:
            torch.empty(2**55)
        return real(patient, samples)

    monkeypatch.setattr(training, "token_losses", hungry)
    torn = sent(session, ("operate", {"plan": plan_for(corpus)}))
    assert torn.chart.passes[0].outcome == "out_of_memory"
    assert "nothing is lost" in torn.chart.message
    waiting = Worker(session)
    waiting.open(waiting.inbox, attended=True)
    assert waiting.chart.passes[0].outcome == "out_of_memory"
    session.send("operate", plan=plan_for(corpus))
    session.send("continue", micro_batch=1)
    session.send("quit")
    waiting.serve()
    refused = [e.event.message for e in _entries(session) if isinstance(e.event, events.Refused)]
    assert "pass 1 is not over" in refused[-1]
    done = record.load(session).passes[0]
    assert (done.outcome, done.steps_done) == ("completed", 4)
    assert (done.micro_batch, done.accumulate) == (1, 2)
    assert done.change == [{"step": 0, "micro_batch": 1, "accumulate": 2}]


def test_a_pass_that_stands_still_can_be_given_up(
    session: Session, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = training.token_losses
    monkeypatch.setattr(training, "token_losses", lambda patient, samples: torch.empty(2**55))
    sent(session, ("operate", {"plan": plan_for(corpus)}))
    monkeypatch.setattr(training, "token_losses", real)
    waiting = Worker(session)
    waiting.open(waiting.inbox, attended=True)
    session.send("undo")
    session.send("operate", plan=plan_for(corpus, targets="L0-H2"))
    session.send("quit")
    waiting.serve()
    assert [(p.number, p.outcome) for p in record.load(session).passes] == [(1, "undone"), (2, "completed")]


def test_looking_at_the_patient(session: Session, corpus: Path) -> None:
    worker = sent(
        session,
        ("attention", {"layer": 1, "head": 2, "text": 1}),
        ("attention", {"layer": 9, "head": 0}),
        ("contributions", {}),
        ("contributions", {"text": str(corpus)}),
    )
    seen = [e.event for e in _entries(session) if isinstance(e.event, events.Attention)]
    assert [(e.stage, e.layer, e.head, e.text) for e in seen] == [("stock", 1, 2, "line 2")]
    refused = [e.event.message for e in _entries(session) if isinstance(e.event, events.Refused)]
    assert "has no head L9-H0" in refused[0]
    assert "name a text to measure on" in refused[1]
    assert [len(row) for row in worker.chart.contributions["stock"].rows] == [4, 4, 4]


def test_what_the_model_writes_is_kept_for_stock_and_after(session: Session, corpus: Path) -> None:
    sent(session, ("operate", {"plan": plan_for(corpus, generate=True)}))
    raw = tomllib.loads(session.record.read_text())
    assert set(raw["generation"]) == {"stock", "pass-1"}
    assert len(raw["generation"]["pass-1"]["text"]) == 50
