"""A trial as the list and its own screen follow it, without a screen."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from engine import events
from engine.chart import read_chart
from engine.errors import InputError
from engine.session import Session
from engine.trial import Trial
from tests.tui import story
from tui.past import read_trial
from tui.screens.load import held, listed, sessions_of
from tui.trials import RunRow, TrialLive, row_of

TARGETS = len(story.TARGETS)


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    """Two arms, two seeds, nothing begun."""
    return story.write_trial(tmp_path)


def followed(trial: Trial) -> TrialLive:
    live = TrialLive(trial)
    live.look_for_worker()
    while not live.read or live.poll():
        live.poll()
    live.look_for_worker()
    return live


def test_a_run_in_figures(trial: Trial) -> None:
    run = trial.runs[0]
    assert row_of(run, read_chart(trial.session(run))) == RunRow()
    session = story.carry(trial, 0, 20, ended=False)
    row = row_of(run, read_chart(session))
    assert (row.state, row.doing) == ("operating", "pass 1 step 20/40")
    assert (row.healthy_before, row.healthy_after, row.woken, row.targets) == (276, None, TARGETS - 1, TARGETS)
    assert (row.perplexity_stock, row.perplexity) == (32.0, story.heldout(20))
    assert row.drift == pytest.approx(0.08)  # L4-H9
    story.append(session, iter([events.Paused(number=1, step=20)]))
    assert row_of(run, read_chart(session)).doing == "paused, step 20"
    story.append(session, iter([events.Progress(what="diagnosing", done=2, total=37)]))
    assert row_of(run, read_chart(session)).doing == "diagnosing 2/37"
    story.append(session, story.ending())
    row = row_of(run, read_chart(session))
    assert (row.state, row.healthy_after, row.perplexity) == ("operated", 380, 30.0)
    story.append(session, iter([events.Closed()]))
    assert row_of(run, read_chart(session)).state == "done"


def test_a_trial_is_followed_and_of_what_is_at_rest_only_the_figures_are_kept(trial: Trial) -> None:
    live = followed(trial)
    assert [row.state for row in live.rows] == ["waiting"] * 4 and live.summary() == "0 of 4 done"
    story.carry(trial, 0)
    story.carry(trial, 1, 12, ended=False)
    assert live.poll(1.0) and not live.poll(1.0)  # nothing has grown since
    assert [row.state for row in live.rows] == ["done", "operating", "waiting", "waiting"]
    assert set(live.readings) == {1}
    live.look_for_worker()
    assert live.doing(1) == "stopped at 12/40"
    with trial.held(), trial.session(trial.runs[1]).held():
        assert live.look_for_worker()
        assert live.doing(1) == "pass 1 step 12/40"
        assert live.summary().startswith("1 of 4 done, now cut-2")
        assert "1 of 4 runs are done" in live.farewell() and f"open {trial.folder}" in live.farewell()
    live.look_for_worker()
    assert f"Go on with: headsurgeon resume {trial.folder}" in live.farewell()
    story.append(trial.session(trial.runs[1]), iter([events.Failed(message="no room")]))
    live.poll(1.0)
    assert live.summary() == "1 of 4 done, 1 failed" and live.rows[1].message == "no room"
    story.append(trial.session(trial.runs[1]), iter([events.WorkerStarted(pid=2), events.Resumed(number=1, step=10)]))
    live.poll(1.0)  # read anew from its start
    assert (live.rows[1].state, live.rows[1].doing) == ("operating", "pass 1 step 10/40")


def test_the_time_left_supposes_that_the_others_take_as_long(trial: Trial) -> None:
    live = followed(trial)
    live.rows[0] = RunRow(state="done", seconds=100.0)
    live.rows[1] = RunRow(state="operating", seconds=40.0)
    assert live.seconds_left() is None  # nobody is at work
    live.alive, live.held = True, {1}
    assert live.seconds_left() == 260.0  # three more of 100 s, less the 40 that are spent
    live.rows[2] = RunRow(state="failed")
    assert live.seconds_left() == 160.0


def test_its_worker_is_asked_to_leave_and_ended_only_then(trial: Trial) -> None:
    live = TrialLive(trial)
    for at_once, sign in ((False, signal.SIGTERM), (True, signal.SIGKILL)):
        live.process = subprocess.Popen(["sleep", "60"], start_new_session=True)
        live.look_for_worker()
        live.stop_worker(at_once)
        assert live.stopping and live.process.wait(10) == -sign
        live.look_for_worker()
        assert not live.alive and not live.stopping


def test_the_list_has_one_row_for_a_trial(trial: Trial, tmp_path: Path) -> None:
    single = story.write_session(tmp_path, "2026-01-01-alone")
    story.carry(trial, 0)
    failing = trial.begin(trial.runs[1])
    story.append(failing, iter([events.Failed(message="no")]))
    story.carry(trial, 2, 10, ended=False)
    assert listed(tmp_path) == sorted([single, trial.own], key=lambda s: s.id, reverse=True)
    past = read_trial(trial.own)
    assert (past.title, past.patient, past.arms, past.runs) == ("Does it wake", "bloom-story", 2, 4)
    assert (past.done, past.failed) == (1, 1)
    assert [s.folder.name for s in sessions_of(trial.own)] == ["cut-1", "cut-2", "control-1"]
    assert sessions_of(single) == [single]
    assert listed(tmp_path / "nowhere") == []


def test_a_trial_is_held_by_whoever_holds_one_of_its_sessions(trial: Trial) -> None:
    session = story.carry(trial, 0)
    assert not held(trial.own)
    with session.held():
        assert held(trial.own)
    with trial.held():
        assert held(trial.own) and trial.own.holder() == os.getpid()
    assert not held(trial.own)


def test_a_run_that_was_closed_before_its_passes_were_over_is_not_done(trial: Trial) -> None:
    session: Session = trial.begin(trial.runs[0])
    story.append(session, iter([*list(story.beginning(session.id))[1:], events.Closed()]))
    story.save(session, read_chart(session))
    assert read_trial(trial.own).done == 0


def test_open_takes_a_trial_as_it_takes_a_session(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine.__main__ import run

    opened: list[Path | None] = []
    monkeypatch.setattr("tui.app.run", lambda *, session, **_: opened.append(session) or 0)
    for stream in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True, raising=False)
    assert run(["open", str(trial.folder)]) == run(["--session", str(trial.folder)]) == 0
    assert opened == [trial.folder.resolve()] * 2
    with pytest.raises(InputError, match="session not found"):
        run(["open", str(trial.folder / "none")])
