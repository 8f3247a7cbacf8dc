"""Every step of recorded sessions in three sizes: dark, light, 256 and 16 colours, NO_COLOR. The sessions are
synthetic: 24×16 is ``story``, its pass over; 70×112 is ``large``, in the middle of its pass.

After a wanted change: ``HEADSURGEON_SNAPSHOTS=write pytest tests/tui/test_snapshots.py``, then read the difference.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from textual.pilot import Pilot

from engine import journal
from engine.session import Session
from tests.tui import large, story
from tests.tui.conftest import Idle, settled, until
from tests.tui.snapshots import Cells, cells, compare, picture
from tests.tui.test_stream import BOTH, streamed
from tui import estimate
from tui.app import Headsurgeon
from tui.screens import diagnose

SIZES = {"80x24": (80, 24), "120x40": (120, 40), "240x75": (240, 75)}
WAYS = ("dark", "light", "16 colours", "NO_COLOR")
SMALL = {"diagnose": ["2", "n"], "target": ["3", "s"], "operate": ["4"], "record": ["5"]}
LARGE = {"diagnose": ["2", "n"], "target": ["3", "s"], "operate": ["4"]}
SESSIONS: dict[str, tuple[Callable[[Path], Session], dict[str, list[str]], str]] = {
    "24x16": (lambda root: story.write_session(root, until=40), SMALL, "perplexity"),
    "70x112": (lambda root: large.write_session(root, 40), LARGE, "step 40 of"),
}


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Session]:
    """Both, written at one moment of the clock."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(journal, "now", lambda: "2026-11-30T12:00:00.000+00:00")
        return {name: write(tmp_path_factory.mktemp(name)) for name, (write, _, _) in SESSIONS.items()}


async def at_rest(pilot: Pilot[str]) -> None:
    """Wait until drawing again changes nothing."""
    before, same = await settled(pilot), 0
    while not same:
        now = await settled(pilot)
        before, same = now, same + 1 if now == before else 0


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The clock and what the machine holds stand still."""
    monkeypatch.setattr(estimate, "free_memory", lambda pid: 16_000_000_000)
    monkeypatch.setattr(estimate, "worker_memory", lambda pid: 0)
    monkeypatch.setattr(diagnose, "REST", 0.001)
    monkeypatch.setenv("HEADSURGEON_GLYPHS", "braille")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return monkeypatch


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", SESSIONS)
async def test_every_step_looks_as_it_did(
    sessions: dict[str, Session], workers: list[Idle], still: pytest.MonkeyPatch, name: str, size: str
) -> None:
    _, steps, words = SESSIONS[name]
    session = sessions[name]
    ways: dict[str, dict[str, Cells]] = {step: {} for step in steps}
    for no_color in (False, True):
        if no_color:
            still.setenv("NO_COLOR", "1")
        app = Headsurgeon(session.folder.parent, session.folder)
        async with app.run_test(size=SIZES[size]) as pilot:
            await until(pilot, words)
            for step, keys in steps.items():
                await pilot.press(*keys)
                await at_rest(pilot)
                if no_color:
                    ways[step]["NO_COLOR"] = cells(pilot, "256")
                    continue
                for theme in ("dark", "light") if app.theme == "dark" else ("light", "dark"):  # a change takes long
                    if app.theme != theme:
                        app.theme = theme
                        await settled(pilot)
                    ways[step][theme] = cells(pilot, "256")
                    if theme == "dark":
                        ways[step]["16 colours"] = cells(pilot, "standard")
    for step, shown in ways.items():
        compare(f"{name}-{step}-{size}", picture({way: shown[way] for way in WAYS}))


async def test_plans_a_trial_and_a_comparison_look_as_they_did(
    tmp_path: Path, workers: list[Idle], still: pytest.MonkeyPatch
) -> None:
    still.setattr(journal, "now", lambda: "2026-11-30T12:00:00.000+00:00")
    trial = story.write_trial(tmp_path)
    for index in (0, 2):
        story.carry(trial, index)
    story.carry(trial, 1, 20, ended=False)
    async with Headsurgeon(tmp_path, trial.folder).run_test(size=(80, 24)) as pilot:
        await until(pilot, "2 of 4 done")
        for screen, keys, words in (
            ("trial", ["down"], " cut-2: "),
            ("comparison", ["c"], "columns 1"),
            ("plans", ["escape", "escape", "P", "down"], "Does training alone"),
        ):
            await pilot.press(*keys)
            await until(pilot, words)
            await at_rest(pilot)
            ways = {"dark": cells(pilot, "256"), "16 colours": cells(pilot, "standard")}
            compare(f"{screen}-80x24", picture(ways))


async def test_a_long_text_looks_as_it_did(tmp_path: Path, workers: list[Idle], still: pytest.MonkeyPatch) -> None:
    still.setattr(journal, "now", lambda: "2026-11-30T12:00:00.000+00:00")
    session = story.write_session(tmp_path, until=40)
    story.append(session, streamed(BOTH))
    async with Headsurgeon(tmp_path, session.folder).run_test(size=(80, 24)) as pilot:
        await until(pilot, "perplexity")
        await pilot.press("S")
        await until(pilot, "dotted")
        await at_rest(pilot)
        compare("stream-80x24", picture({"dark": cells(pilot, "256"), "16 colours": cells(pilot, "standard")}))
