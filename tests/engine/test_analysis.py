"""Curves by hand: twelve checks every 25 steps would be much to add up, five every 20 are not."""

from dataclasses import replace
from typing import Any

import pytest

from engine import events
from engine.analysis import PassAnalysis, analyse
from engine.curves import Point
from engine.drift import Drift, ZoneDrift
from engine.record import load
from engine.tables import PassTable, Record
from tests.engine import story
from tests.engine.story import DIAGNOSED, ONE_PASS

CHECKS = (20, 40, 60, 80, 100)


def drift(outside: float, frozen: float, frozen_heads: int = 2) -> Drift:
    return Drift(
        ZoneDrift(8, int(outside > 0.03), outside, 2 * outside, "L2-H2"),
        ZoneDrift(frozen_heads, 1, frozen, frozen, "L0-H2"),
    )


def told(
    perplexities: list[float],
    outside: list[float],
    frozen: list[float],
    woken: list[int] | None = None,
    columns: list[list[float | None]] | None = None,
    **end: Any,
) -> list[events.Event]:
    """A pass of 100 steps whose checks, every 20, have these figures; its cut moved nothing."""
    checks = [
        story.check(
            step,
            perplexities[i],
            drift=drift(outside[i], frozen[i]),
            drift_training=drift(outside[i], frozen[i]),
            woken=(woken or [2] * 5)[i],
            columns=(columns or [[0.01, None, 0.03, 0.0]] * 5)[i],
        )
        for i, step in enumerate(CHECKS[: len(perplexities)])
    ]
    return [
        *DIAGNOSED,
        replace(story.started(), steps=100),
        replace(story.cut(), drift=drift(0.0, 0.0), heldout_perplexity=140.0),
        *(story.step(n) for n in (50, 100)),
        *checks,
        story.diagnosed("pass-1", story.head_map(story.AFTER, story.ENTROPY_AFTER)),
        story.ended(**{"step": 100, "kept_step": 40, "trained_tokens": 1000, **end}),
    ]


FLAT = [0.03] * 5


def found(tmp_path, events_: list[events.Event]) -> PassAnalysis:
    record = load(story.tell(tmp_path / "story", events_))
    return analyse(record, record.passes[0])


def test_the_early_phenomenon_alone(tmp_path):
    phases = found(tmp_path, told([100, 90, 80, 70, 60], [0.03, 0.032, 0.031, 0.03, 0.04], FLAT)).phases
    # a third of 100 steps is 33: the check at 20 ends the early part
    assert (phases.checks, phases.mark, phases.last) == (5, 20, 100)
    assert phases.early_share == pytest.approx(0.03 / 0.04)
    assert phases.outside_change == pytest.approx(0.01) and phases.in_band_change == 0
    assert (phases.early, phases.late, phases.reading) == (True, False, "early redistribution")
    assert phases.best == 100 and phases.best_share == 1 and phases.perplexity_above_best == 0


def test_the_late_phenomenon_with_the_figures_of_the_paper(tmp_path):
    # C4, epoch 3 to 15: outside 0.0310 to 0.0398, in-band frozen 0.0399 to 0.0641
    outside, frozen = [0.031, 0.033, 0.035, 0.037, 0.0398], [0.0399, 0.045, 0.05, 0.06, 0.0641]
    phases = found(tmp_path, told([100, 80, 90, 95, 120], outside, frozen)).phases
    assert phases.early_share == pytest.approx(0.779, abs=1e-3)
    assert phases.in_band_change == pytest.approx(0.0242) and phases.late_ratio == pytest.approx(2.75)
    assert phases.best == 40 and phases.perplexity_above_best == pytest.approx(0.5)
    assert phases.reading == "both"


@pytest.mark.parametrize(
    ("outside", "frozen", "reading"),
    [
        ([0.01, 0.02, 0.02, 0.03, 0.03], [0.01, 0.02, 0.03, 0.04, 0.06], "late decay"),  # 0.05 is 2.5 × 0.02
        ([0.01, 0.02, 0.02, 0.03, 0.03], [0.01, 0.02, 0.03, 0.04, 0.045], "neither"),  # 0.035 is 1.75 × 0.02
        ([0.004, 0.004, 0.004, 0.004, 0.004], FLAT, "neither"),  # not notable: under a tenth of 0.05
        ([0.03, 0.02, 0.01, 0.01, 0.01], [0.01, 0.01, 0.01, 0.012, 0.014], "early redistribution"),
        ([0.03, 0.02, 0.01, 0.01, 0.01], [0.01, 0.01, 0.01, 0.012, 0.016], "both"),  # the outside fell
    ],
)
def test_the_rules_of_the_two_phases(tmp_path, outside, frozen, reading):
    assert found(tmp_path, told([100, 90, 80, 70, 60], outside, frozen)).phases.reading == reading


def test_few_checks_tell_nothing(tmp_path):
    phases = found(tmp_path, told([100, 90, 80], FLAT, FLAT)).phases
    assert phases.reading == "cannot be told: 3 checks" and phases.outside_mark == 0.03
    none = found(tmp_path / "none", [*DIAGNOSED, story.started()]).phases
    assert none.reading == "cannot be told: 0 checks" and none.mark is None


def test_without_frozen_heads_in_the_band_there_is_no_late_decay_to_tell(tmp_path):
    events_ = [
        replace(e, drift=drift(0.03, 0.0, 0)) if isinstance(e, events.Check) else e for e in told([9] * 5, FLAT, FLAT)
    ]
    analysed = found(tmp_path, events_)
    assert analysed.phases.late is None and analysed.phases.in_band_change is None
    assert analysed.phases.reading == "early redistribution; late decay cannot be told: no in-band frozen heads"


def test_the_perplexity_passes_stock_has_its_best_and_rises_again(tmp_path):
    heldout = found(tmp_path, told([130.0, 90.0, 100.0, 110.0, 117.0], FLAT, FLAT)).heldout
    assert heldout.stages.stock == 128.98 and heldout.stages.cut == 140.0
    assert heldout.crossed == 40  # 130.0 was still above 128.98
    assert heldout.best == Point(40, 90.0) and heldout.best_share == 0.4
    assert heldout.above_best == pytest.approx(27.0)
    assert heldout.curve.first == Point(0, 140.0) and heldout.curve.shape == "mixed"


def test_a_perplexity_that_never_comes_down_to_stock(tmp_path):
    heldout = found(tmp_path, told([150.0, 149.8, 149.9, 150.1, 150.0], FLAT, FLAT)).heldout
    assert heldout.crossed is None
    assert heldout.curve.highest == Point(80, 150.1)


def test_targets_that_sank_again(tmp_path):
    woken = found(tmp_path, told([9] * 5, FLAT, FLAT, woken=[1, 2, 2, 0, 1])).woken
    assert (woken.targets, woken.at_cut, woken.curve.highest) == (2, 2, Point(0, 2.0))
    assert woken.sank_again == 1 and woken.curve.lowest == Point(80, 0.0)


def test_zones_begin_at_the_cut(tmp_path):
    analysed = found(tmp_path, told([9] * 5, [0.01, 0.02, 0.03, 0.04, 0.05], FLAT, drift=drift(0.014, 0.0)))
    outside = analysed.zone("outside")
    assert outside.heads == 8 and outside.mean.first == Point(0, 0.0) and outside.mean.shape == "rising"
    assert [p.value for p in outside.drifting.points] == [0, 0, 0, 0, 1, 1]
    assert outside.training.first == Point(0, 0.0)
    assert outside.final.mean == 0.014  # of the slices that were kept, as the pass ended
    assert analysed.zone("in_band_frozen").mean.last == Point(100, 0.03)


def test_a_second_pass_is_cut_out_of_another_model_so_its_curve_begins_at_the_first_check(tmp_path):
    second = [story.started(number=2), story.cut(number=2), *(story.check(n, 50.0, number=2) for n in (20, 40))]
    record = load(story.tell(tmp_path / "story", [*ONE_PASS, *second]))
    first, after = (analyse(record, p) for p in record.passes)
    assert first.outside.mean.first.step == 0 and after.outside.mean.first.step == 20
    assert (first.classes.before_stage, after.classes.before_stage) == ("stock", "pass-1")
    assert first.classes.before["healthy"] == 6 and first.classes.after["healthy"] == 8
    assert after.classes.before["healthy"] == 8 and after.classes.after is None
    undone = load(story.tell(tmp_path / "undone", [*ONE_PASS, events.Undone(number=1), *second]))
    assert analyse(undone, undone.passes[1]).classes.before_stage == "stock"


def test_columns_one_by_one(tmp_path):
    columns: list[list[float | None]] = [[0.083, None, 0.05, a] for a in (0.0, 0.0, 0.01, 0.0, 0.0)]
    columns[-1][0] = 0.154  # as the paper's H15
    analysed = found(tmp_path, told([9] * 5, FLAT, FLAT, columns=columns))
    h0, h2, h3 = analysed.columns
    assert (h0.index, h0.curve.first.value, h0.curve.last.value, h0.spreads) == (0, 0.083, 0.154, True)
    assert (h2.index, h2.curve.shape, h2.spreads) == (2, "plateau", False)
    assert h3.curve.highest == Point(60, 0.01) and h3.curve.change == 0


def test_what_spreads_is_as_the_record_says_and_before_that_as_the_checks_do(tmp_path):
    columns: list[list[float | None]] = [[0.01 * (i + 1), None, 0.0, 0.0] for i in range(5)]
    all_told = told([9] * 5, FLAT, FLAT, columns=columns, spreading=[3])
    assert found(tmp_path / "ended", all_told).spreading == (3,)
    assert found(tmp_path / "running", all_told[:-2]).spreading == (0,)


def test_an_old_record_has_no_columns_and_no_seconds(tmp_path):
    record = load(story.tell(tmp_path / "story", ONE_PASS))
    p = record.passes[0].model_copy(update={"training_seconds": None})
    for check in p.check:
        check.columns = {}
    analysed = analyse(record, p)
    assert analysed.columns == () and analysed.cost.tokens_per_second is None


def test_what_it_took(tmp_path):
    record = load(story.tell(tmp_path / "story", told([9] * 5, FLAT, FLAT, peak_memory_bytes=5)))
    times = {"started": "2026-11-30T22:00:00+00:00", "ended": "2026-11-30T22:01:30.500+00:00"}
    cost = analyse(record, record.passes[0].model_copy(update=times)).cost
    assert cost.training_seconds == 0.2 and cost.tokens_per_second == 5000  # 1000 tokens in two steps of 0.1 s
    assert cost.wall_seconds == 90.5 and cost.memory_bytes_peak == 5 and cost.memory_bytes_estimated is None
    assert cost.trained_share == pytest.approx(2_096 / 70_000)
    torn = record.passes[0].model_copy(update={"started": "yesterday"})
    assert analyse(record, torn).cost.wall_seconds is None


def test_what_is_asked_of_every_arm_is_in_one_place(tmp_path):
    analysed = found(tmp_path, ONE_PASS)
    assert (analysed.working.stock, analysed.working.cut, analysed.working.after) == (0.03, None, 0.744)
    assert analysed.watched["austen"].stock == 18.51 and analysed.watched["austen"].after == 27.2
    assert (analysed.woken.at_cut, analysed.woken.after) == (2, 2)
    assert (analysed.steps, analysed.steps_done, analysed.best_step) == (40, 40, 40)


def test_figures_of_another_hand_do_not_stop_it(tmp_path):
    record: Record = load(story.tell(tmp_path / "story", told([9] * 5, FLAT, FLAT)))
    p: PassTable = record.passes[0]
    p.check[0].heldout_perplexity = float("inf")
    p.check[1].columns = {"H5": 0.1, "x": 1.0, "H²": 1.0, "Hx": 2.0}
    analysed = analyse(record, p)
    assert analysed.heldout.best == Point(40, 9.0)
    assert [column.index for column in analysed.columns] == [0, 2, 3, 5]
