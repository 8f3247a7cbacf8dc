from dataclasses import replace

import pytest

from engine import events
from engine.chart import Chart, gaps, read_chart
from engine.heads import Head
from engine.journal import Entry
from tests.engine import story
from tests.engine.story import AFTER, DIAGNOSED, ONE_PASS


def chart_of(*told: events.Event) -> Chart:
    chart = Chart()
    for seq, event in enumerate(told, 1):
        chart.add(Entry(seq, f"2026-11-30T10:00:{seq % 60:02}+00:00", event))
    return chart


RUNNING = [*DIAGNOSED, story.started(), story.cut()]


@pytest.mark.parametrize(
    ("told", "state"),
    [
        ([], "created"),
        (DIAGNOSED[:3], "created"),
        (DIAGNOSED, "diagnosed"),
        ([*DIAGNOSED, story.started()], "operating"),
        ([*RUNNING, events.Paused(number=1, step=0)], "paused"),
        ([*RUNNING, events.Paused(number=1, step=0), events.Continued(number=1, step=0)], "operating"),
        ([*RUNNING, story.ended()], "operated"),
        ([*RUNNING, story.ended(), events.Undone(number=1)], "diagnosed"),
        ([*DIAGNOSED, events.Failed(message="out of memory")], "failed"),
        ([*RUNNING, events.Failed(message="out of memory")], "failed"),
        ([*RUNNING, events.Failed(message="out of memory"), story.WORKER], "operating"),
        ([*DIAGNOSED, events.Failed(message="out of memory"), story.WORKER], "diagnosed"),
    ],
)
def test_states(told, state):
    assert chart_of(*told).state == state


def test_the_story_of_one_pass():
    chart = chart_of(*ONE_PASS)
    (done,) = chart.passes
    assert (done.number, done.step, done.outcome, done.saved_step, done.accepted) == (1, 40, "completed", 20, True)
    assert done.targets == [Head(1, 2), Head(1, 3)]
    assert [check.step for check in done.checks] == [20, 40]
    assert done.best is done.checks[1]
    assert done.bos_mass == AFTER
    assert chart.running is None and chart.standing == [done] and chart.closed
    assert [text for _, text in chart.notes] == ["woken heads do some work"]
    assert chart.stock is chart.maps["stock"] and chart.head_map is chart.maps["pass-1"]
    assert chart.seq == len(ONE_PASS)
    assert chart.time_created == "2026-11-30T10:00:01+00:00"


def test_the_best_check_has_the_lowest_heldout_perplexity_the_first_of_equals():
    checks = [story.check(10, 60.0), story.check(20, 55.0), story.check(30, 55.0), story.check(40, 58.0)]
    assert chart_of(*RUNNING, *checks).passes[0].best.step == 20


def test_bos_mass_is_the_cuts_until_the_first_check():
    assert chart_of(*DIAGNOSED, story.started()).passes[0].bos_mass is None
    assert chart_of(*RUNNING).passes[0].bos_mass == story.cut().bos_mass


def test_resumed_drops_what_came_after_the_saved_step():
    told = [
        *RUNNING,
        *(story.step(n) for n in range(1, 21)),
        story.check(20, 70.0),
        events.Saved(number=1, step=20, file="state.safetensors", bytes=1),
        *(story.step(n) for n in range(21, 31)),
        story.check(30, 10.0),
        events.Paused(number=1, step=30),
        story.WORKER,
        events.Resumed(number=1, step=20),
        story.step(21, loss=1.25),
    ]
    done = chart_of(*told).passes[0]
    assert [step.step for step in done.steps] == list(range(1, 22))
    assert done.steps[-1].loss == 1.25
    assert [check.step for check in done.checks] == [20]
    assert done.best.heldout_perplexity == 70.0 and done.outcome == "running"
    assert done.bos_mass == story.check(20, 70.0).bos_mass


def test_only_the_maps_that_can_still_be_shown_are_kept():
    done = chart_of(*RUNNING, *(story.check(n, 70.0) for n in (10, 20, 30, 40))).passes[0]
    assert [check.bos_mass == [] for check in done.checks] == [True, True, False, False]


def test_an_epoch_trains_on_a_repeated_source_as_often_as_it_says():
    twice = replace(story.SOURCE, train_tokens=100, repeat=2)
    once = replace(story.SOURCE, train_tokens=30)
    assert replace(story.started(), corpus=[twice, once]).tokens_per_epoch == 230
    assert replace(story.started(samples=4, length=50), corpus=[twice, once]).tokens_per_epoch == 200


def test_a_pass_begun_anew_replaces_the_first_try():
    chart = chart_of(*RUNNING, story.step(1), story.started(targets="sick"), story.step(1), story.step(2))
    (done,) = chart.passes
    assert done.started.plan["targets"] == "sick"
    assert done.step == 2 and done.cut is None


def test_a_second_pass_after_the_first_has_ended_does_not():
    chart = chart_of(*ONE_PASS, story.started(number=2), story.cut(number=2))
    assert [p.number for p in chart.passes] == [1, 2]
    assert chart.running is chart.passes[1]
    assert chart.head_map is chart.maps["pass-1"]


def test_undone_takes_the_pass_out_of_the_model_and_keeps_its_story():
    chart = chart_of(*ONE_PASS, events.Undone(number=1))
    assert chart.passes[0].outcome == "undone" and chart.standing == []
    assert chart.head_map is chart.stock and "pass-1" not in chart.maps
    assert chart.passes[0].checks


def test_only_the_named_pass_is_undone_or_accepted():
    second = [story.started(number=2), story.ended(number=2), story.diagnosed("pass-2")]
    chart = chart_of(*ONE_PASS, *second, events.Undone(number=2))
    assert [p.outcome for p in chart.passes] == ["completed", "undone"]
    assert chart.head_map is chart.maps["pass-1"]
    assert [p.accepted for p in chart.passes] == [True, False]


def test_progress_is_forgotten_when_something_else_happens():
    assert chart_of(*DIAGNOSED[:2], events.Progress(what="loading")).progress.what == "loading"
    assert chart_of(*DIAGNOSED[:2], events.Progress(what="loading"), story.LOADED).progress is None


def test_a_refusal_is_told_and_a_new_worker_begins_without_it():
    refused = events.Refused(message="half a group")
    assert chart_of(*DIAGNOSED, refused).message == "half a group"
    assert chart_of(*DIAGNOSED, refused, story.WORKER).message == ""


def test_the_usual_time_of_a_step_is_the_median_of_the_last_ones():
    slow = events.Step(number=1, step=3, loss=1, lr=1, grad_norm=1, tokens=1, seconds=60.0)
    assert chart_of(*RUNNING, story.step(1), story.step(2), slow).passes[0].seconds_per_step == 0.1
    assert chart_of(*RUNNING).passes[0].seconds_per_step == 0.0


def test_a_journal_is_read_into_a_chart(tmp_path):
    session = story.tell(tmp_path / "story", ONE_PASS)
    chart, told = read_chart(session), chart_of(*ONE_PASS)
    assert chart.maps == told.maps and chart.seq == told.seq
    assert [p.steps for p in chart.passes] == [p.steps for p in told.passes]
    assert [p.ended for p in chart.passes] == [p.ended for p in told.passes]


def test_gaps_are_found():
    entries = [Entry(seq, "", events.Closed()) for seq in (1, 2, 4, 5, 9)]
    assert gaps(entries) == [2, 5]
    assert gaps(entries[:2]) == gaps([]) == []
