"""Plans as the app tells and begins them, at 80×24 over told trials. No process but the app itself."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from engine import events
from engine.errors import InputError
from engine.protocol import BUILT_IN, read_protocol
from engine.session import Session
from engine.trial import list_trials, open_trial
from tests.tui import story
from tests.tui.conftest import Idle, settled, text, until
from tests.tui.test_hostile import NASTY, check
from tests.tui.test_screens import whole
from tui.app import Headsurgeon
from tui.protocols import (
    built_in,
    checked_device,
    checked_dtype,
    expanded,
    fields_of,
    given_corpora,
    lines_of,
    usual_patient,
)

ARMS = """
title = "{title}"
question = "Does it?"
seeds = [1, 2]
[corpora]
own = ["birds.txt"]
[every_pass]
corpus = ["own"]
targets = "sick"
[[arm]]
name = "cut"
[[arm.pass]]
lr = 1e-4
[[arm]]
name = "band and H{{column}}"
each_column = true
[[arm.pass]]
targets = "sick & band | H{{column}}"
[[arm]]
name = "stock"
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(ARMS.format(title="Mine"), "utf-8")
    (tmp_path / "birds.txt").write_text("Birds sing.", "utf-8")
    return path


def words(path: Path, model: str) -> str:
    return "\n".join(line.plain for line in lines_of(path, model, 60))


def test_what_a_plan_would_run(plan: Path) -> None:
    told = words(plan, "demo")
    assert "20: 10 arms, seeds 1, 2" in told  # cut, eight columns, stock; each with two seeds
    assert "own:       birds.txt" in told
    assert "sick, lr 0.0001" in told and "sick & band | Hn" in told and "for each column n" in told
    assert "diagnosed only" in told and "300 steps" in told
    assert all(len(line) <= 60 for line in told.splitlines())


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_plan_is_told_and_most_run_on_the_demo(name: str) -> None:
    path = next(path for path in built_in() if path.stem == name)
    told = words(path, "demo")
    assert read_protocol(path).title in told
    assert ("not now" in told) == (name == "paper")  # which names heads that the demo lacks
    assert usual_patient(path) == ("" if name == "paper" else "demo")


def test_what_cannot_be_run_is_said_before_anything_is_begun(plan: Path, tmp_path: Path) -> None:
    protocol = read_protocol(plan, "demo")
    assert len(expanded(protocol, "demo")) == 20
    assert fields_of(protocol) == {"own": "birds.txt"}
    assert given_corpora(protocol, {"own": "birds.txt"}) == []
    assert given_corpora(protocol, {"own": "a.txt ; b.txt"}) == ["own=a.txt", "own=b.txt"]
    for wrong, sentence in (
        (lambda: given_corpora(protocol, {"own": " "}), "own: name a file"),
        (lambda: expanded(protocol, "demo", corpora=["own=none.txt"]), "corpus not found: none.txt"),
        (lambda: expanded(protocol, "demo", texts="none.txt"), "file of texts not found"),
        (lambda: expanded(protocol, ""), "names no patient"),
        (lambda: expanded(protocol, "some/model"), "some/model is not on this machine"),
        (lambda: checked_device("gpu"), "device: write auto"),
        (lambda: checked_dtype("int8"), "dtype: write auto"),
    ):
        with pytest.raises(InputError, match=sentence):
            wrong()
    own = tmp_path / "direct.toml"
    own.write_text('[[pass]]\ntargets = "L9-H1"\ncorpus = ["birds.txt"]\n')
    assert fields_of(read_protocol(own)) == {"corpus": ""}
    assert "not now" in words(own, "demo") and "there is no layer 9" in " ".join(words(own, "demo").split())
    assert "is not TOML" in words(plan.parent / "birds.txt", "demo")


async def test_a_plan_is_chosen_and_begun(
    tmp_path: Path, plan: Path, workers: list[Idle], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    root = tmp_path / "sessions"
    async with Headsurgeon(root).run_test(size=(80, 24)) as pilot:
        await until(pilot, "no sessions yet")
        await pilot.press("P")
        shown = await until(pilot, "How many sick heads does one pass")
        assert all(f" {name}" in shown for name in BUILT_IN)
        await pilot.press("down")
        shown = await until(pilot, "Does training alone wake")
        whole(shown)
        assert "6: 2 arms, seeds 42, 43, 44" in shown and "sick, reinit no" in shown
        await pilot.press("o", *"non", "enter")
        assert "plan not found" in await settled(pilot)
        await pilot.press(*["backspace"] * 3, *"mi", "tab", "enter")
        assert "20: 10 arms" in await until(pilot, "Mine")
        await pilot.press("m", "backspace", "enter")
        assert "there is no folder dem" in await settled(pilot)
        await pilot.press("o", "enter", "enter")
        await until(pilot, "enter begins")
        await pilot.press(*"x", "enter")
        shown = await settled(pilot)
        assert "corpus not found: birds.txtx" in shown and not root.exists()  # nothing half-made
        await pilot.press("backspace", "down", "down", *["backspace"] * 4, *"cpu", "enter")
        shown = await until(pilot, "0 of 20 done, a worker begins")
        whole(shown.replace("band and H…", ""))
        assert len(workers) == 1
        (folder,) = list_trials(root)
        trial = open_trial(folder)
        assert (trial.device, len(trial.runs)) == ("cpu", 20)
        assert trial.runs[0].plans[0].corpus == [str(tmp_path / "birds.txt")]
        assert tomllib.loads((folder / "protocol.toml").read_text())["title"] == "Mine"
        await pilot.press("enter")
        assert "this run has not begun yet" in await settled(pilot)
        await pilot.press("q")
    assert "The trial goes on in its own process" in str(pilot.app.return_value)


async def test_a_plan_of_one_run_is_a_session_like_any_other(
    tmp_path: Path, workers: list[Idle], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "one.toml").write_text('[[pass]]\ntargets = "sick"\nsteps = 7\n')
    async with Headsurgeon(tmp_path / "s").run_test(size=(80, 24)) as pilot:
        await until(pilot, "no sessions yet")
        await pilot.press("P", "o", *"one.toml", "enter")
        await until(pilot, "runs       one")
        await pilot.press("enter", "enter")
        await until(pilot, "esc cancels the loading")
        (folder,) = (tmp_path / "s").iterdir()
        line = (folder / "journal.jsonl").read_text()
        assert '"targets":"sick"' in line and '"steps":7' in line and len(workers) == 1


async def test_a_trial_is_followed_a_run_opened_and_left_again(tmp_path: Path, workers: list[Idle]) -> None:
    trial = story.write_trial(tmp_path)
    story.carry(trial, 0)
    async with Headsurgeon(tmp_path, trial.folder).run_test(size=(80, 24)) as pilot:
        shown = await until(pilot, "1 of 4 done")
        whole(shown)
        row = next(line for line in shown.splitlines() if line.startswith(" cut                1"))
        assert row.split() == ["cut", "1", "done", "276→380", "104/105", "32.00", "→", "30.00", "0.080"]
        assert "nobody is at work on this: r goes on" in shown and not workers
        second = story.carry(trial, 1, 10, ended=False)
        assert "stopped at 10/40" in await until(pilot, "stopped at")
        failing = trial.begin(trial.runs[2])
        story.append(failing, iter([events.Failed(message="the targets select no head " * 6)]))
        await until(pilot, "failed: the targets select")
        await pilot.press("down", "down")
        shown = await until(pilot, "control-1 failed: the targets")
        assert shown.count("select no head") >= 4  # the whole sentence stands below
        await pilot.press("r")
        assert "a worker begins" in await settled(pilot) and len(workers) == 1
        with second.held():
            assert "pass 1 step 10/40" in await until(pilot, "now cut-2")
            await pilot.press("up", "enter")
            shown = await until(pilot, "step 10 of 40")
            assert "cut-2: 0 goes back to the trial" in shown
            await pilot.press("0")
            await until(pilot, "now cut-2")
            await pilot.press("enter")
            await until(pilot, "step 10 of 40")
            await pilot.press("escape", "escape", "escape")
            await until(pilot, "now cut-2")
        assert len(workers) == 1  # a run is carried out by the trial's worker
        await pilot.press("p")
        await until(pilot, "replay")
        await pilot.press("0", "s")
        await until(pilot, "End the worker?")
        await pilot.press("n", "escape")
        shown = await until(pilot, "▸ Does it wake")
        assert "1/4 in 2 arms" in shown and "cut-1" not in shown
        await pilot.press("q")
    assert f"headsurgeon open {trial.folder}" in str(pilot.app.return_value)


async def test_arms_are_compared_over_their_seeds_and_each_session_by_itself(
    tmp_path: Path, workers: list[Idle]
) -> None:
    trial = story.write_trial(tmp_path)
    async with Headsurgeon(tmp_path, trial.folder).run_test(size=(80, 24)) as pilot:
        await until(pilot, "0 of 4 done")
        await pilot.press("c")
        assert "no run has begun yet" in await settled(pilot)
        for index in range(3):
            story.carry(trial, index)
        await until(pilot, "3 of 4 done")
        await pilot.press("c")
        shown = await until(pilot, "columns 1–2 of 2")
        whole(shown)
        assert "mean ± sd over seeds" in shown and "cut" in shown and "control" in shown
        first = next(line for line in shown.splitlines() if line.startswith(" healthy after"))
        assert first.split() == ["healthy", "after", "380", "380"]
        await pilot.press("v")
        shown = await until(pilot, "columns 1–2 of 3")
        assert "stock (→ cut) → after" in shown and "cut seed 1" in shown
        await pilot.press("l", "l", "l")
        shown = await settled(pilot)
        assert "columns 2–3 of 3" in shown and "healthy heads" in shown  # the labels stay
        await pilot.press("pagedown", "pagedown", "pagedown")
        shown = await settled(pilot)
        assert "cut seed 2" in shown.splitlines()[1] + shown.splitlines()[2]  # and so do the names
        await pilot.press("w")
        await until(pilot, "written")
        assert "healthy" in (trial.folder / "exports" / "comparison.csv").read_text()
        assert "380" in (trial.folder / "exports" / "arms.txt").read_text()
        await pilot.press("escape")
        await until(pilot, "3 of 4 done")


async def test_sessions_and_trials_are_marked_and_compared_and_deleted(tmp_path: Path, workers: list[Idle]) -> None:
    trial = story.write_trial(tmp_path, ("cut",), (1,))
    first = story.carry(trial, 0)
    other = story.write_session(tmp_path, "2026-01-01-alone", until=40)
    story.save(other, story.read_chart(other))
    async with Headsurgeon(tmp_path).run_test(size=(80, 24)) as pilot:
        await until(pilot, "1/1 in 1 arm")
        await pilot.press("down", "c")
        assert "mark two sessions or more" in await settled(pilot)
        await pilot.press("space", "up", "space")
        shown = await until(pilot, "2 marked: c compares")
        assert shown.count("\n*") == 2
        await pilot.press("c")
        shown = await until(pilot, "columns 1–2 of 2")
        whole(shown)
        assert "276 → 380" in shown and "no arm has several" not in shown
        await pilot.press("escape")
        await until(pilot, "1/1 in 1 arm")
        with first.held():
            await pilot.press("D")
            assert "a worker is at work on this" in await settled(pilot)
            await pilot.press("R", *"x", "enter")
            assert "a worker is at work on this" in await settled(pilot)
            await pilot.press("escape")
        await pilot.press("D")
        await until(pilot, "with its 1 session,")
        await pilot.press("y")
        await until(pilot, "alone")
        assert not trial.folder.exists() and other.folder.exists()


async def test_hostile_titles_and_messages_are_shown_and_a_damaged_trial_says_so(
    tmp_path: Path, workers: list[Idle], monkeypatch: pytest.MonkeyPatch
) -> None:
    written = story.write_trial(tmp_path / "sessions", ("cut",), (1,))
    path = written.folder / "protocol.toml"
    data = tomllib.loads(path.read_text())
    data |= {"title": NASTY, "question": NASTY}
    data["run"][0]["arm"] = NASTY
    import tomli_w

    path.write_text(tomli_w.dumps(data))
    session: Session = story.carry(open_trial(written.folder), 0)
    story.append(session, iter([events.Failed(message=NASTY)]))
    (tmp_path / "odd.toml").write_text(tomli_w.dumps({"title": NASTY, "pass": [{"targets": NASTY}]}))
    monkeypatch.chdir(tmp_path)
    async with Headsurgeon(tmp_path / "sessions").run_test(size=(80, 24)) as pilot:
        await until(pilot, "0/1 in 1 arm")
        assert "[red]x[b]" in check(pilot)
        await pilot.press("enter")
        await until(pilot, "1 failed")
        assert check(pilot).count("[red]x[b]") >= 4  # title, question, arm, message
        await pilot.press("c")
        await until(pilot, "columns 1–1 of 1")
        assert "[red]x[b]" in check(pilot)
        await pilot.press("escape", "escape", "P", "o", *"odd.toml", "enter")
        await until(pilot, "not now")
        check(pilot)
        path.write_text("[")
        await pilot.press("escape")
        await until(pilot, "its protocol.toml is damaged")
        pilot.app.trial = None  # type: ignore[attr-defined]  # as on the next start
        await pilot.press("enter")
        await until(pilot, "put a good copy back")


async def test_what_steps_need_a_session_is_said(tmp_path: Path, workers: list[Idle]) -> None:
    trial = story.write_trial(tmp_path)
    async with Headsurgeon(tmp_path, trial.folder).run_test(size=(80, 24)) as pilot:
        await until(pilot, "0 of 4 done")
        await pilot.press("4")
        assert "open a session first" in await settled(pilot)
        await pilot.press("question_mark")
        assert "One row per run" in await settled(pilot)
        await pilot.press("escape", "1")
        await until(pilot, "▸ Does it wake")
        await pilot.press("0")
        await until(pilot, "0 of 4 done")
        assert "Does it wake" in text(pilot)
