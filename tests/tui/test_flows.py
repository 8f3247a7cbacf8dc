"""What an operator does on each step, by keys, at 80×24 over told sessions. No process but the app itself."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from engine import events
from engine.events import OutOfMemory
from tests.tui import story
from tests.tui.conftest import Idle, opened, settled, text, until
from tests.tui.large import write_diagnosed
from tests.tui.test_screens import commands_of, whole
from tui.app import Headsurgeon
from tui.grid import HeadGrid


async def test_views_legends_and_jumping_about(told: Any, workers: list[Idle]) -> None:
    session = told()
    async with opened(session) as pilot:
        await until(pilot, "sick at")
        await pilot.press("m", "m")
        shown = await settled(pilot)
        whole(shown)
        assert "view: class" in shown and "D  dead" in shown
        row = next(line for line in shown.splitlines() if line.startswith(" L16 "))
        assert row[5 + 2 * 15] == "D"  # L16-H15: the upper layer of a row is the left one of the two columns
        await pilot.press("m", "m")
        assert "contribution: not measured" in await settled(pilot)
        assert "C measures each head silent alone" in text(pilot)
        rows = story.rows(lambda layer, head: 0.02 if (layer, head) == (16, 4) else 0.0)
        story.append(
            session, iter([events.Contributed(stage="stock", text="t", samples=2, tokens=20, loss=3.0, rows=rows)])
        )
        await until(pilot, "lost if silent")
        await pilot.press("g", *"99.1", "enter")
        assert "there is no L99-H1" in await settled(pilot)
        await pilot.press(*["backspace"] * 4, *"16.4", "enter")
        shown = await settled(pilot)
        assert "L16-H4" in shown and "+0.0200 nats when silent" in shown
        await pilot.press("i")
        assert "BOS mass of 384 heads" in await until(pilot, "sick layers per head index")


async def test_the_attention_window_asks_and_shows(told: Any, workers: list[Idle]) -> None:
    session = told()
    async with opened(session) as pilot:
        await until(pilot, "sick at")
        await pilot.press("A", "l")
        shown = await settled(pilot)
        assert ">two" in shown and "not measured yet" in shown
        await pilot.press("enter")
        await until(pilot, "loads the patient first")
        await pilot.press("y")
        await settled(pilot)
        story.append(session, iter([events.WorkerStarted(pid=2), story.LOADED]))
        for _ in range(10):
            await pilot.pause(0.05)
        assert commands_of(session) == [{"command": "attention", "layer": 0, "head": 0, "text": 1}]
        seen = events.Attention(
            stage="stock", layer=0, head=0, text="two", tokens=["La", " [red]lampe"], top=[[[0, 1.0]], [[0, 0.75]]],
            received=[0.875, 0.125],
        )  # fmt: skip
        story.append(session, iter([seen]))
        shown = await until(pilot, "measured on stock")
        assert '" [red]lampe"' in shown and '"La" .75' in shown
        await pilot.press("escape")
        assert "sick at" in await settled(pilot)


@pytest.mark.parametrize(("layers", "heads"), [(30, 32), (70, 112)])
async def test_a_large_patient_is_usable_by_panes_with_its_labels_pinned(
    tmp_path: Path, workers: list[Idle], layers: int, heads: int
) -> None:
    session = write_diagnosed(tmp_path, layers, heads)
    async with opened(session) as pilot:
        await until(pilot, "sick at")
        await pilot.press("g", *f"{layers - 1}.{heads - 1}", "enter")
        shown = await settled(pilot)
        grid = pilot.app.screen.query_one(HeadGrid)
        assert f"H{heads - 1}" in shown.splitlines()[1] and f" L{layers - 1} " in shown
        if (layers, heads) == (70, 112):
            assert "L38-69 of 70, H80-111 of 112" in shown
        await pilot.press("h", "k")
        assert grid.cursor == (layers - 2, heads - 2)
        await pilot.resize_terminal(240, 75)
        for _ in range(3):  # mass and entropy in half blocks, classes in letters
            await settled(pilot)
            assert grid.part() == ""  # all of it
            await pilot.press("m")


async def test_presets_a_plan_file_and_its_queue(
    told: Any, workers: list[Idle], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = told()
    monkeypatch.chdir(tmp_path)
    plan = tmp_path / "two.toml"
    plan.write_text(
        '[[pass]]\ntargets = "sick & band"\ncorpus = ["c4.txt"]\nsteps = 40\n[[pass]]\ntargets = "sick & !band"\n'
    )
    (tmp_path / "c4.txt").write_text("words")
    async with opened(session) as pilot:
        await until(pilot, "sick at")
        await pilot.press("v", "down", "right")  # a block begun in step 2 is taken in step 3
        await until(pilot, "block from L0-H0")
        await pilot.press("space")
        assert "4 of 384 heads" in await settled(pilot)
        for key, heads in (("o", "1 of 384"), ("d", "3 of 384"), ("B", "4 of 384")):
            await pilot.press(key)
            assert heads in await settled(pilot)
        await pilot.press("P", *"tw", "tab", "enter")
        assert "pass 2 names no corpus" in await settled(pilot)
        plan.write_text(plan.read_text() + 'corpus = ["c4.txt"]\n')
        await pilot.press("enter")
        await settled(pilot)
        story.append(session, iter([events.WorkerStarted(pid=2), story.LOADED]))
        await until(pilot, "asked to operate")
        (command,) = commands_of(session)
        assert command["plan"]["corpus"] == [str(tmp_path / "c4.txt")]  # from the plan's own folder
        assert [then["targets"] for then in command["then"]] == ["sick & !band"]
        story.append(session, iter([events.Queued(plans=[story.PLAN, *command["then"]]), *story.operation(5)]))
        assert "queued: 1 more — sick & !band" in await until(pilot, "step 5 of 40")


async def test_an_interval_is_changed_and_a_smaller_batch_offered(told: Any, workers: list[Idle]) -> None:
    session = told(until=20, ended=False)
    async with opened(session) as pilot:
        await until(pilot, "drift")
        story.append(session, iter([events.WorkerStarted(pid=2), events.Resumed(number=1, step=20)]))
        await until(pilot, "operating")
        await pilot.press("i", "backspace", "backspace", *"0x", "enter")
        assert "'0x' is no number of steps" in await settled(pilot)
        await pilot.press("backspace", "backspace", "5", "enter")
        assert commands_of(session) == [{"command": "set", "option": "check_every", "value": 5}]
        story.append(session, iter([events.Changed(number=1, step=21, values={"check_every": 5})]))
        await pilot.press("m")
        assert "view: drift" in await settled(pilot)
        gone = OutOfMemory(
            number=1, step=21, micro_batch=4, accumulate=2, offered_micro_batch=2, offered_accumulate=4,
            checkpointing=False,
        )  # fmt: skip
        story.append(session, iter([gone, events.Failed(message="out of memory in step 22")]))
        workers[0].left = True
        shown = await until(pilot, "b smaller batch")
        assert "out of memory" in shown and "step 20 of 40" in shown  # nothing is lost
        await pilot.press("b")
        story.append(session, iter([events.WorkerStarted(pid=3)]))
        for _ in range(20):
            await pilot.pause(0.05)
        assert commands_of(session)[-1] == {"command": "continue", "micro_batch": 2, "accumulate": 4}
        await pilot.press("L")
        assert "from step 21 on: check_every 5" in await settled(pilot)


async def test_a_hung_worker_is_told_and_ended_only_when_that_is_wanted(
    told: Any, workers: list[Idle], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = told(until=25, ended=False)
    ended: list[int] = []
    monkeypatch.setattr("tui.live.Live.kill_worker", lambda live: ended.append(1) or setattr(workers[0], "left", True))
    async with opened(session) as pilot:
        await until(pilot, "drift")
        story.append(session, iter([events.WorkerStarted(pid=2), events.Resumed(number=1, step=20)]))
        await until(pilot, "operating")
        long_ago = session.journal.stat().st_mtime - 3600
        os.utime(session.journal, (long_ago, long_ago))
        shown = await until(pilot, "no news from the worker for")
        assert "step 20 of 40" in shown
        await pilot.press("r", "n")
        assert not ended
        await pilot.press("r", "y")
        assert ended and len(workers) == 2
        assert "no news" not in await until(pilot, "starting the worker")


async def test_the_record_as_a_difference_and_target_by_target(told: Any, workers: list[Idle]) -> None:
    async with opened(told(until=40)) as pilot:
        await until(pilot, "perplexity")
        await pilot.press("d")
        shown = await settled(pilot)
        whole(shown)
        assert "difference: pass 1 less stock" in shown and "d side by side" in shown
        row = next(line for line in shown.splitlines() if line.startswith(" L4 "))
        assert row[5 + 2 * 9 : 7 + 2 * 9] == "+-"  # L4-H9 rose, L5-H9 fell
        assert " L5-H9    0.60 → 0.10 o" in shown
        await pilot.press("o")
        assert "loss when silent alone" in await settled(pilot)
        await pilot.press("escape", "c")
        assert "untouched heads per head index" in await settled(pilot)
        await pilot.press("escape", "x")
        assert "none yet: G lets the model go on" in await settled(pilot)


async def test_a_session_is_renamed_replayed_and_deleted(tmp_path: Path, workers: list[Idle]) -> None:
    session = story.write_session(tmp_path, until=40)
    async with Headsurgeon(tmp_path).run_test(size=(80, 24)) as pilot:
        await until(pilot, "276 → 380/384")
        await pilot.press("R", "slash", "enter")
        assert "a name is made of letters" in await settled(pilot)
        await pilot.press("backspace", *"-v2", "enter")
        await until(pilot, "276 → 380/384")
        assert not session.folder.exists() and (tmp_path / f"{session.id}-v2").exists()
        await pilot.press("p")
        assert "replay" in await until(pilot, "after pass 1")  # the story's times lie close together
        await pilot.press("a", "r")
        assert "this is a replay" in await settled(pilot)
        assert not workers
        await pilot.press("1")
        await until(pilot, "276 → 380/384")
        await pilot.press("D", "n", "D", "y")
        assert "no sessions yet" in await until(pilot, "no sessions yet")
        assert list(tmp_path.iterdir()) == []


async def test_a_new_session_is_looked_at_dry_and_its_loading_can_be_cancelled(
    tmp_path: Path, workers: list[Idle], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    (tmp_path / "hub" / "models--some--tiny").mkdir(parents=True)
    monkeypatch.setattr(Idle, "terminate", lambda idle: setattr(idle, "left", True), raising=False)
    root = tmp_path / "sessions"
    async with Headsurgeon(root).run_test(size=(80, 24)) as pilot:
        await until(pilot, "no sessions yet")
        await pilot.press("n")
        await until(pilot, "some/tiny")
        await pilot.press("down", "down")
        assert "new session on some/tiny" in await settled(pilot)
        assert "the worker asks the hub for it" in text(pilot)  # a name in the cache, but no config
        await pilot.press(*["backspace"] * 9, *"dem")
        assert "there is no folder dem" in await settled(pilot)
        await pilot.press("tab")  # the only one that fits
        shown = await settled(pilot)
        assert "6 layers × 8 heads, bloom, alibi" in shown and "GB free" in shown
        await pilot.press("enter", "right", "down", "right", "right", "enter")
        await until(pilot, "esc cancels the loading")
        (folder,) = root.iterdir()
        (first,) = (line for line in (folder / "journal.jsonl").read_text().splitlines())
        assert '"device":"cpu","dtype":"float32"' in first
        await pilot.press("escape")
        await until(pilot, "the session was dropped")
        assert workers[0].left and list(root.iterdir()) == []
