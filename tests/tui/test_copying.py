from __future__ import annotations

import base64
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from tests.tui.conftest import Idle, opened, settled, until
from tui.app import Headsurgeon
from tui.copying import offline, short, write_screenshot


def test_a_path_is_shown_whole_or_by_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "home" / "sessions" / "one" / "copied.txt"
    assert short(path, 400) == str(path)
    assert short(path, 25) == "~/sessions/one/copied.txt"
    assert short(path, 22) == "…/one/copied.txt"


def test_pictures_are_numbered_and_ask_the_web_for_nothing(tmp_path: Path) -> None:
    svg = (
        "<svg><!-- made at https://example.org --><style>@font-face { src: url(https://example.org/f.woff2) }\n"
        "@font-face { src: url(https://example.org/g.woff2) }\n.m { font-family: Fira Code, monospace; }</style></svg>"
    )
    assert "http" not in offline(svg) and "Fira" not in offline(svg) and "monospace;" in offline(svg)
    first = write_screenshot(tmp_path, "load", svg, "words\n")
    second = write_screenshot(tmp_path, "load", svg, "other words\n")
    assert (first.name, second.name) == ("screen-1-load.svg", "screen-2-load.svg")
    assert first.with_suffix(".txt").read_text() == "words\n"


async def test_a_copied_value_goes_to_the_clipboard_and_to_a_file_that_is_named(
    told: Any, workers: list[Idle], monkeypatch: pytest.MonkeyPatch
) -> None:
    session = told()
    async with opened(session, (200, 40)) as pilot:
        await until(pilot, "sick at")
        sent: list[str] = []
        assert pilot.app._driver is not None
        monkeypatch.setattr(pilot.app._driver, "write", sent.append)
        await pilot.press("n", "y")  # L2-H3
        copied = session.exports / "copied.txt"
        await until(pilot, f"copied, also to {copied}")
        assert copied.read_text() == (
            "bloom-story stock L2-H3: bos_sink, BOS mass 0.6000 (95 % 0.5700-0.6300), entropy 1.420 nats\n"
        )
        assert sent == [f"\x1b]52;c;{base64.b64encode(copied.read_bytes().rstrip()).decode()}\x07"]
        await pilot.press("f", "y")
        await settled(pilot)
        assert copied.read_text() == f"{session.folder}\n"


async def test_a_screenshot_is_what_the_screen_shows(told: Any, workers: list[Idle]) -> None:
    session = told()
    async with opened(session) as pilot:
        await until(pilot, "sick at")
        shown = await settled(pilot)
        await pilot.press("Y")
        assert "exports/screen-1-diagnose.svg and .txt" in await settled(pilot)
        text = (session.exports / "screen-1-diagnose.txt").read_text()
        assert text.splitlines() == [row.rstrip() for row in shown.splitlines()]
        svg = (session.exports / "screen-1-diagnose.svg").read_text()
        drawn = "".join(ElementTree.fromstring(svg).itertext()).replace("\xa0", " ")
        assert "bos_sink" in drawn and "H9–H15" in drawn and "url(http" not in svg


async def test_without_a_session_pictures_go_to_the_cache_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    async with Headsurgeon(tmp_path / "none").run_test(size=(80, 24)) as pilot:
        await until(pilot, "no sessions yet")
        await pilot.press("y")
        await until(pilot, "nothing to copy")
        await pilot.press("Y")
        await until(pilot, "written:")
        assert {path.name for path in (tmp_path / "cache" / "headsurgeon").iterdir()} == {
            "screen-1-load.svg",
            "screen-1-load.txt",
        }


async def test_where_nothing_can_be_written_the_reason_is_said(told: Any, workers: list[Idle]) -> None:
    session = told()
    session.exports.write_text("a file where the folder should be")
    async with opened(session) as pilot:
        await until(pilot, "sick at")
        await pilot.press("y")
        await until(pilot, "not written:")
