from pathlib import Path

from engine import events
from tests.tui import story
from tui.replay import LONGEST, PACES, Replay, gap


def replay(tmp_path: Path) -> Replay:
    """A replay of a finished pass that stands still."""
    found = Replay(story.write_session(tmp_path, until=40))
    found.halted = True
    return found


def test_milestones_are_told_one_by_one_with_all_that_lies_between(tmp_path: Path) -> None:
    told = replay(tmp_path)
    assert told.poll() == [] and told.chart.stock is None
    told.skip()  # Created
    told.skip()  # WorkerStarted
    told.skip()
    assert isinstance(told.poll()[-1].event, events.Loaded)
    while told.chart.running is None:
        told.skip()
    told.skip()  # the cut
    assert told.chart.running.step == 0 and told.chart.running.cut is not None
    told.skip()
    assert told.chart.running.step == 10  # the first check, with the ten steps before it
    seen = [entry.seq for entry in told.poll()]
    assert seen == list(range(seen[0], seen[0] + len(seen)))
    while told.coming:
        told.skip()
    assert told.chart.passes[0].ended is not None and "at its end" in told.words
    told.skip()  # nothing comes after the end
    assert told.poll()


def test_the_pace_is_the_journal_s_own_times_a_factor_and_silences_are_cut_short(tmp_path: Path) -> None:
    assert gap("2026-11-30T12:00:00+00:00", "2026-11-30T12:00:02.500+00:00") == 2.5
    assert gap("2026-11-30T12:00:00+00:00", "2026-11-30T15:00:00+00:00") == LONGEST
    assert gap("", "2026-11-30T12:00:00+00:00") == 0.0
    told = replay(tmp_path)
    told.turn(1)
    assert told.pace_index == 2
    for _ in range(9):
        told.turn(1)
    assert PACES[told.pace_index] == PACES[-1]
    told.turn(0)
    assert not told.halted and "256 times as fast" in told.words
    told.clock = 1e9  # long enough for all of it
    assert len(told.poll()) == told.total


def test_a_replay_asks_nobody_and_starts_nobody(tmp_path: Path) -> None:
    told = replay(tmp_path)
    before = sorted(path.name for path in told.session.folder.iterdir())
    told.start_worker()
    told.ask("accept")
    assert told.farewell().startswith("The session is in")
    assert not (told.alive or told.listening or told.gone or told.look_for_worker())
    assert sorted(path.name for path in told.session.folder.iterdir()) == before
