"""Text from outside is shown, never obeyed: markup, escape codes, line breaks, NUL, right-to-left and wide signs
in whatever a session can hold, on every step and in every window."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

import pytest
from textual.pilot import Pilot

from engine import events
from engine.generation import Continuation
from engine.heads import ProbeText
from engine.session import Session
from tests.tui import story
from tests.tui.conftest import Idle, opened, settled, until
from tui.app import Headsurgeon
from tui.painter import Painter
from tui.palette import fit, plain

NASTY = (
    "[red]x[b] [@click=app.quit]q \x1b[31m\x1b]52;c;aGk=\x07\x9b2J\n\r\t\0\x7f "
    "\u202etxet\u202c \u05e9\u05dc\u05d5\u05dd 漢字 e\u0301 \ufe0f"
)


def nasty_session(folder: Any) -> Session:
    """A finished session every free text of which is ``NASTY``."""
    session = Session(folder / "2026-11-30-[red]odd\x1b[31m-a1f3")
    session.folder.mkdir(parents=True)
    story.append(session, told())
    return session


def told() -> Iterator[events.Event]:
    texts = [ProbeText(NASTY, 64, NASTY) for _ in range(3)]
    for event in (*story.beginning("s", NASTY), *story.operation(40), *story.ending()):
        match event:
            case events.Loaded():
                yield dataclasses.replace(event, source=NASTY, device=NASTY, family=NASTY)
            case events.Diagnosed():
                yield dataclasses.replace(event, head_map=dataclasses.replace(event.head_map, texts=texts))
            case events.PassStarted():
                source = dataclasses.replace(event.corpus[0], source=NASTY)
                plan = {**event.plan, "corpus": [NASTY]}
                perplexity = {NASTY: 18.0}
                yield dataclasses.replace(event, plan=plan, corpus=[source], perplexity_stock=perplexity)
            case events.PassEnded():
                yield dataclasses.replace(event, perplexity_after={NASTY: 19.0})
            case _:
                yield event
    yield events.Attention(
        stage="pass-1", layer=0, head=0, text=NASTY, tokens=[NASTY] * 4,
        top=[[[0, 1.0]]] * 4, received=[0.7, 0.1, 0.1, 0.1],
    )  # fmt: skip
    yield events.Generated(
        stage="stock", temperature=0.7, top_p=0.9, new_tokens=8, seed=1,
        continuations=[Continuation(
            prompt=NASTY, category=NASTY, language=NASTY, prompt_text=NASTY, text=NASTY, tokens=8,
            repeated_ngrams=0.1, longest_loop=2, markup=[NASTY], code=False, script_switched=0.0,
            language_switched=False, empty=False,
        )],
    )  # fmt: skip
    yield events.Contributed(
        stage="pass-1", text=NASTY, samples=2, tokens=20, loss=3.0, rows=story.rows(lambda layer, head: 0.01)
    )
    yield events.Note(text=NASTY)


def check(pilot: Pilot[str]) -> str:
    """What the screen shows; fails where any of it would command a terminal."""
    strips = pilot.app.screen._compositor.render_strips()
    assert all(strip.cell_length == pilot.app.size.width for strip in strips)
    assert not {sign for strip in strips for sign in strip.text if not sign.isprintable()}
    return "\n".join(strip.text for strip in strips)


async def test_every_step_and_window_shows_it_as_it_is(tmp_path: Any, workers: list[Idle]) -> None:
    session = nasty_session(tmp_path)
    async with opened(session) as pilot:
        await until(pilot, "perplexity")
        assert "[red]x[b]" in check(pilot)  # the patient's name
        for step in "2345":
            await pilot.press(step)
            await settled(pilot)
            assert "[red]" in check(pilot)
            for window in {"2": "Aif?", "3": "", "4": "Lx", "5": "ocd"}[step]:
                await pilot.press(window)
                await settled(pilot)
                check(pilot)
                await pilot.press("escape" if len(pilot.app.screen_stack) > 2 else "5", step)
        await pilot.press("3", "e")
        await settled(pilot)
        strips = pilot.app.screen._compositor.render_strips()  # the plan: a field must hold its text as it is …
        painter = Painter("256")
        painter.resize(80, 24)
        sent = painter.update((y, 0, strip) for y, strip in enumerate(strips))
        assert (
            "[@click=app.quit]" in sent and re.sub(r"\x1b\[[0-9;]*[mHG]", "", sent).isprintable()
        )  # … but none goes out
        await pilot.press("escape", "slash", *"dead [red]")
        await settled(pilot)
        assert "[red]" in check(pilot)


async def test_the_list_of_sessions_and_what_goes_wrong(tmp_path: Any, workers: list[Idle]) -> None:
    nasty_session(tmp_path)
    async with Headsurgeon(tmp_path).run_test(size=(120, 30)) as pilot:
        await until(pilot, "276 → 380")
        assert "[red]odd" in check(pilot)
        await pilot.press("n", *"./[red]", "enter")
        await settled(pilot)
        assert "folder not found: [red]" in check(pilot)


@pytest.mark.parametrize("event", [events.Refused(message=NASTY), events.Failed(message=NASTY)])
async def test_a_workers_message(told: Any, workers: list[Idle], event: events.Event) -> None:
    session = told(until=40)
    async with opened(session) as pilot:
        await until(pilot, "perplexity")
        story.append(session, iter([events.Progress(what=NASTY), event]))
        await until(pilot, "[red]x[b] [@click=app.quit]q")
        check(pilot)


def test_columns_hold_however_wide_the_signs_are() -> None:
    assert fit("漢字漢字", 5) == "漢字…"
    assert fit("漢字漢字", 6) == "漢字… "
    assert fit("ab", 4) == "ab  "
    assert plain("a\u2028b\ue000c\u0301d") == "a·b·c·d"
