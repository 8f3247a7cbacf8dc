import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.curves import Point, shape, trajectory

whole = st.integers(-1000, 1000)
curves = st.lists(whole, min_size=3, max_size=30)
OPPOSITE = {
    "rising": "falling",
    "falling": "rising",
    "plateau": "plateau",
    "oscillating": "oscillating",
    "mixed": "mixed",
}


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([0, 1, 2, 3], "rising"),
        ([0, 10, 10, 10, 10], "rising"),  # at once, and then it stays
        ([0, 10, 10.1, 9.9, 10.05], "rising"),  # its wiggles are a hundredth of its range
        ([9, 5, 4, 4.5, 3], "falling"),
        ([7, 7, 7], "plateau"),
        ([0, 4, 0, 4, 0], "oscillating"),  # three turns
        ([0, 4, 0, 4], "mixed"),  # two
        ([100, 60, 50, 48, 70, 110], "mixed"),  # falls, then rises by as much
        ([0, 0, 9, 0, 0], "mixed"),  # one outlier is no trend
        ([1, 2], None),
        ([], None),
    ],
)
def test_what_a_curve_is_called(values, found):
    assert shape(values) == found


def test_the_tolerance_is_in_the_unit_of_the_values():
    noisy = [0.031, 0.030, 0.032, 0.0305]
    assert shape(noisy, 0.0021) == "plateau"
    assert shape([1000 * value for value in noisy], 2.1) == "plateau"
    assert shape([0.0, 0.1, 0.2], 0.5) == "plateau" and shape([0.0, 0.1, 0.2], 0.05) == "rising"


def test_noise_does_not_hide_a_trend():
    up = [step + (-1) ** step * 1.5 for step in range(20)]  # each second value lies below the one before
    assert shape(up) == "rising" and shape(up[::-1]) == "falling"


@given(st.lists(whole, min_size=3, max_size=30).map(sorted))
def test_what_never_falls_rises_or_stays(values):
    assert shape(values) == ("rising" if values[0] < values[-1] else "plateau")


@given(curves)
def test_backwards_a_rise_is_a_fall(values):
    assert shape(values[::-1]) == OPPOSITE[shape(values)]


@given(curves)
def test_upside_down_a_rise_is_a_fall(values):
    assert shape([-value for value in values]) == OPPOSITE[shape(values)]


@given(curves, whole, st.sampled_from([0.25, 0.5, 2.0, 1024.0]))
def test_neither_unit_nor_zero_point_matters(values, shift, unit):
    assert shape([unit * (value + shift) for value in values]) == shape(values)


@given(curves, st.floats(2000, 1e6))
def test_within_the_tolerance_all_is_a_plateau(values, tolerance):
    assert shape(values, tolerance) == "plateau"


@given(st.lists(st.floats(), max_size=20))
def test_any_figures_have_a_shape_or_none(values):
    finite = [value for value in values if math.isfinite(value)]
    assert (shape(values) is None) == (len(finite) < 3)


def test_a_trajectory_knows_its_ends_and_its_extremes():
    found = trajectory([(0, 5.0), (10, 2.0), (20, None), (30, 2.0), (40, math.inf), (50, 3.0)])
    assert found is not None
    assert (found.first, found.last) == (Point(0, 5.0), Point(50, 3.0))
    assert (found.lowest, found.highest) == (Point(10, 2.0), Point(0, 5.0))  # the earliest of the two lowest
    assert found.change == -2.0 and found.at(30) == 2.0 and found.at(20) is None
    assert trajectory([(0, None), (1, math.nan)]) is None
