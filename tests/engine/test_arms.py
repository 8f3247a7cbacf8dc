"""Arms over seeds: means and deviations that can be added up on paper."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from engine import events
from engine.arms import Spread, arms_of, comparable, figures_of, of_arm, patients_of, spread, text_matrix
from engine.arms_told import crossing, extremes, findings, plain, reading, told
from engine.chart import read_chart
from engine.drift import Drift, ZoneDrift
from engine.figures import FIGURES, Figure
from engine.record import build
from engine.show_arms import arms_text, table_text
from engine.tables import Record
from tests.engine import story

BY_KEY = {figure.key: figure for figure in FIGURES}


def run_of(
    folder: Path,
    arm: str,
    seed: int = 42,
    heldout: tuple[float, ...] = (140.0, 100.0, 60.0, 70.0),
    woken: int = 2,
    worth: float = 0.7,
    protocol: str = "Birds",
    **started: object,
) -> Record:
    """A run whose held-out perplexity is this at steps 0, 10, 20, 30; stock is 128.98 and the best is kept."""
    cut, *checks = heldout
    best = min(checks)
    passed = [
        replace(story.started(**started), heldout_perplexity_stock=128.98),
        replace(story.cut(), heldout_perplexity=cut),
        *(story.check(10 * i, value, best=value == best) for i, value in enumerate(checks, 1)),
        story.ended(
            step=30, kept_step=10 * (checks.index(best) + 1), heldout_perplexity=best, woken=woken,
            ablation_loss_after=worth,
        ),
        story.diagnosed("pass-1", story.head_map(story.AFTER, story.ENTROPY_AFTER)),
    ]  # fmt: skip
    return told_record(folder, arm, seed, protocol, passed)


def told_record(folder: Path, arm: str, seed: int, protocol: str, more: list[events.Event]) -> Record:
    created = replace(story.CREATED, protocol=protocol, arm=arm, seed=seed)
    told_ = [created, *story.DIAGNOSED[1:], *more, events.Closed()]
    session = story.tell(folder / f"{arm}-{seed}".replace("/", "_"), told_, keep_record=False)
    made = build(read_chart(session))
    made.session.id = session.id
    return made


@pytest.fixture
def seeded(tmp_path: Path) -> list[Record]:
    """Two arms, three seeds and one."""
    ends = [(42, 60.0), (43, 63.0), (44, 66.0)]
    cut = [run_of(tmp_path, "cut", seed, (140.0, 100.0, end, 70.0), worth=0.7) for seed, end in ends]
    return [*cut, run_of(tmp_path, "control", 42, (128.98, 120.0, 110.0, 90.0), woken=0, worth=0.1)]


def test_a_spread_is_that_of_a_sample():
    found = spread([1.0, None, 3.0, math.nan, 5.0])
    assert found == Spread((1.0, None, 3.0, None, 5.0), 3, 3.0, 2.0, 1.0, 5.0)  # √((4 + 0 + 4) / 2)
    assert spread([7]) == Spread((7,), 1, 7.0, None, 7, 7)
    assert spread([None]) == Spread((None,), 0, None, None, None, None)


def test_runs_of_one_arm_stand_together_by_seed(seeded):
    arms = arms_of(list(reversed(seeded)))
    assert [(arm.label, arm.number, arm.seeds) for arm in arms] == [("control", 1, [42]), ("cut", 1, [42, 43, 44])]
    kept = of_arm(BY_KEY["heldout_after"], arms[1])
    assert (kept.values, kept.mean, kept.sd) == ((60.0, 63.0, 66.0), 63.0, 3.0)
    assert of_arm(BY_KEY["best_step"], arms[1]).values == (20, 20, 20)
    assert of_arm(BY_KEY["above_best"], arms[1]).values == (10.0, 7.0, 4.0)
    assert of_arm(BY_KEY["crossed_step"], arms[1]).values == (10, 10, 10)
    assert of_arm(BY_KEY["crossed_step"], arms[0]).values == (0,)  # the cut changed nothing


def test_every_figure_of_the_story_is_read_off_its_record(tmp_path):
    made = told_record(tmp_path, "whole", 42, "Birds", list(story.WHOLE_PASS[3:]))
    (arm,) = arms_of([made])
    found = {figure.key: figure.of(arm.runs[0]) for figure in figures_of([arm])}
    expected = {
        "targets": 2, "healthy_before": 6, "healthy_after": 8, "dead_before": 2, "dead_after": 1, "woken_at_cut": 2,
        "woken": 2, "working_stock": 0.03, "working_cut": 0.0, "working_after": 0.744, "heldout_stock": 128.98,
        "heldout_cut": 132.89, "heldout_after": 55.2, "best": 55.2, "best_step": 40, "crossed_step": 20,
        "above_best": 0.0, "drift_outside_mean": 0.014, "drift_outside_drifting": 2, "drift_outside_worst": 0.07,
        "trained_parameters": 2_096, "touched_parameters": 4_192, "trained_tokens": 40_960,
        "memory_bytes_peak": 1_340_000_000, "perplexity.austen.stock": 18.51, "perplexity.austen.after": 27.2,
        "perplexity.birds.txt (held out).after": 40.0, "perplexity.bible.txt (held out).cut": 144.0,
    }  # fmt: skip
    assert {key: found[key] for key in expected} == expected
    assert "drift_in_band_frozen_mean" not in found  # there are no such heads


def test_a_pass_is_a_row_and_the_same_arm_of_another_trial_is_another_arm(tmp_path):
    second = [story.started(2, "L2-H2", ["L2-H2"]), story.cut(2, woken=1), story.ended(2, woken=1)]
    both = told_record(tmp_path / "a", "long", 42, "Birds", [*story.ONE_PASS[4:-1], *second])
    again = run_of(tmp_path / "b", "long")
    young = told_record(tmp_path / "c", "young", 42, "Birds", [])
    assert [arm.label for arm in arms_of([both, again, young])] == [
        "long, pass 1", "long, pass 2", "long (2)", "young",
    ]  # fmt: skip
    alone = run_of(tmp_path / "d", "")
    assert arms_of([alone])[0].label == alone.session.id


def test_a_run_that_has_not_come_so_far_leaves_its_figures_open(tmp_path, seeded):
    young = told_record(tmp_path / "young", "cut", 45, "Birds", [])
    arm = next(arm for arm in arms_of([*seeded, young]) if arm.name == "cut")
    kept = of_arm(BY_KEY["heldout_after"], arm)
    assert kept.values[-1] is None and kept.n == 3
    assert told(BY_KEY["heldout_after"], kept) == "63.00 ± 3.00 (3 of 4)"
    assert of_arm(BY_KEY["healthy_before"], arm).values == (6, 6, 6, 6)


@pytest.mark.parametrize(
    ("values", "digits", "words"),
    [
        ([24.1], 2, "24.10"),
        ([24.0, 26.0], 2, "25.00 ± 1.41"),
        ([19, 19], 0, "19"),
        ([19, 20], 0, "19.5 ± 0.7"),
        ([4000, 5000], 0, "4 500 ± 707"),
        ([None], 2, "–"),
        ([2e7], 2, "2.0e+07"),
    ],
)
def test_a_figure_in_words(values, digits, words):
    assert told(Figure("x", "x", "cost", lambda run: None, digits), spread(values)) == words


def test_a_figure_has_the_unit_of_its_label():
    assert plain(BY_KEY["memory_bytes_peak"], 1_340_000_000, 2) == "1.34"


def test_what_came_of_an_arm(seeded):
    told_ = {arm.label: phrases for arm, phrases in findings(arms_of(seeded))}
    assert told_["cut"][:6] == [
        "2 of 2 targets woken at the cut, 2 after training",
        "working 0.0300 → 0.7000 nats",
        "held-out perplexity 128.98 → 63.00 ± 3.00",
        "crosses stock at step 10",
        "best 63.00 ± 3.00 at step 20 of 40",
        "the last check 11.3 ± 5.3 % above it",  # 10/60, 7/63 and 4/66
    ]
    assert told_["control"][3] == "at or below stock from the cut on"
    assert told_["control"][5] == "the last check is the best"


def test_where_seeds_cross_stock_and_what_they_say_of_drift(tmp_path):
    early = [Drift(ZoneDrift(8, 2, mean, 0.1, "L0-H0"), ZoneDrift(0, 0, 0, 0, "")) for mean in (0.02, 0.02, 0.02, 0.02)]
    still = [replace(drift, outside=replace(drift.outside, mean=0.0)) for drift in early]

    def run(seed: int, drifts: list[Drift], cut: float, first: float) -> Record:
        values = [first, 90.0, 80.0, 70.0]
        checks = [story.check(10 * i, v, drift=d) for i, (v, d) in enumerate(zip(values, drifts, strict=True), 1)]
        return told_record(
            tmp_path, "a", seed, "Birds", [story.started(), replace(story.cut(), heldout_perplexity=cut), *checks]
        )

    runs = [run(1, early, 140.0, 130.0), run(2, early, 100.0, 95.0), run(3, still, 140.0, 110.0)]
    (arm,) = arms_of(runs)
    assert crossing(arm) == "crosses stock at step 20, at the cut, at step 10"
    late = "late decay cannot be told: no in-band frozen heads"
    assert reading(arm) == (
        f"early or late drift: early redistribution; {late} (2 of 3); no early redistribution; {late} (1 of 3)"
    )
    never = run_of(tmp_path / "never", "b", heldout=(200.0, 190.0, 180.0))
    assert crossing(arms_of([never])[0]) == "never at or below stock"


def test_which_arm_stands_first_and_next(seeded):
    found = {one.label: one for one in extremes(arms_of(seeded))}
    lowest = found["lowest held-out perplexity kept"]
    assert [arm.label for arm in lowest.first] == ["cut"] and lowest.words == "63.00 ± 3.00"
    assert lowest.after and lowest.after.label == "control" and lowest.after_words == "90.00"
    assert "most healthy heads after" not in found  # alike


def test_perplexities_of_different_texts_are_not_put_in_order(tmp_path, seeded):
    other = told_record(tmp_path / "x", "other", 42, "Birds", [replace(story.started(), heldout_perplexity_stock=20.0)])
    arms = arms_of([*seeded, other])
    assert not comparable(arms) and comparable(arms_of(seeded))
    assert not {"lowest held-out perplexity kept"} & {one.label for one in extremes(arms)}


def test_every_arm_on_every_text(tmp_path):
    """One arm is trained on bible.txt and watches birds.txt, the other the other way round."""

    def run(arm: str, source: str, watch: str, stock: float, other: float) -> Record:
        began = replace(
            story.started(), corpus=[replace(story.SOURCE, source=source)], heldout_perplexity_stock=stock,
            perplexity_stock={f"{watch} (held out)": other},
        )  # fmt: skip
        after = story.ended(heldout_perplexity=stock / 2, perplexity_after={f"{watch} (held out)": other + 5})
        return told_record(tmp_path, arm, 42, "Birds", [began, story.cut(), story.check(40, stock / 2), after])

    found = text_matrix(
        arms_of([run("a", "bible.txt", "birds.txt", 80.0, 60.0), run("b", "birds.txt", "bible.txt", 60.0, 80.0)])
    )
    assert found.texts == ["bible.txt (held out)", "birds.txt (held out)"]
    assert [cell.low for cell in found.stock] == [80.0, 60.0] == [cell.high for cell in found.stock]
    assert [[cell.mean for cell in row] for row in found.after] == [[40.0, 65.0], [85.0, 30.0]]


def test_patients_stand_in_one_table(tmp_path):
    plain_ = told_record(tmp_path, "float32", 42, "Family", [])
    loaded = replace(story.LOADED, dtype="bfloat16")
    created = replace(story.CREATED, protocol="Family", arm="bfloat16")
    other = build(read_chart(story.tell(tmp_path / "b", [created, loaded, story.diagnosed()], keep_record=False)))
    arms = arms_of([plain_, other, plain_])
    first, second = patients_of(arms)
    assert (first.name, first.sick, first.heads, first.band) == ("float32", 5, 12, (2, 3))
    assert first.sick_rates == pytest.approx([0, 0, 2 / 3, 1]) and first.band_rate == 0.3
    assert second.dtype == "bfloat16"
    text = arms_text([plain_, other])
    (row,) = [line for line in text.splitlines() if line.startswith("float32") and "H2–H3" in line]
    assert row.split()[:7] == ["float32", "3", "×", "4", "5", "41.7", "H2–H3"]


def test_text_for_a_terminal_of_80_columns(tmp_path, seeded):
    long = run_of(tmp_path, "an arm with a name as long as can be \x1b[1m"[:40], 42, (140.0, 100.0, 60.5, 70.0))
    text = arms_text([*seeded, long])
    assert max(map(len, text.splitlines())) <= 80 and "\x1b" not in text
    assert text.startswith("mean ± standard deviation over up to 3 seeds; without ± where all are alike")
    assert "alike in all: targets 2; healthy before 6; working, stock (nats) 0.0300;" in text
    (row,) = [line for line in text.splitlines() if line.startswith("cut ") and "140.00" in line]
    assert row.split()[:5] == ["cut", "140.00", "63.00", "±", "3.00"]
    assert "cut: 2 of 2 targets woken at the cut" in text
    assert arms_text([]) == ""


def test_a_wide_table_goes_on_in_a_block_below():
    rows = [[f"arm {i}", *[f"{i}{j}" * 6 for j in range(5)]] for i in range(2)]
    text = table_text(["", *(f"figure {j}" for j in range(5))], rows, width=50)
    blocks = text.split("\n\n")
    assert len(blocks) == 2 and max(map(len, text.splitlines())) <= 50
    assert all([line.split()[0] for line in block.splitlines()[1:]] == ["arm", "arm"] for block in blocks)
    assert [word for word in text.split() if word.startswith("0") and len(word) == 12] == rows[0][1:]
