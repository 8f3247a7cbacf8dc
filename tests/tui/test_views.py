from dataclasses import replace

from engine.heads import Head
from tests.tui.story import BORDER, DEAD, STOCK, T, mass_at, rows
from tui.palette import level
from tui.views import (
    CLASS,
    CONTRIBUTION,
    DRIFT,
    ENTROPY,
    MASS,
    VIEWS,
    contribution_level,
    drift_level,
    entropy_level,
    value_of,
    view,
)  # fmt: skip


def test_the_limits_of_the_classes_and_of_drift_are_limits_of_colours() -> None:
    assert entropy_level(T.low_entropy) == 3 and entropy_level(T.low_entropy - 1e-9) == 4  # warm from 4 on
    assert entropy_level(0.0) == 7 and entropy_level(9.0) == 0
    assert drift_level(T.drift) == drift_level(-T.drift) == 3 and drift_level(T.drift + 1e-9) == 4
    assert drift_level(0.0) == 0 and drift_level(-0.9) == 7
    assert contribution_level(-1.0) == contribution_level(0.0) == 0 and contribution_level(2.0) == 7


def test_a_class_is_told_by_a_letter_and_not_by_colour_alone() -> None:
    shown = view(CLASS, STOCK.bos_mass, STOCK, STOCK)
    assert shown.signs is not None
    letters = {head: shown.signs[head.layer][head.head] for head in STOCK.heads()}
    assert {head for head, letter in letters.items() if letter == "D"} == DEAD
    assert {head for head, letter in letters.items() if letter == "e"} == {Head(0, 0), Head(0, 1)}
    assert letters[BORDER] == "s" and letters[Head(23, 0)] == " "
    words = " ".join(line.plain for line in shown.legend)
    assert all(name in words for name in ("healthy", "e  low_entropy", "s  bos_sink", "D  dead"))


def test_drift_is_signed_where_it_is_over_the_limit() -> None:
    shown = view(DRIFT, mass_at(30), STOCK, STOCK)
    assert shown.signs is not None
    assert shown.signs[4][9] == "+"  # L4-H9 rose by 0.08
    assert shown.signs[5][9] == "-"  # a target fell from 0.60 to 0.10
    assert shown.signs[0][0] == " " and shown.levels[0][0] == drift_level(0.02)
    assert value_of(DRIFT, Head(4, 9), mass_at(30), STOCK, None) == "+0.080 since stock"


def test_what_was_not_measured_is_said_and_the_mass_is_shown() -> None:
    missing = view(CONTRIBUTION, STOCK.bos_mass, STOCK, STOCK)
    assert missing.missing and "not measured" in missing.legend[0].plain
    assert missing.levels[16][10] == level(0.52)
    measured = rows(lambda layer, head: -0.001 if head == 3 else 0.02 * head)
    shown = view(CONTRIBUTION, STOCK.bos_mass, STOCK, STOCK, measured)
    assert not shown.missing and shown.signs is not None
    assert shown.signs[7][3] == "-" and shown.signs[7][4] == " "
    assert shown.levels[7][2] == 5  # 0.04 nats: over 0.03, not over 0.1
    assert value_of(CONTRIBUTION, Head(7, 2), STOCK.bos_mass, STOCK, measured) == "+0.0400 nats when silent"


def test_every_view_has_a_legend_of_three_lines_within_the_grid_s_side() -> None:
    measured = rows(lambda layer, head: 0.01)
    other = replace(STOCK, entropy=rows(lambda layer, head: 1.0))
    for name in VIEWS:
        for contributions in (None, measured):
            shown = view(name, STOCK.bos_mass, other, STOCK, contributions, since="pass 12")
            assert len(shown.legend) == 3
            assert all(line.cell_length <= 37 for line in shown.legend), name
    assert view(MASS, STOCK.bos_mass, STOCK, STOCK).signs is None  # half blocks
    assert view(ENTROPY, STOCK.bos_mass, STOCK, STOCK).levels[0][0] == entropy_level(0.30)
