import math
from itertools import pairwise

import pytest

from tui.chartlines import LABEL, Curves, cell, line, number, plot, scale, thinned


def rendered(curves: Curves, width: int = 27, height: int = 6, glyphs: str = "ascii") -> list[str]:
    return ["".join(text for text, _ in pieces) for pieces in plot(curves, width, height, glyphs)]


@pytest.mark.parametrize("glyphs", ["braille", "block", "ascii"])
def test_every_line_fills_its_width_and_only_known_signs_are_used(glyphs: str) -> None:
    curves = Curves(
        steps=100,
        stock=30.0,
        train=[(step, 3.5 - step / 100) for step in range(1, 80)],
        heldout=[(0, 36.0), (25, 30.0), (50, 28.0), (75, 29.0)],
        best=(50, 28.0),
    )
    lines = rendered(curves, 43, 8, glyphs)
    assert len(lines) == 8
    assert {len(text) for text in lines} == {43}
    drawn = set("".join(text[LABEL:] for text in lines[:-1]))
    if glyphs == "ascii":
        assert drawn <= set(" -.*o#")
    if glyphs == "block":
        assert drawn <= set(" -█▀▄o◆")


def test_the_curve_of_a_straight_fall_goes_from_the_top_left_to_the_bottom_right() -> None:
    # from e^3.0 to e^2.0 in nats, exactly on the scale's bounds; 20 columns and 5 rows of ASCII
    curves = Curves(steps=19, stock=math.e**3, heldout=[(step, math.exp(3 - step / 19)) for step in range(20)])
    lines = rendered(curves)
    assert lines[0][LABEL] == "o" and lines[4][-1] == "*"
    assert lines[0][:5] == "20.09" and lines[4][:5].strip() == "7.39"
    assert lines[5] == " " * LABEL + "0" + " " * 17 + "19"


def test_the_stock_line_is_level_and_the_best_point_is_marked() -> None:
    curves = Curves(steps=19, stock=math.e**2, heldout=[(0, math.e**3), (19, math.e**2)], best=(19, math.e**2))
    lines = rendered(curves)
    assert lines[4][LABEL:] == "-" * 17 + "**#"  # within half a row of its end from column 17 on
    roles = [role for text, role in plot(curves, 27, 6, "ascii")[4] if "#" in text]
    assert roles == ["best"]


def test_braille_sets_the_dot_that_is_meant() -> None:
    assert cell({"train": {(0, 0)}}, "braille") == ("⠁", "train")
    assert cell({"train": {(3, 1)}}, "braille") == ("⢀", "train")
    assert cell({"train": {(0, 0)}, "heldout": {(0, 1)}}, "braille") == ("⠉", "heldout")
    assert cell({"train": {(0, 0)}, "stock": {(0, 1)}}, "braille") == ("⠁", "train")


def test_a_line_connects_its_points_without_a_gap() -> None:
    dots = line([(0, 0), (3, 9), (10, 9)])
    assert all(max(abs(a[0] - b[0]), abs(a[1] - b[1])) == 1 for a, b in pairwise(dots))
    assert dots[0] == (0, 0) and dots[-1] == (10, 9)


def test_the_scale_is_rounded_outwards_so_that_it_stays_put() -> None:
    low, high = scale(Curves(steps=10, stock=math.exp(3.0), heldout=[(0, math.exp(3.44))]), [])
    assert (round(low, 6), round(high, 6)) == (3.0, 3.5)
    # one wild training column in forty is cut off, a held-out value never
    assert scale(Curves(steps=10, stock=math.exp(3.0)), [math.exp(3.2)] * 39 + [math.exp(9.0)])[1] < 3.5
    assert scale(Curves(steps=10, stock=math.exp(3.0), heldout=[(1, math.exp(9.0))]), [])[1] >= 9.0


def test_steps_of_one_column_become_their_geometric_mean() -> None:
    thin = thinned(Curves(steps=10, stock=1.0, train=[(4, 2.0), (5, 4.0), (10, 1.0)]), last_x=1)
    assert [(x, round(math.log(value), 6)) for x, value in thin] == [(0, 3.0), (1, 1.0)]


def test_a_loss_out_of_all_bounds_is_still_drawn() -> None:
    assert len(rendered(Curves(steps=10, stock=30.0, train=[(1, 1e300)], heldout=[(0, 1e308)]))) == 6


def test_numbers_take_at_most_five_signs() -> None:
    shown = [number(value) for value in (7.389, 99.999, 128.98, 54321.0, 1e308)]
    assert shown == ["7.39", "100.00", "129.0", "54321", "1e308"]
