"""The window over a long text: what it shows, and what it asks for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from engine import events
from engine.errors import InputError
from engine.streaming import Arm, ArmFigures, Passage, Read
from tests.tui import story
from tests.tui.conftest import Idle, opened, settled, until
from tests.tui.test_screens import commands_of, whole
from tui.chartlines import LABEL
from tui.streaming import Wanted, first_wanted, passage_lines, read_wanted, table

HERE = Passage("demo:heldout-austen.txt", "ab" * 32, 1023, 256)
STOCK = {0: 60.0, 1: 41.0, 2: 40.5, 4: 40.2, 8: 40.0}
AFTER = {0: 51.0, 1: 50.6, 2: 50.4, 4: 50.2, 8: 50.0}


def side(by_anchors: dict[int, float], full: float) -> dict[Arm, ArmFigures]:
    found = {Arm("full"): ArmFigures(full, 20.0, 201_326_592)}
    found |= {Arm("anchors", n): ArmFigures(value, 40.0, 50_331_648) for n, value in by_anchors.items()}
    return found | {Arm("recomputed"): ArmFigures(by_anchors[0], 5.0, 0)}


BOTH: Read = {"stock": side(STOCK, 39.0), "pass-1": side(AFTER, 49.0)}


def streamed(read: Read, passage: Passage = HERE) -> Iterator[events.Event]:
    for stage, found in read.items():
        for arm, figures in found.items():
            yield events.Streamed(
                stage=stage, text=passage.text, text_sha256=passage.sha256, tokens=passage.tokens,
                window=passage.window, way=arm.kind, anchors=arm.anchors, **vars(figures),
            )  # fmt: skip


def drawn(read: Read, glyphs: str = "ascii", rows: int = 20) -> list[str]:
    return [line.plain for line in passage_lines(HERE, read, 75, rows, glyphs)]


@pytest.mark.parametrize("glyphs", ["braille", "block", "ascii"])
@pytest.mark.parametrize("read", [BOTH, {"stock": side(STOCK, 39.0)}, {"pass-2": side(AFTER, 49.0)}])
def test_all_of_it_fits_the_smallest_terminal(read: Read, glyphs: str) -> None:
    lines = drawn(read, glyphs)
    assert len(lines) == 20
    assert max(map(len, lines)) <= 75
    assert lines[0] == " demo:heldout-austen.txt: 767 tokens past a window of 256"


def test_stock_and_repaired_stand_side_by_side() -> None:
    rows = {line[:19].strip(): line[19:].split() for line in drawn(BOTH)[3:10]}
    assert rows["full attention"] == ["39.00", "20", "4.0", "49.00", "20", "4.0", "201", "MB"]
    assert rows["window alone"] == ["60.00", "40", "8.0", "51.00", "40", "8.0", "50", "MB"]
    assert rows["8 anchors + window"][:5] == ["40.00", "40", "8.0", "50.00", "40"]
    assert rows["window recomputed"] == ["60.00", "5", "1.0", "51.00", "5", "1.0", "–"]
    told = " ".join(" ".join(drawn(BOTH)).split())
    assert "with 8: stock 60.00 and 40.00 (+50.0 %), after pass 1 51.00 and 50.00 (+2.0 %)" in told
    assert "stock needs them and after pass 1 it does not" in told


def test_what_is_not_read_yet_is_a_dash_and_nothing_is_answered() -> None:
    read: Read = {"stock": {Arm("full"): ArmFigures(39.0, 20.0, 4_000)}, "pass-1": {}}
    assert [line.plain.split() for line in table(read)][-1] == ["full", "attention", "39.00", "20", "–", "4", "kB"]
    lines = drawn(read)
    assert "once the arms without and with them are done" in " ".join(" ".join(lines).split())
    assert len(lines) < 10  # no curve of one point


def test_the_curve_falls_where_the_perplexity_does() -> None:
    lines = drawn({"stock": side(STOCK, 39.0)})
    plotted = [line[LABEL:] for line in lines if line[LABEL - 1 : LABEL] == "|"]
    marks = sorted((column, row) for row, line in enumerate(plotted) for column, sign in enumerate(line) if sign == "o")
    assert [round(column * 8 / (75 - LABEL - 1)) for column, _ in marks] == [0, 1, 2, 4, 8]
    rows = [row for _, row in marks]
    assert rows[0] < rows[1] <= rows[-1]


def test_the_form_begins_with_what_suits_or_what_was_read_last(told: Any) -> None:
    chart = story.chart_of(story.beginning("s"))
    assert first_wanted(chart) == Wanted("demo:heldout-austen.txt", 256, 1024)
    chart = story.chart_of(iter([*story.beginning("s"), *streamed(BOTH, replace(HERE, text="b.txt", window=9))]))
    assert first_wanted(chart) == Wanted("b.txt", 9, 1024)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (("", "8", "20"), "name a text"),
        (("t", "1", "20"), "from 2 to the context of 64"),
        (("t", "65", "99"), "from 2 to the context of 64"),
        (("t", "8", "9"), "write a number from 10 on"),
        (("t", "8", "many"), "tokens are 'many'"),
    ],
)
def test_values_that_do_not_serve(given: tuple[str, str, str], why: str) -> None:
    with pytest.raises(InputError, match=why):
        read_wanted(*given, context=64)
    assert read_wanted("t", "8", "10", 64) == Wanted("t", 8, 10)


async def test_a_text_is_asked_for_followed_and_stopped(told: Any, workers: list[Idle]) -> None:
    session = told(until=40)
    async with opened(session) as pilot:
        await until(pilot, "perplexity")
        await pilot.press("S")
        shown = await settled(pilot)
        whole(shown)
        assert "nothing was read yet" in shown
        await pilot.press("s")
        assert "nothing is being read" in await settled(pilot)
        await pilot.press("enter", "down", "backspace", "backspace", "backspace", "enter")
        assert "the window is ''" in await settled(pilot)
        await pilot.press(*"100", "enter")
        await until(pilot, "loads the patient first")
        assert "asked" not in await settled(pilot)
        await pilot.press("y")
        await settled(pilot)
        story.append(session, iter([events.WorkerStarted(pid=2), story.LOADED]))
        await until(pilot, "asked …")
        for _ in range(40):
            if commands_of(session):
                break
            await pilot.pause(0.05)
        assert commands_of(session) == [
            {"command": "stream", "text": "demo:heldout-austen.txt", "window": 100, "tokens": 1024}
        ]
        few: Read = {"stock": {Arm("full"): ArmFigures(39.0, 20.0, 4_000)}}
        started = events.StreamStarted(text=HERE.text, tokens=1023, window=256)
        progress = events.Progress(what="stock, window alone: tokens", done=32, total=767)
        story.append(session, iter([started, *streamed(few), progress]))
        shown = await until(pilot, "window alone: tokens 32/767")
        assert "full attention" in shown and "39.00" in shown
        await pilot.press("s")
        assert "stopping …" in await settled(pilot)
        assert commands_of(session)[-1] == {"command": "stop"}
        story.append(session, iter([events.StreamEnded(outcome="stopped")]))
        await until(pilot, "stopped; what was read stands")
        other = replace(HERE, text="other.txt")
        refused = events.Refused(message="the text [red]x.txt gives 3 tokens")
        story.append(session, iter([*streamed(BOTH, other), refused]))
        shown = await until(pilot, "other.txt: 767 tokens")
        assert "the text [red]x.txt gives 3 tokens" in shown
        await pilot.press("h")
        assert "demo:heldout-austen.txt: 767 tokens" in await settled(pilot)
        await pilot.press("escape")
        assert "woken" in await settled(pilot)


async def test_a_patient_that_cannot_stream_says_why_before_anything_is_asked(told: Any, workers: list[Idle]) -> None:
    session = told()
    story.append(session, iter([replace(story.LOADED, family="gpt2")]))
    async with opened(session) as pilot:
        await until(pilot, "sick at")
        await pilot.press("S", "enter")
        assert "is of the family gpt2, whose positions cannot be given by slot" in await settled(pilot)
        assert commands_of(session) == []
