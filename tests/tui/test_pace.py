from datetime import UTC, datetime, timedelta

from engine import events
from engine.journal import Entry
from tui.pace import Pace, duration

START = datetime(2026, 11, 30, 12, tzinfo=UTC)


def step(number: int, after: float, seq: int = 1) -> Entry:
    event = events.Step(number=1, step=number, loss=3.0, lr=1e-4, grad_norm=1.0, tokens=1000 * number, seconds=0.1)
    return Entry(seq, (START + timedelta(seconds=after)).isoformat(), event)


def test_the_time_between_steps_counts_checks_and_saving_too() -> None:
    pace = Pace()
    for number in range(1, 12):  # 2 s a step by the clock, though each step itself took 0.1 s
        pace.add(step(number, 2.0 * number))
    assert pace.tokens_per_second == 500.0
    assert pace.seconds_left(111) == 200.0


def test_nothing_is_claimed_before_enough_is_known() -> None:
    pace = Pace()
    pace.add(step(1, 0))
    assert pace.tokens_per_second is None and pace.seconds_left(100) is None
    pace.add(step(2, 1))
    assert pace.tokens_per_second == 1000.0 and pace.seconds_left(100) is None


def test_a_pause_does_not_slow_the_pace() -> None:
    pace = Pace()
    for number in range(1, 6):
        pace.add(step(number, number))
    pace.add(Entry(9, START.isoformat(), events.Paused(number=1, step=5)))
    pace.add(Entry(10, START.isoformat(), events.Continued(number=1, step=5)))
    assert pace.seconds_left(100) is None
    for number in range(6, 11):
        pace.add(step(number, 3600 + number))
    assert pace.seconds_left(20) == 10.0


def test_durations_are_rounded_so_that_they_do_not_flicker() -> None:
    shown = [duration(seconds) for seconds in (0, 43, 101, 199, 595.1, 3599, 3600, 7500)]
    assert shown == [
        "0 s",
        "45 s",
        "1 min 40 s",
        "3 min 20 s",
        "10 min 00 s",
        "60 min 00 s",
        "1 h 00 min",
        "2 h 05 min",
    ]
