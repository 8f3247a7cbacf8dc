"""Drift on paper, in a model of two layers and three heads; L1-H2 is the target, L0-H2 in-band frozen."""

from engine.drift import Drift, ZoneDrift, column_means, drift, spreading, zone_drift
from engine.heads import Head, Thresholds

T = Thresholds()
STOCK = [[0.10, 0.20, 0.60], [0.10, 0.30, 0.90]]
AFTER = [[0.10, 0.26, 0.48], [0.13, 0.30, 0.05]]
TARGETS = frozenset({Head(1, 2)})
FROZEN = frozenset({Head(0, 2)})
OUTSIDE = frozenset({Head(0, 0), Head(0, 1), Head(1, 0), Head(1, 1)})


def test_drift_by_zone():
    # outside moved by 0, 0.06, 0.03 and 0: one of them by more than 0.05
    assert drift(STOCK, AFTER, (TARGETS, FROZEN, OUTSIDE), T) == Drift(
        outside=ZoneDrift(heads=4, drifting=1, mean=0.0225, worst=0.06, worst_head="L0-H1"),
        in_band_frozen=ZoneDrift(heads=1, drifting=1, mean=0.12, worst=0.12, worst_head="L0-H2"),
    )


def test_targets_do_not_count():
    found = drift(STOCK, AFTER, (TARGETS, FROZEN, OUTSIDE), T)
    assert found.outside.worst < 0.85 and found.in_band_frozen.worst < 0.85


def test_a_head_drifts_only_beyond_the_threshold():
    assert zone_drift([[0.25]], [[0.3125]], [Head(0, 0)], Thresholds(drift=0.0625)).drifting == 0
    assert zone_drift([[0.25]], [[0.3126]], [Head(0, 0)], Thresholds(drift=0.0625)).drifting == 1


def test_a_fall_is_drift_as_well_as_a_rise():
    assert zone_drift([[0.9]], [[0.1]], [Head(0, 0)], T) == ZoneDrift(1, 1, 0.8, 0.8, "L0-H0")


def test_no_heads_no_drift():
    assert zone_drift(STOCK, AFTER, [], T) == ZoneDrift(0, 0, 0.0, 0.0, "")


def test_columns_average_their_untouched_heads():
    # H0: (0 + 0.03) / 2, H1: (0.06 + 0) / 2, H2: only L0-H2 is untouched
    assert column_means(STOCK, AFTER, OUTSIDE | FROZEN) == [0.015, 0.03, 0.12]


def test_a_column_of_targets_only_has_no_mean():
    assert column_means(STOCK, AFTER, OUTSIDE) == [0.015, 0.03, None]


def test_columns_spread_when_their_mean_rises_beyond_the_threshold():
    # as in the paper: H13 0.046 to 0.070 and H15 0.083 to 0.154 spread, H9 is stable
    first, last = [0.030, 0.046, 0.083, None], [0.049, 0.070, 0.154, None]
    assert spreading(first, last, T) == [1, 2]


def test_a_column_that_falls_does_not_spread():
    assert spreading([0.2], [0.1], T) == []
