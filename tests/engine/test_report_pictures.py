import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from engine.analysis import analyse
from engine.heads import Head, Thresholds
from engine.record import load
from engine.report.curve import Curve, curve_picture
from engine.report.drifting import columns_picture, zones_picture
from engine.report.grid import change_grid, head_grid
from engine.report.histogram import counts, histogram
from engine.report.svg import luminance, ramp
from tests.engine import story
from tests.engine.story import AFTER, STOCK
from tests.engine.test_report import curved

SVG = "{http://www.w3.org/2000/svg}"


def drawn(svg: str) -> ElementTree.Element:
    return ElementTree.fromstring(svg)


def test_the_ramp_only_gets_lighter_and_goes_from_blue_to_orange():
    colours = [ramp(i / 200) for i in range(201)]
    lights = [luminance(colour) for colour in colours]
    assert all(a < b for a, b in pairwise(lights))
    assert colours[0][2] > colours[0][0] and colours[-1][0] > colours[-1][2]
    assert ramp(-1) == colours[0] and ramp(2) == colours[-1]


def test_luminance_is_that_of_the_standard():
    assert luminance((255, 255, 255)) == pytest.approx(1)
    assert luminance((0, 0, 0)) == 0
    assert luminance((119, 119, 119)) == pytest.approx(0.1845, abs=1e-4)


def test_a_grid_has_a_cell_per_head_and_a_cross_per_target():
    grid = drawn(head_grid(AFTER, {Head(1, 2), Head(1, 3)}, "after <pass> 1", Thresholds()))
    cells = grid.findall(f"{SVG}g")
    assert len(cells) == 12
    told = [cell.find(f"{SVG}title").text for cell in cells if cell.find(f"{SVG}path") is not None]
    assert told == ["L1-H2 0.050, target", "L1-H3 0.040, target"]
    words = [text.text for text in grid.findall(f"{SVG}text")]
    assert words[0] == "after <pass> 1"
    assert {"L0", "L1", "L2", "H0", "H2", "0.5", "0.95", "× target"} <= {*words}


def test_layers_are_rows_and_head_indices_columns():
    cells = drawn(head_grid(STOCK, (), "stock", Thresholds())).findall(f"{SVG}g/{SVG}rect")
    xs, ys = [cell.get("x") for cell in cells], [cell.get("y") for cell in cells]
    assert len(set(xs[:4])) == 4 and len(set(ys[:4])) == 1
    assert len({*ys}) == 3 and float(ys[0]) < float(ys[4]) < float(ys[8])
    assert cells[0].get("fill") == cells[4].get("fill") != cells[7].get("fill")


def test_labels_of_a_large_grid_do_not_run_into_each_other():
    grid = drawn(head_grid([[0.1] * 64] * 80, (), "large", Thresholds()))
    tops = [t for t in grid.findall(f"{SVG}text") if re.fullmatch(r"H\d+", t.text)]
    places = [float(t.get("x")) for t in tops]
    assert 4 <= len(places) <= 32
    assert all(b - a >= 20 for a, b in pairwise(places))
    assert float(grid.get("width")) < 900 and float(grid.get("height")) < 900


ZONE = ((1, 2), (2, 3))


def test_the_zone_is_outlined(tmp_path):
    targets = {Head(1, 2), Head(2, 3)}
    plain = drawn(head_grid(AFTER, targets, "after", Thresholds()))
    grid = drawn(head_grid(AFTER, targets, "after", Thresholds(), ZONE))
    assert plain.find(f"{SVG}rect[@class='zone']") is None
    line = grid.find(f"{SVG}rect[@class='zone']")
    cells = grid.findall(f"{SVG}g/{SVG}rect")
    first, last = cells[4 + 2], cells[2 * 4 + 3]
    for edge, length in (("x", "width"), ("y", "height")):
        start, end = float(line.get(edge)), float(line.get(edge)) + float(line.get(length))
        assert start <= float(first.get(edge)) < start + 2
        assert end - 2 < float(last.get(edge)) + float(last.get(length)) <= end


def test_a_change_is_blue_where_it_fell_and_marks_what_drifts():
    grid = drawn(change_grid(STOCK, AFTER, {Head(1, 2), Head(1, 3)}, "change", Thresholds(), ZONE))
    told = {cell.find(f"{SVG}title").text: cell for cell in grid.findall(f"{SVG}g")}
    assert {"L1-H2 -0.650, target", "L1-H3 -0.930, target", "L2-H2 +0.070, drifting", "L2-H0 +0.060, drifting"} <= {
        *told
    }
    assert "L1-H0 +0.010" in told and "L0-H0 +0.000" in told  # moved by less than 0.05, and not at all
    assert [name for name, cell in told.items() if cell.find(f"{SVG}circle") is not None] == [
        "L2-H0 +0.060, drifting",
        "L2-H2 +0.070, drifting",
    ]
    colours = {name: cell.find(f"{SVG}rect").get("fill") for name, cell in told.items()}
    light = {name: luminance(tuple(bytes.fromhex(colour[1:]))) for name, colour in colours.items()}
    still = light["L0-H0 +0.000"]
    assert light["L1-H3 -0.930, target"] < light["L1-H2 -0.650, target"] < still < light["L2-H2 +0.070, drifting"]


def test_every_head_is_in_one_bin_of_the_histogram():
    assert sum(counts(STOCK)) == sum(counts(AFTER)) == 12
    # 0.10 to 0.15 begins above 0.10: what lies on an edge is below it, as with the classes
    assert counts([[0.0, 0.05, 0.10, 0.100001, 0.5, 0.500001, 0.55, 0.95, 0.950001, 1.0]]) == (
        [2, 1, 1, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 1, 2]
    )


def test_the_histogram_has_bars_for_both_states():
    picture = drawn(histogram([("stock", STOCK), ("after <pass> 1", AFTER)], "mass", Thresholds()))
    before, after = picture.findall(f"{SVG}g")
    assert after.find(f"{SVG}title").text == "after <pass> 1"
    assert [b.find(f"{SVG}title").text for b in before.findall(f"{SVG}rect")] == [
        "0.05 to 0.10: 3",
        "0.15 to 0.20: 3",
        "0.25 to 0.30: 1",
        "0.50 to 0.55: 1",
        "0.55 to 0.60: 1",
        "0.65 to 0.70: 1",
        "0.95 to 1.00: 2",
    ]
    tallest = max(before.findall(f"{SVG}rect"), key=lambda bar: float(bar.get("height")))
    assert float(tallest.get("height")) == pytest.approx(
        3 * float(before.findall(f"{SVG}rect")[2].get("height")), abs=0.1
    )


def test_drift_by_zone_and_by_column(tmp_path):
    record = load(story.tell(tmp_path / "story", curved()))
    found = analyse(record, record.passes[0])
    picture = drawn(zones_picture(found, "drift"))
    (line,) = picture.findall(f"{SVG}polyline")  # there are no in-band frozen heads
    assert len(line.get("points").split()) == 5
    assert {"outside (10 heads)", "early part", "best"} <= {text.text for text in picture.findall(f"{SVG}text")}
    columns = drawn(columns_picture(found.columns, (2, 3), "columns")).findall(f"{SVG}g")
    assert [column.find(f"{SVG}title").text for column in columns] == [
        "H0: 0.0100 to 0.0100, plateau",
        "H1: 0.0000 to 0.0000, plateau",
        "H2*: 0.0100 to 0.0400, rising",
        "H3*: 0.0000 to 0.0000, plateau",
    ]
    colours = [column.find(f"{SVG}polyline").get("stroke") for column in columns]
    assert colours[0] == colours[1] == colours[3] != colours[2]  # H2 spreads


def test_many_columns_stand_in_rows(tmp_path):
    record = load(story.tell(tmp_path / "story", curved()))
    many = analyse(record, record.passes[0]).columns * 28
    picture = drawn(columns_picture(many, (0, 0), "columns"))
    assert len(picture.findall(f"{SVG}g")) == 112
    assert float(picture.get("width")) < 760


CURVE = Curve([(1, 4.9), (2, 4.8)], [(0, 132.89), (20, 70.0), (40, 55.2)], 128.98, (40, 55.2), 40)


def test_a_curve_has_both_lines_the_stock_line_and_the_best_point():
    picture = drawn(curve_picture(CURVE, "Pass 1"))
    lines = picture.findall(f"{SVG}polyline")
    assert [len(line.get("points").split()) for line in lines] == [2, 2, 3]
    heights = [point.split(",")[1] for point in lines[0].get("points").split()]
    assert heights[0] == heights[1] and lines[0].get("stroke-dasharray") == "6 4"
    words = [text.text for text in picture.findall(f"{SVG}text")]
    assert {"held-out, stock 128.98", "best 55.20 at step 40", "optimizer step", "60", "80", "100"} <= {*words}


def test_lower_perplexity_is_lower_in_the_picture():
    held_out = drawn(curve_picture(CURVE, "x")).findall(f"{SVG}polyline")[2]
    heights = [float(point.split(",")[1]) for point in held_out.get("points").split()]
    assert heights[0] < heights[1] < heights[2]


def test_a_long_training_is_thinned_out_to_its_means():
    long = Curve([(n, 2.0 + n % 2) for n in range(1, 4001)], [(0, 20.0)], 10.0, None, 4000)
    training = drawn(curve_picture(long, "x")).findall(f"{SVG}polyline")[1]
    points = training.get("points").split()
    assert len(points) == 200
    assert len({point.split(",")[1] for point in points}) == 1  # each the mean of as many 2s as 3s


@pytest.mark.parametrize("wild", [1e308, 1e6, 1.0])
@pytest.mark.parametrize("steps", [1, 3, 40, 100_000])
def test_a_wild_curve_stays_in_its_picture(wild, steps):
    told = Curve([(1, 900.0)], [(0, wild), (1, 12.0)], 11.5, (1, 12.0), steps)
    svg = curve_picture(told, "x")
    assert not re.search(r"\b(nan|inf)\b", svg)
    for line in drawn(svg).findall(f"{SVG}polyline"):
        for point in line.get("points").split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= 680 and 0 <= y <= 320
