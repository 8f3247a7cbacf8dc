"""How passes look that do something else to their targets than to reinitialise them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from engine import events
from engine.heads import HeadMap, Rows
from engine.session import Session
from tests.tui import story
from tests.tui.conftest import Idle, opened, settled, until
from tests.tui.test_screens import commands_of, whole
from tui.grid import HeadGrid

N = len(story.TARGETS)


def sinks(share: float) -> Rows:
    """Sink logits that take ``share`` of every target's attention and nothing elsewhere."""
    chosen = frozenset(story.TARGETS)
    return story.rows(lambda layer, head: share if (layer, head) in chosen else 0.0)


def treated(treatment: str, share: float = 0.0, until: int = story.STEPS) -> Iterator[events.Event]:
    """The told pass, as another treatment; sink logits take ``share`` from the cut on."""
    plan = {**story.PLAN, "treatment": treatment, "lr": 0.1}
    logits = sinks(share) if share else []
    for event in story.operation(until):
        match event:
            case events.PassStarted():
                still = {"steps": 0, "warmup": 0, "trained_parameters": 0} if treatment == "prune" else {}
                yield replace(event, plan=plan, **still)
            case events.Cut():
                yield replace(event, sink_mass=logits, woken=0 if share > 0.4 else event.woken)
            case events.Check():
                yield replace(event, sink_mass=logits, woken=0 if share > 0.4 else event.woken)
            case _:
                yield event


def pruned() -> Iterator[events.Event]:
    """A pass without steps: columns set to zero, nothing trained."""
    yield from treated("prune", until=0)
    cut = story.cut_mass()
    (ended, _) = story.ending()
    assert isinstance(ended, events.PassEnded)
    yield replace(ended, step=0, kept_step=0, heldout_perplexity=36.0, woken=N, ablation_loss_after=0.0)
    yield events.Diagnosed(stage="pass-1", head_map=story.head_map(cut))


def sunk(share: float) -> Iterator[events.Event]:
    """A pass that ends with sink logits which take ``share``."""
    yield from treated("sink_logit", share)
    (ended, diagnosed) = story.ending()
    assert isinstance(ended, events.PassEnded) and isinstance(diagnosed, events.Diagnosed)
    yield replace(ended, woken=0)
    map_: HeadMap = replace(diagnosed.head_map, sink_mass=sinks(share))
    yield replace(diagnosed, head_map=map_)


def session_of(told: Any, events_of_pass: Iterator[events.Event]) -> Session:
    session: Session = told()
    story.append(session, events_of_pass)
    return session


async def test_a_pass_without_steps_shows_no_curves_and_no_speed(told: Any, workers: list[Idle]) -> None:
    async with opened(session_of(told, pruned())) as pilot:
        shown = await until(pilot, "perplexity")
        whole(shown)
        assert "after pass 1: pruned, nothing trained" in shown
        assert "held-out 32.00 → 36.00" in shown
        await pilot.press("4")
        shown = await until(pilot, "no steps, nothing is trained")
        whole(shown)
        assert "held-out 36.00   stock 32.00" in shown
        assert "tok/s" not in shown and "step 0 of" not in shown


@pytest.mark.parametrize(("share", "woken"), [(0.30, N - 1), (0.75, 0)])
async def test_a_head_that_rests_on_its_sink_logit_is_not_marked_as_woken(
    told: Any, workers: list[Idle], share: float, woken: int
) -> None:
    """Targets hold 0.10 on position 0: awake beside a logit that takes 0.30, sick beside one that takes 0.75."""
    async with opened(session_of(told, treated("sink_logit", share))) as pilot:
        shown = await until(pilot, "drift")
        whole(shown)
        assert f"woken o {woken}/105, logits take {share:.2f}" in shown
        marks = pilot.app.screen.query_one(HeadGrid).marks
        assert list(marks.values()).count("woken") == woken


async def test_the_record_says_what_the_logits_take(told: Any, workers: list[Idle]) -> None:
    async with opened(session_of(told, sunk(0.75))) as pilot:
        shown = await until(pilot, "perplexity")
        whole(shown)
        for words in ("after pass 1: sink logit, step 30 kept", f"0 of {N} after", "logits take 0.750"):
            assert words in shown
        await pilot.press("d")
        shown = await until(pilot, "alone, nats")
        whole(shown)
        assert "×" in shown and " o " not in shown.split("alone, nats")[1]
        await pilot.press("o")
        shown = await until(pilot, "after + logit")
        whole(shown)
        assert "0.600 → 0.100 + 0.750  sick" in shown


async def test_a_treatment_chosen_in_the_form_is_the_one_that_is_asked_for(told: Any, workers: list[Idle]) -> None:
    session = told()
    async with opened(session) as pilot:
        await until(pilot, "sick at")
        await pilot.press("enter", "b", "e")
        await until(pilot, "Plan of the pass")
        await pilot.press(*"/texts/c4.txt", *["down"] * 9, *["backspace"] * 12, *"sink_logit", "enter")
        shown = await until(pilot, "sink logit")
        whole(shown)
        assert "lr 0.1" in shown  # a logit's own rate, since none was written
        assert f"{N}  " in shown.split("train")[1].split("\n")[0]  # one number per target
        await pilot.press("e")
        await until(pilot, "Plan of the pass")
        await pilot.press(*["down"] * 9, *["backspace"] * 10, *"prune", "enter")
        shown = await until(pilot, "pruned")
        assert "lr" not in shown and "time" not in shown
        await pilot.press("enter")
        await settled(pilot)
        story.append(session, iter([events.WorkerStarted(pid=2), story.LOADED]))
        await until(pilot, "asked to operate")
        (command,) = commands_of(session)
        assert command["plan"]["treatment"] == "prune"
