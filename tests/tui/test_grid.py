import pytest

from engine.heads import Thresholds
from tui.grid import Pitch, choose_pitch, pane
from tui.palette import EDGES, LEVELS, level, plain, token


@pytest.mark.parametrize(
    ("layers", "heads", "columns", "rows", "pitch"),
    [
        (24, 16, 32, 12, Pitch(2, 2)),  # BLOOM-1b7 at 80×24
        (24, 16, 32, 24, Pitch(2, 1)),
        (30, 32, 32, 20, Pitch(1, 2)),
        (70, 112, 224, 70, Pitch(2, 1)),
        (70, 112, 200, 40, Pitch(1, 2)),
        (6, 8, 32, 12, Pitch(4, 1, 2)),
        (6, 8, 32, 11, Pitch(4, 1)),
        (70, 112, 30, 12, Pitch(1, 2)),  # does not fit at all: it scrolls
    ],
)
def test_the_largest_cells_that_fit_are_taken(layers: int, heads: int, columns: int, rows: int, pitch: Pitch) -> None:
    assert choose_pitch(layers, heads, columns, rows) == pitch


def test_the_limits_of_the_classes_are_limits_of_colours() -> None:
    t = Thresholds()
    assert t.bos_sink in EDGES and t.dead in EDGES
    assert level(t.bos_sink) == 3 and level(t.bos_sink + 1e-6) == 4  # a sink is what lies over the limit
    assert level(t.dead) == 6 and level(0.951) == 7
    assert level(0.0) == 0 and len(LEVELS) == 8


def test_luminance_only_rises_along_the_ramp() -> None:
    def luminance(colour: int) -> float:
        steps = (0, 95, 135, 175, 215, 255)
        red, green, blue = (colour - 16) // 36, (colour - 16) // 6 % 6, (colour - 16) % 6
        return 0.2126 * steps[red] + 0.7152 * steps[green] + 0.0722 * steps[blue]

    levels = [luminance(colour) for colour in LEVELS]
    assert levels == sorted(levels) and len(set(levels)) == len(levels)
    assert levels[4] - levels[3] > 25  # sick against healthy is seen in grey too


def test_text_from_outside_is_made_harmless() -> None:
    assert plain("a\x1b[31mb\nc") == "a·[31mb·c"
    assert plain("👩\u200d🔬\ufe0f") == "👩·🔬·"
    assert plain("x" * 300, 10) == "x" * 9 + "…"
    assert token("\n") == '"\\n"' and token("The") == '"The"'


@pytest.mark.parametrize(
    ("layers", "heads", "columns", "rows", "pitch"),
    [
        (24, 16, 32, 12, Pitch(2, 2)),  # a column for each of the two layers
        (30, 32, 32, 16, Pitch(1, 1)),  # one column cannot hold two signs: it scrolls
        (24, 16, 32, 24, Pitch(2, 1)),
    ],
)
def test_where_every_head_has_a_sign_two_layers_share_a_row_only_side_by_side(
    layers: int, heads: int, columns: int, rows: int, pitch: Pitch
) -> None:
    assert choose_pitch(layers, heads, columns, rows, signs=True) == pitch


def test_the_grid_moves_by_whole_panes_and_never_past_its_end() -> None:
    assert pane(0, 31, 32, 112) == 0  # still on the screen
    assert pane(0, 32, 32, 112) == 32 and pane(32, 31, 32, 112) == 0
    assert pane(64, 96, 32, 112) == 80  # the last pane ends with the last head
    assert pane(7, 3, 40, 16) == 0  # all of it fits
    first = 0
    moves = 0
    for at in range(112):
        found = pane(first, at, 30, 112)
        assert found <= at < found + 30 and 0 <= found <= 82
        moves += found != first
        first = found
    assert moves <= 4
