"""What the painter sends must leave a terminal with the same cells as sending everything."""

import ast
import random
from pathlib import Path

import pyte
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

import tui
from tui.painter import Painter
from tui.palette import ascii_of

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


def test_what_was_laid_out_for_a_larger_terminal_is_cut_off() -> None:
    painter = Painter("256")
    painter.resize(6, 2)
    pieces = [(0, 0, strip("abcdefgh")), (1, 4, strip("abcdefgh")), (1, 9, strip("abcdefgh")), (5, 0, strip("abc"))]
    assert painter.update(iter(pieces)) == "\x1b[1;1H\x1b[0mabcdef\x1b[2;5Hab\x1b[m"


def test_nothing_that_commands_a_terminal_gets_through() -> None:
    painter = Painter("256")
    painter.resize(WIDTH, HEIGHT)
    sent = painter.update(iter([(0, 0, strip("a\x1b[2Jb\u202ec\0\xa0d"))]))
    assert sent == "\x1b[1;1H\x1b[0ma[2Jbc d\x1b[m"


def test_sixteen_colours_are_chosen_by_hand_where_the_nearest_would_not_do() -> None:
    for number, wanted in ((24, "104"), (31, "46"), (172, "43"), (214, "103"), (221, "103"), (230, "107")):
        painter = Painter("standard")
        painter.resize(WIDTH, HEIGHT)
        style = Style(bgcolor=Color.from_rgb(*Color.from_ansi(number).get_truecolor()))
        assert painter.update(iter([(0, 0, strip(" ", style))])) == f"\x1b[1;1H\x1b[0;{wanted}m \x1b[m"


def test_greys_arrive_as_they_were_chosen() -> None:
    painter = Painter("256")
    painter.resize(WIDTH, HEIGHT)
    style = Style(color=Color.parse("#d0d0d0"))  # 8 + 10 × 20
    assert painter.update(iter([(0, 0, strip("x", style))])) == "\x1b[1;1H\x1b[0;38;5;252mx\x1b[m"


def test_in_ascii_every_sign_is_as_wide_as_before() -> None:
    (screen, stream), painter = terminal(), Painter("256", ascii_only=True)
    painter.resize(WIDTH, HEIGHT)
    sent = painter.update(iter([(0, 0, strip("a│×→…é漢b⣿▀ 95 %"))]))
    assert sent.isascii()
    stream.feed(sent)
    assert screen.display[0].rstrip() == "a|x>.e??b:# 95 %"


def test_every_sign_of_the_app_has_a_likeness_in_ascii() -> None:
    """Read off the source: all characters in strings that are not documentation."""
    drawn: dict[str, str] = {}
    for path in Path(tui.__file__).parent.rglob("*.py"):
        tree = ast.parse(path.read_text("utf-8"))
        documentation = {
            id(node.value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
                drawn |= dict.fromkeys(node.value, path.name)
    missing = {f"{sign} in {name}" for sign, name in drawn.items() if "?" in ascii_of(sign) and sign != "?"}
    assert not missing and "×" in drawn
