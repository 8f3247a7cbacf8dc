"""The five steps over a told session, at 80×24. The figures are those of ``story``, by hand."""

from __future__ import annotations

import json
from typing import Any

import pytest
from textual.content import Content

from engine import events
from engine.heads import Head
from engine.session import Session
from tests.tui import story
from tests.tui.conftest import Idle, opened, settled, text, until
from tui.app import Headsurgeon
from tui.grid import HeadGrid
from tui.screens.load import LoadScreen


def commands_of(session: Session) -> list[dict[str, Any]]:
    lines = session.commands.read_text().splitlines() if session.commands.exists() else []
    return [{k: v for k, v in json.loads(line).items() if k != "time"} for line in lines]


def whole(shown: str) -> None:
    """Every line within 80 columns and nothing cut off with an ellipsis."""
    assert len(shown.splitlines()) == 24
    cut = [text for text in shown.splitlines() if "…" in text and not text.rstrip().endswith(" …")]
    assert not cut, "\n".join(cut)


async def test_diagnose_shows_one_head_the_counts_and_the_whole_grid(told: Any, workers: list[Idle]) -> None:
    async with opened(told()) as pilot:
        shown = await until(pilot, "sick at")
        whole(shown)
        for words in (
            "bloom-story bf16 cpu 24×16",
            "healthy      276   71.9 %",  # 384 - 106 sick - 2 low-entropy
            "bos_sink     103",
            "dead           3",
            "low_entropy    2",
            "borderline     4",  # the three at 0.97 (0.95 within 0.03) and the one at 0.52
            "H9–H15",
            "0.40/0.50/0.60  106/106/3",
        ):
            assert words in shown
        labels = [shown_line.split()[0] for shown_line in shown.splitlines()[2:14]]
        assert labels == [f"L{layer}" for layer in range(0, 24, 2)]  # two layers to a row
        assert "L0-H0" in shown and "0.200   95 % 0.170–0.230" in shown
        assert "entropy    0.30 nats" in shown
        assert not workers  # a finished session is only read


async def test_the_cursor_shows_the_head_under_it(told: Any, workers: list[Idle]) -> None:
    async with opened(told()) as pilot:
        await until(pilot, "sick at")
        await pilot.press("n")
        assert "L2-H3" in await settled(pilot)  # the first sick head
        await pilot.press("n", "j", "l", "down", "right")
        shown = await settled(pilot)
        assert "L7-H11" in shown  # from L5-H9, the second
        assert "0.0039" not in shown and "0.0156" in shown  # slope 2^-6 of H11
        await pilot.press(*["j"] * 9, "h")
        shown = await settled(pilot)
        assert "L16-H10" in shown and "bos_sink, borderline" in shown
        assert "0.520   95 % 0.490–0.550" in shown
        await pilot.press(*["right"] * 30, *["down"] * 30)
        assert "L23-H15" in await settled(pilot)
        await pilot.press("n")
        assert "L2-H3" in await settled(pilot)  # around the end


async def test_targets_are_chosen_by_keys_and_counted(told: Any, workers: list[Idle]) -> None:
    async with opened(told()) as pilot:
        await until(pilot, "sick at")
        await pilot.press("enter")
        await until(pilot, "0 of 384 heads")
        await pilot.press("b")
        shown = await settled(pilot)
        whole(shown)
        for words in (
            "105 of 384 heads",
            "3 dead, 102 bos_sink",
            "L5–L22 × H9–H15",
            "21 in-band, 258 outside",  # 18 × 7 - 105 and 384 - 126
            "110.1 M  6.4 %",  # 105 × 1 048 960 of 1 722 408 960
            "302.1 M  17.5 %",
            "targets / sick & band",
        ):
            assert words in shown
        await pilot.press("space")  # L0-H0 by hand: the expression is no longer as it was written
        shown = await settled(pilot)
        assert "106 of 384" in shown and "targets / L0-H0 | L5 x H9-12" in shown
        await pilot.press("u")
        assert "105 of 384" in await settled(pilot)
        await pilot.press("u", "U", "U")
        assert "106 of 384" in await settled(pilot)
        await pilot.press("s")
        assert "106 of 384" in await settled(pilot)  # with L2-H3, without L0-H0
        await pilot.press("x", "c")
        assert "24 of 384" in await settled(pilot)
        await pilot.press("w")
        assert "39 of 384" in await settled(pilot)  # 24 + 16, one of them in both
        await pilot.press("x", "v", "down", "down", "right", "space")
        shown = await settled(pilot)
        assert "6 of 384" in shown and "L0 x H0-1 | L1 x H0-1 | L2 x H0-1" in shown
        await pilot.press("a")
        assert "384 of 384" in await settled(pilot)


async def test_an_expression_is_previewed_and_its_error_pointed_at(told: Any, workers: list[Idle]) -> None:
    async with opened(told()) as pilot:
        await until(pilot, "sick at")
        await pilot.press("enter", "slash", *"dead")
        assert "3 heads — enter takes them" in await settled(pilot)
        assert "3 of 384 heads" in text(pilot)
        await pilot.press(*" & bent")
        shown = (await settled(pilot)).splitlines()
        whole("\n".join(shown))
        at = next(i for i, shown_line in enumerate(shown) if "dead & bent" in shown_line)
        assert shown[at + 1].index("^") == shown[at].index("bent")
        assert "unknown set 'bent'; there are sick" in shown[at + 2]
        await pilot.press("enter")  # a wrong one is not taken
        assert "unknown set" in await settled(pilot)
        await pilot.press(*["backspace"] * 4, *"band", "enter")
        assert "targets / dead & band" in await settled(pilot)
        await pilot.press("slash", *" | H5", "escape")
        assert "targets / dead & band" in await settled(pilot)


async def test_operating_needs_targets_and_a_corpus_and_then_asks_the_worker(
    told: Any, workers: list[Idle], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = told()
    async with opened(session) as pilot:
        await until(pilot, "sick at")
        await pilot.press("enter", "enter")
        assert "no head is chosen" in await settled(pilot)
        await pilot.press("b", "enter")
        assert "the plan names no corpus" in await settled(pilot)
        await pilot.press("e")
        await until(pilot, "Plan of the pass")
        await pilot.press(*"/texts/c4.txt", "down", *"x", "enter")
        await until(pilot, "steps: 'x' is not a whole number")
        await pilot.press("backspace", *"40", "enter")
        await until(pilot, "40 steps, lr 5e-05")
        await pilot.press("enter")
        assert "starting the worker" in await settled(pilot)
        assert len(workers) == 1 and commands_of(session) == []  # asked for once the worker listens
        story.append(session, iter([events.WorkerStarted(pid=2), story.LOADED]))
        await until(pilot, "asked to operate")
        (command,) = commands_of(session)
        assert command["command"] == "operate"
        assert command["plan"]["targets"] == "sick & band" and command["plan"]["steps"] == 40
        story.append(session, iter([events.Refused(message="no such corpus [red]here[/red]")]))
        assert "no such corpus [red]here[/red]" in await until(pilot, "no such corpus")


async def test_operate_shows_the_pass_as_far_as_it_is(told: Any, workers: list[Idle]) -> None:
    session = told(until=25, ended=False)
    async with opened(session) as pilot:
        shown = await until(pilot, "drift")
        whole(shown)
        assert len(workers) == 1  # an unfinished pass goes on
        for words in (
            "step 25 of 40",
            "epoch 1.25",  # 25 × 4096 of 81 920 tokens
            "held-out 31.00 best 31.00 at 20",
            "stock 32.00",
            "woken o 104/105, 105 at the cut",
            "outside 258",
            "in-band frozen 21",
            "20   34.43    31.00   104        1 ◆",  # 40 / e^0.15
            "since stock         1 0.0207  0.080 L4-H9",
            "of the cut          0 0.0100  0.010",
            "none spreads",
        ):
            assert words in shown
        grid = pilot.app.screen.query_one(HeadGrid)
        assert grid.marks[story.STUBBORN] == "target" and list(grid.marks.values()).count("woken") == 104
        story.append(session, iter(list(story.operation(40))[-19:]))  # steps 26 to 40 with their checks
        story.append(session, iter([events.Paused(number=1, step=40)]))
        shown = await until(pilot, "step 40 of 40")
        assert "paused" not in shown  # this worker has not begun yet: it is waited for
        assert "H15 0.060" in shown  # columns: H15 rose by 0.03 from the first check to the last


async def test_keys_of_a_running_pass(told: Any, workers: list[Idle]) -> None:
    session = told(until=20, ended=False)
    async with opened(session) as pilot:
        await until(pilot, "drift")
        story.append(session, iter([events.WorkerStarted(pid=2), events.Resumed(number=1, step=20)]))
        assert "p pause" in await until(pilot, "operating")
        await pilot.press("p", "c")
        story.append(session, iter([events.Paused(number=1, step=20)]))
        assert "p continue" in await until(pilot, "paused")
        await pilot.press("p", "s")
        assert "keep the best" in await until(pilot, "y yes")
        await pilot.press("n", "S", "y", "n")
        await until(pilot, "Note")
        await pilot.press(*"[b]odd[/b] one", "enter")
        await settled(pilot)
        assert commands_of(session) == [
            {"command": "pause"},
            {"command": "check"},
            {"command": "continue"},
            {"command": "stop", "keep": "last"},
            {"command": "note", "text": "[b]odd[/b] one"},
        ]
        await pilot.press("enter")
        assert "no pass has ended yet" in await settled(pilot)


async def test_a_worker_that_is_gone_is_told_and_started_again(told: Any, workers: list[Idle]) -> None:
    async with opened(told(until=25, ended=False)) as pilot:
        await until(pilot, "drift")
        workers[0].left = True
        shown = await until(pilot, "worker gone — r starts it again")
        assert "step 25 of 40" in shown  # nothing is lost
        assert "r resume" in shown and "p pause" not in shown
        await pilot.press("r")
        assert "worker gone" not in await until(pilot, "starting the worker")
        assert len(workers) == 2


async def test_the_record_shows_before_and_after(told: Any, workers: list[Idle]) -> None:
    session = told(until=40)
    async with opened(session) as pilot:
        shown = await until(pilot, "perplexity")
        whole(shown)
        for words in (
            "before: stock",
            "after pass 1: completed, step 30 kept",
            "healthy 276 → 380",  # 104 of 105 targets woke
            "bos_sink 103 → 2",
            "dead 3 → 0",
            "105 at the cut, 104 of 105 after",
            "working 0.030 → 0.880 nats",
            "held-out 32.00 → 30.00",
            "austen 18.51 → 27.20",
            "code 11.38 → 19.60",
            "1 of 258 drifting, mean 0.021, worst 0.080 L4-H9",
            "hashes equal efefefef",
            "spreading H15",
        ):
            assert words in shown
        labels = [line.split()[0] for line in shown.splitlines()[3:15]]
        assert labels == [f"L{layer}" for layer in range(0, 24, 2)]
        await pilot.press(*["down"] * 22, *["right"] * 13)
        assert "bos_sink    0.600 → bos_sink    0.550" in await settled(pilot)
        await pilot.press("a")
        await until(pilot, "loads the patient first")
        await pilot.press("y")
        await settled(pilot)
        story.append(session, iter([events.WorkerStarted(pid=2)]))
        for _ in range(20):
            await pilot.pause(0.05)
        assert commands_of(session) == [{"command": "accept"}]
        story.append(session, iter([events.Accepted(number=1)]))
        assert "pass 1 accepted" in await until(pilot, "accepted: completed")
        await pilot.press("u", "y")
        await settled(pilot)
        assert commands_of(session)[-1] == {"command": "undo"}
        story.append(session, iter([events.Undone(number=1)]))
        await until(pilot, "pass 1 undone: completed, step 30")
        await pilot.press("a")
        assert "this pass is not in the model" in await settled(pilot)


async def test_the_next_pass_is_proposed_from_what_is_still_sick(told: Any, workers: list[Idle]) -> None:
    async with opened(told(until=40)) as pilot:
        await until(pilot, "perplexity")
        await pilot.press("t")
        shown = await until(pilot, "of 384 heads")
        assert "2 of 384 heads" in shown and "targets / sick" in shown  # L2-H3 and L22-H13
        assert "40 steps, lr 5e-05" in shown  # the plan of the pass before
        grid = pilot.app.screen.query_one(HeadGrid)
        assert set(grid.marks) == {Head(2, 3), Head(22, 13)}


async def test_where_nothing_is_sick_any_more_nothing_is_proposed(told: Any, workers: list[Idle]) -> None:
    session = told(until=40)
    well = story.head_map(story.rows(lambda layer, head: 0.10))
    story.append(session, iter([events.Diagnosed(stage="pass-1", head_map=well)]))
    async with opened(session) as pilot:
        await until(pilot, "perplexity")
        await pilot.press("t")
        shown = await until(pilot, "no head is sick any more")
        assert "0 of 384 heads" in shown
        assert pilot.app.screen.query_one(HeadGrid).marks == {}


async def test_undone_targets_are_resolved_against_stock_again(told: Any, workers: list[Idle]) -> None:
    session = told(until=40)
    story.append(session, iter([events.Undone(number=1)]))
    async with opened(session) as pilot:
        await until(pilot, "undone")
        await pilot.press("3", "s")
        assert "106 of 384" in await settled(pilot)


async def test_the_list_of_sessions_and_a_new_one(tmp_path: Any, workers: list[Idle]) -> None:
    story.write_session(tmp_path, "2026-11-29-first-0001", until=40)
    story.write_session(tmp_path, "2026-11-30-second-0002", until=25, ended=False)
    async with Headsurgeon(tmp_path).run_test(size=(80, 24)) as pilot:
        shown = await until(pilot, "276 → 380/384")
        whole(shown)
        assert shown.index("second-0002") < shown.index("first-0001")  # newest first
        assert "interrupted" in shown  # an unfinished pass that nobody holds
        await pilot.press("n", *"./nowhere", "enter")
        assert "folder not found: nowhere" in await settled(pilot)
        await pilot.press("escape", "down", "enter")
        assert "after pass 1" in await until(pilot, "perplexity")
        assert not workers
        await pilot.press("1", "d")
        assert "demo" in await until(pilot, "starting the worker")
        assert len(workers) == 1
        (made,) = [folder for folder in tmp_path.iterdir() if "demo" in folder.name]
        story.append(Session(made), iter([events.WorkerStarted(pid=3), events.Failed(message="no memory left")]))
        assert "no memory left" in await until(pilot, "new session on")
        assert not made.exists()  # nothing was begun in it


async def test_what_comes_in_while_the_app_is_taken_down_is_not_drawn(
    tmp_path: Any, workers: list[Idle], monkeypatch: pytest.MonkeyPatch
) -> None:
    story.write_session(tmp_path, until=40)
    app = Headsurgeon(tmp_path)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, "276 → 380/384")
        screen = app.screen
        assert isinstance(screen, LoadScreen) and screen.here
        (past,) = screen.pasts.values()
        take_down = app._close_all

        async def half_down() -> None:
            await screen.query_one("#sessions").remove()
            screen._show(past.session, Content(""), past)  # as the thread that reads the records does
            await take_down()

        monkeypatch.setattr(app, "_close_all", half_down)


async def test_help_names_every_key_and_files_every_path(told: Any, workers: list[Idle]) -> None:
    session = told(until=40)
    async with opened(session) as pilot:
        await until(pilot, "perplexity")
        await pilot.press("question_mark")
        assert "Working is what the held-out loss loses" in await until(pilot, "Keys")
        await pilot.press("escape", "f")
        await until(pilot, "Files of this session")
        shown = await settled(pilot)
        assert str(session.journal) in "".join(shown.replace("│", "").split())  # wrapped
        await pilot.press("escape", "colon", *"originals")
        shown = await settled(pilot)
        assert "Give the slices of this pass their originals back" in shown and "Keep this pass" not in shown
        await pilot.press("enter")
        assert "Undo pass 1?" in await until(pilot, "y yes")


async def test_a_terminal_that_is_too_small_says_so_and_loses_nothing(told: Any, workers: list[Idle]) -> None:
    async with opened(told()) as pilot:
        await until(pilot, "sick at")
        await pilot.press("enter", "b")
        await pilot.resize_terminal(60, 20)
        assert "this terminal is 60×20" in await until(pilot, "needs 80×24")
        await pilot.resize_terminal(120, 40)
        shown = await until(pilot, "105 of 384 heads")
        assert " L23 " in shown and " L22 " in shown  # now one layer to a row


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (240, 75)])
async def test_resizing_at_any_moment_is_safe(told: Any, workers: list[Idle], size: tuple[int, int]) -> None:
    async with opened(told(until=25, ended=False)) as pilot:
        for step in "2345":
            await pilot.press(step)
            await pilot.resize_terminal(*size)
            await settled(pilot)
            await pilot.resize_terminal(81, 25)
            await settled(pilot)


@pytest.mark.parametrize("value", ["", "1"])
async def test_no_color_and_the_light_theme_draw_every_step(
    told: Any, workers: list[Idle], monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("NO_COLOR", value)
    async with opened(told(until=40)) as pilot:
        await until(pilot, "perplexity")
        for step in "12345":
            await pilot.press(step, "T")
            assert await settled(pilot)


@pytest.mark.parametrize(("mode", "signs"), [("ascii", "#*.-"), ("block", "◆█▀▄-"), ("braille", "◆⠤")])
async def test_curves_can_do_without_braille_and_without_blocks(
    told: Any, workers: list[Idle], monkeypatch: pytest.MonkeyPatch, mode: str, signs: str
) -> None:
    monkeypatch.setenv("HEADSURGEON_GLYPHS", mode)
    async with opened(told(until=40)) as pilot:
        await until(pilot, "perplexity")
        await pilot.press("4")
        shown = await until(pilot, "drift")
        plotted = "".join(line[44:] for line in shown.splitlines()[6:12])
        assert any(sign in plotted for sign in signs)
        assert all(c < "\u2500" for c in plotted) == (mode == "ascii")
        assert any("\u2800" <= c < "\u2900" for c in plotted) == (mode == "braille")


async def test_markup_and_control_characters_of_a_model_name_are_shown_not_obeyed(
    told: Any, workers: list[Idle]
) -> None:
    async with opened(told(model="odd [red]name\x1b[31m")) as pilot:
        assert "odd [red]name·[31m" in await until(pilot, "sick at")
