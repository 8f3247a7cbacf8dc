"""What the painter sends must leave a terminal with the same cells as sending everything."""

import random

import pyte
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from tui.painter import Painter

WIDTH, HEIGHT = 24, 4
STYLES = [
    Style(),
    Style(bold=True, color=Color.from_ansi(214)),
    Style(bgcolor=Color.from_ansi(25), color=Color.parse("#ffffff")),
    Style(reverse=True, underline=True),
]


def strip(text: str, style: Style = STYLES[0]) -> Strip:
    return Strip([Segment(text, style)])


def terminal() -> tuple[pyte.Screen, pyte.Stream]:
    screen = pyte.Screen(WIDTH, HEIGHT)
    return screen, pyte.Stream(screen)


def seen(screen: pyte.Screen, row: int) -> list[tuple[object, ...]]:
    """A row as eyes see it: a space has no colour of its own."""
    cells = [screen.buffer[row][x] for x in range(WIDTH)]
    return [
        (c.data, c.bg, c.underscore, c.reverse, *((c.fg, c.bold) if c.data != " " or c.underscore or c.reverse else ()))
        for c in cells
    ]


def test_any_change_shows_as_if_the_whole_screen_had_been_sent() -> None:
    rng = random.Random(7)
    (screen, stream), painter = terminal(), Painter("256")
    painter.resize(WIDTH, HEIGHT)
    content = [[(" ", STYLES[0])] * WIDTH for _ in range(HEIGHT)]
    for _ in range(300):
        row, start = rng.randrange(HEIGHT), rng.randrange(WIDTH)
        for column in range(start, min(WIDTH, start + rng.randrange(1, 9))):
            content[row][column] = (rng.choice("ab▀× "), rng.choice(STYLES))
        pieces = [(y, 0, Strip([Segment(sign, style) for sign, style in content[y]])) for y in range(HEIGHT)]
        stream.feed(painter.update(iter(pieces)))
        whole, whole_stream = terminal()
        full = Painter("256")
        full.resize(WIDTH, HEIGHT)
        whole_stream.feed(full.update(iter(pieces)))
        for y in range(HEIGHT):
            assert seen(screen, y) == seen(whole, y)


def test_what_did_not_change_is_not_sent() -> None:
    painter = Painter("256")
    painter.resize(WIDTH, HEIGHT)
    painter.update(iter([(0, 0, strip("the same words"))]))
    assert painter.update(iter([(0, 0, strip("the same words"))])) == ""
    assert painter.update(iter([(0, 0, strip("the sane words"))])) == "\x1b[1;7H\x1b[0mn\x1b[m"


def test_signs_two_columns_wide_come_and_go() -> None:
    (screen, stream), painter = terminal(), Painter("256")
    painter.resize(WIDTH, HEIGHT)
    for text in ("a漢字b", "漢字ab", "abcdef", "a字cdef", "漢字語"):
        stream.feed(painter.update(iter([(1, 2, strip(f"{text:<8}"))])))
        assert "".join(screen.buffer[1][x].data for x in range(2, WIDTH)).strip() == text.strip()


def test_colours_are_sent_as_numbers_of_the_cube_and_not_at_all_without_colours() -> None:
    style = Style(bgcolor=Color.parse("#005f87"), bold=True)
    for system, wanted in (("256", "\x1b[1;1H\x1b[0;1;48;5;24mx\x1b[m"), (None, "\x1b[1;1H\x1b[0;1mx\x1b[m")):
        painter = Painter(system)
        painter.resize(WIDTH, HEIGHT)
        assert painter.update(iter([(0, 0, strip("x", style))])) == wanted


def test_after_forgetting_everything_is_sent_again() -> None:
    painter = Painter("256")
    painter.resize(WIDTH, HEIGHT)
    first = painter.update(iter([(0, 0, strip("words"))]))
    painter.forget()
    painter.resize(WIDTH, HEIGHT)
    assert painter.update(iter([(0, 0, strip("words"))])) == first
