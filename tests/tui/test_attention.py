from engine.events import Attention
from engine.heads import Head
from tests.tui.story import STOCK
from tui.attention import bar, picture, share, text_lines

SEEN = Attention(
    stage="stock", layer=16, head=10, text="two", tokens=["The", " lamp", "\x1b[31m", "\n"],
    top=[[[0, 1.0]], [[0, 0.9], [1, 0.1]], [[0, 0.7], [1, 0.3]], [[1, 0.6], [0, 0.4]]], received=[0.75, 0.25, 0.0, 0.0],
)  # fmt: skip


def test_each_token_is_a_row_with_what_it_receives_and_where_it_looks() -> None:
    lines = [line.plain for line in picture(SEEN, 80)]
    assert len(lines) == 4
    assert '"The"' in lines[0] and "████████████ .75" in lines[0]  # the most received fills the bar
    assert "████ " in lines[1] and "█████" not in lines[1]  # a third of it
    assert lines[3].index('" lamp" .60') < lines[3].index('"The" .40')  # heaviest first


def test_what_does_not_fit_is_left_out_whole() -> None:
    for width in range(30, 81):
        for line in picture(SEEN, width):
            assert line.cell_length <= max(width, 30)
            assert line.plain.rstrip()[-1] in "→0123456789"


def test_a_token_with_escape_codes_is_spelled_out() -> None:
    assert "\x1b" not in "".join(line.plain for line in picture(SEEN, 80))
    assert '"\\x1b[31m"' in picture(SEEN, 80)[2].plain and '"\\n"' in picture(SEEN, 80)[3].plain


def test_bars_and_shares() -> None:
    assert (bar(1.0, 3), bar(0.5, 3), bar(0.001, 3), bar(0.0, 3)) == ("███", "█▌", "▌", "")
    assert (share(1.0), share(0.62), share(0.004)) == ("1.0", ".62", ".00")


def test_the_mass_on_each_text_names_it_and_marks_the_sick_ones() -> None:
    lines = [line.plain for line in text_lines(Head(16, 10), STOCK, 37, chosen=1)]
    assert [line[0] for line in lines] == [" ", ">", " "]
    assert "one" in lines[0] and "   64 0.50 " in lines[0]  # on the limit is not over it
    assert "0.52!" in lines[1] and "0.54!" in lines[2]
