"""Another size at any moment, on every step and with windows open, loses nothing."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.tui.conftest import Idle, opened, settled, text, until

WINDOWS = {"2": "?A", "3": "e", "4": "L", "5": ":o"}
SIZES = [(2, 1), (40, 10), (79, 24), (80, 23), (80, 24), (81, 25), (120, 40)]


@pytest.mark.parametrize("step", WINDOWS)
async def test_any_size_with_any_window(told: Any, workers: list[Idle], step: str) -> None:
    rng = random.Random(int(step))
    async with opened(told(until=40)) as pilot:
        await until(pilot, "perplexity")
        for window in ["", *WINDOWS[step]]:
            await pilot.press(step, *window)
            for _ in range(2):
                await pilot.resize_terminal(*rng.choice(SIZES))
            await pilot.resize_terminal(79, 24)
            assert "this terminal is 79×24" in await settled(pilot)
            await pilot.resize_terminal(80, 24)
            await settled(pilot)
            assert "headsurgeon needs" not in text(pilot)
            rows = text(pilot).splitlines()
            assert len(rows) == 24 and all(len(row) <= 80 for row in rows)
            await pilot.press("escape", "escape", "escape")
        await pilot.press(step)
        assert f"{step} " in await until(pilot, "q leave")
