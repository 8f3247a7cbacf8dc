from dataclasses import replace

import pytest

from engine import events
from engine.chart import PassChart
from engine.generation import Prompt, judge
from tests.tui import story
from tui.figures import source_name
from tui.screens.texts import broken, text_pairs
from tui.tables import column_rows, history, target_list, target_rows, working

N = len(story.TARGETS)


def measured() -> PassChart:
    """The story's pass, with every target measured by itself: nothing before, 0.002 more per target after."""
    chart = story.chart_of(iter([*story.beginning("s"), *story.operation(40), *story.ending()]))
    (pass_,) = chart.passes
    assert pass_.ended is not None
    pass_.started = replace(pass_.started, ablation_heads_stock=[0.0] * N)
    pass_.ended = replace(pass_.ended, ablation_heads_after=[0.0005] * 5 + [0.002] * (N - 5))
    return pass_


def test_each_target_is_told_with_woken_and_working_apart() -> None:
    pass_ = measured()
    lines = [line.plain for line in target_rows(pass_, story.STOCK, story.mass_at(40), [], 0.5)]
    assert len(lines) == N + 2
    stubborn = next(line for line in lines if str(story.STUBBORN) in line)
    assert "0.600 → 0.550" in stubborn and "sick" in stubborn and "+0.0020  working" in stubborn
    assert "woken" in lines[2] and "working" not in lines[2]  # awake, and worth nothing
    assert working(pass_) == (N - 5, N)


def test_an_older_journal_has_no_figures_of_single_heads() -> None:
    pass_ = story.chart_of(iter([*story.beginning("s"), *story.operation(40), *story.ending()])).passes[0]
    assert working(pass_) is None
    assert "not measured" in target_rows(pass_, story.STOCK, story.mass_at(40), [], 0.5)[-1].plain


def test_the_short_list_turns_by_pages_around_the_cursor() -> None:
    pass_ = measured()
    pages = set()
    for head in story.STOCK.heads():
        lines = [line.plain for line in target_list(pass_, story.STOCK, story.mass_at(40), [], head, 13)]
        assert len(lines) <= 13 and all(len(line) <= 40 for line in lines)
        pages.add(lines[1].split()[0].lstrip(">"))
        if head in story.TARGETS:
            assert any(line.startswith(f">{head} ") for line in lines)
    assert len(pages) <= -(-N // 12) + 1


def test_columns_are_followed_from_the_cut_to_the_last_check() -> None:
    pass_ = measured()
    lines = [line.plain for line in column_rows(pass_, story.T)]
    assert lines[0].split() == ["column", "cut", "step", "10", "step", "40"]
    assert lines[16].split() == ["H15", "0.0100", "0.0300", "0.0600", "spreads"]
    assert lines[1].split() == ["H0", "0.0100", "0.0200", "0.0200"]


def test_the_history_holds_every_check_what_was_set_and_the_notes() -> None:
    chart = story.chart_of(iter([*story.beginning("s"), *story.operation(20)]))
    for event in (
        events.Changed(number=1, step=20, values={"check_every": 5}), events.Note(text="saw [red]this[/red]\x1b[31m"),
    ):  # fmt: skip
        chart.add(story_entry(event))
    text = "\n".join(line.plain for line in history(chart, chart.passes[0]))
    assert "    10  38.05    32.00   104" in text  # 40 / e^0.05
    assert "from step 20 on: check_every 5" in text
    assert "2026-11-30 12:00:00  saw [red]this[/red]·[31m" in text


def story_entry(event: events.Event):  # type: ignore[no-untyped-def]
    from engine.journal import Entry

    return Entry(99, "2026-11-30T12:00:00.000+00:00", event)


def generated(stage: str, text: str) -> events.Generated:
    prompt = Prompt("lamp", "The lamp went out, and", "narrative", "en")
    return events.Generated(
        stage=stage, temperature=0.7, top_p=0.92, new_tokens=8, seed=42, continuations=[judge(prompt, text, 8)]
    )


def test_texts_stand_in_pairs_below_their_figures() -> None:
    assert "none yet: W lets" in text_pairs({}, 70, "W")[0].plain
    pairs = {
        "stock": generated("stock", "no no no no no no no no"),
        "pass-1": generated("pass-1", "the\nold man laughed."),
    }
    lines = [line.plain for line in text_pairs(pairs, 70, "W")]
    loop = next(line for line in lines if "longest loop" in line)
    assert loop.split()[-2:] == ["8", "0"]
    at = next(i for i, line in enumerate(lines) if "The lamp went out" in line)
    assert lines[at + 1].split()[0] == "stock" and "no no no" in lines[at + 1]
    assert lines[at + 2].split()[0] == "pass-1" and "the¶old man laughed." in lines[at + 2]


def test_generated_text_is_shown_not_obeyed_and_broken_to_the_width() -> None:
    lines = text_pairs({"stock": generated("stock", "[bold]x\x1b[31m\x07" * 20)}, 40, "W")
    assert all(line.cell_length <= 40 for line in lines)
    text = "".join(line.plain for line in lines)
    assert "\x1b" not in text and "\x07" not in text and "[bold]x·[31m·" in text.replace(" ", "")


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("the old man laughed", ["the old", "man", "laughed"]),
        ("the  old  man", ["the  old", "man"]),
        (" so unbelievable it is", [" so", "unbeliev", "able it", "is"]),
        ("12345678 12345678", ["12345678", "12345678"]),
        ("one¶two¶¶three", ["one¶", "two¶¶", "three"]),
        ("字字字字字", ["字字字字", "字"]),  # two columns each
        ("", [""]),
    ],
)
def test_texts_are_broken_between_words_and_only_longer_words_are_cut(text: str, rows: list[str]) -> None:
    assert broken(text, 8) == rows


def test_a_source_is_called_by_a_word():
    assert source_name("demo:heldout-austen.txt") == "austen"
    assert source_name("/data/books/emma.txt") == "emma"
    assert source_name("allenai/c4:en:validation:text") == "allenai/c4:en:validation:text"
