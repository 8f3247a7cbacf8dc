from tests.tui.story import STOCK
from tui.histogram import BARS, bins, columns, histogram, rate_lines


def test_a_value_on_an_edge_belongs_below_it_as_a_head_on_a_limit_is_not_over_it() -> None:
    found = bins([0.0, 0.50, 0.51, 0.95, 0.951, 1.0])
    assert [index for index, n in enumerate(found) if n] == [0, 9, 10, 18, 19]
    assert found[19] == 2 and sum(found) == 6


def test_bars_are_eighths_and_what_is_not_zero_shows() -> None:
    assert columns([0.0, 0.001, 0.5, 1.0], 2) == [f"   {BARS[8]}", f" {BARS[1]}{BARS[8]}{BARS[8]}"]
    assert columns([0.25], 1, top=1.0) == [BARS[2]]


def test_the_histogram_counts_every_head_once_and_marks_the_limits() -> None:
    lines = [line.plain for line in histogram(STOCK, 4)]
    assert lines[0] == " BOS mass of 384 heads"
    counted = [int(word) for line in lines[5:7] for word in line.split()]
    assert sorted(counted) == [1, 3, 102, 278]  # 0.52; dead; 0.60; 0.20 (two of them low-entropy)
    for line in lines[1:5]:
        assert line[1 + 3 * 10] == "|" and line[1 + 3 * 19] == "|"  # before the bins that begin at 0.50 and 0.95


def test_the_band_is_marked_below_its_head_indices() -> None:
    lines = [line.plain for line in rate_lines(STOCK, 76)]
    assert lines[0] == " sick layers per head index: band H9–H15, over 30 % of layers"
    marks = next(line for line in lines if "=" in line)
    assert (marks.index("="), marks.rindex("=")) == (7 + 3 * 9, 7 + 3 * 15 + 1)  # three columns a head
    labels = lines[lines.index(marks) + 1]
    assert labels.index("H8") == 7 + 3 * 8


def test_many_heads_are_broken_into_rows_that_fit() -> None:
    from tests.tui.large import STOCK

    lines = [line.plain for line in rate_lines(STOCK, 76)]
    assert all(len(line) <= 76 for line in lines)
    assert sum("=" in line for line in lines) == 2  # the band H60 to H90 goes on in the second row
    assert any(line.strip().startswith("H72") for line in lines)
