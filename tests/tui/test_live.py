import os
from pathlib import Path

import pytest

from engine import events
from engine.session import Session
from tests.tui import story
from tui.live import QUIET_LIMIT, Live

FIRST, SECOND = {**story.PLAN, "targets": "sick & band"}, {**story.PLAN, "targets": "sick & !band"}


@pytest.fixture
def held(tmp_path: Path) -> Live:
    """A session that somebody works on, diagnosed."""
    return Live(story.write_session(tmp_path))


def test_passes_wait_from_the_order_until_their_start_on_every_screen(held: Live) -> None:
    story.append(held.session, iter([events.Queued(plans=[FIRST, SECOND])]))
    held.poll()
    assert [plan["targets"] for plan in held.plans_waiting] == ["sick & band", "sick & !band"]
    story.append(held.session, story.operation(5))
    held.poll()
    assert held.plans_waiting == [SECOND]
    other = Live(held.session)  # attached anew: the same, from the journal alone
    other.poll()
    assert other.plans_waiting == [SECOND]
    story.append(held.session, iter([events.WorkerStarted(pid=2)]))
    held.poll()
    assert held.plans_waiting == [SECOND]  # the next worker goes on with it
    story.append(held.session, iter([events.Queued(plans=[])]))
    held.poll()
    assert held.plans_waiting == []  # one that could not be run took the others with it


def test_what_was_asked_for_waits_only_once_the_worker_has_taken_it(held: Live) -> None:
    held.session.send("operate", plan=FIRST)
    held.poll()
    assert held.plans_waiting == []


def test_the_passes_of_a_headless_order_wait_too(tmp_path: Path) -> None:
    session = Session(tmp_path / "ordered")
    session.folder.mkdir()
    story.append(session, iter([events.Created(session="ordered", model="demo", plans=[story.PLAN, SECOND])]))
    story.append(session, story.operation(5))
    live = Live(session)
    live.poll()
    assert live.plans_waiting == [SECOND]


def test_a_worker_that_is_silent_for_long_in_a_pass_looks_hung(held: Live) -> None:
    story.append(held.session, story.operation(5))
    with held.session.held():
        held.poll()
        held.look_for_worker()
        assert held.alive and held.hung == 0.0
        long_ago = held.session.journal.stat().st_mtime - 3 * QUIET_LIMIT
        os.utime(held.session.journal, (long_ago, long_ago))
        assert held.hung > 2 * QUIET_LIMIT
        assert held.look_for_worker() and held.looks_hung and not held.look_for_worker()
        held.longest = QUIET_LIMIT  # a pass that was so silent before may be so again
        assert held.hung == 0.0
        held.longest = 0.0
        story.append(held.session, iter([events.Paused(number=1, step=5)]))
        os.utime(held.session.journal, (long_ago, long_ago))
        held.poll()
        assert held.hung == 0.0  # a paused pass says nothing, as it should
    held.look_for_worker()
    assert held.hung == 0.0 and held.gone  # nobody is there: that is another thing


def test_contributions_and_attention_are_found_by_where_they_belong(held: Live) -> None:
    rows = story.rows(lambda layer, head: 0.01)
    story.append(
        held.session,
        iter(
            [
                events.Contributed(stage="stock", text="t", samples=2, tokens=20, loss=3.0, rows=rows),
                events.Attention(
                    stage="stock", layer=1, head=2, text="two", tokens=["a"], top=[[[0, 1.0]]], received=[1.0]
                ),
            ]
        ),
    )
    held.poll()
    assert held.contributions("stock") == rows and held.contributions("pass-1") is None
    assert held.attention[1, 2, "two"].tokens == ["a"]


def test_a_session_whose_loading_is_cancelled_leaves_nothing(tmp_path: Path) -> None:
    import subprocess

    session = Session(tmp_path / "begun")
    session.folder.mkdir()
    live = Live(session)
    live.process = subprocess.Popen(["sleep", "60"])
    live.cancel()
    assert live.process.returncode is not None and not session.folder.exists()
