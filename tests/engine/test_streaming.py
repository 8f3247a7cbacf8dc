"""Ways of reading a long text, as the command names and prints them."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import InputError
from engine.streaming import COMPARED, Arm, ArmFigures, arms, read_anchors, stream_text, told


def test_anchors_are_numbers_between_commas() -> None:
    assert read_anchors("4, 0,1,4") == [0, 1, 4]
    for wrong in ("", "1,,2", "-1", "four"):
        with pytest.raises(InputError, match="is no list of numbers"):
            read_anchors(wrong)


def test_a_text_too_long_for_full_attention_is_streamed_alone() -> None:
    names = [arm.name for arm in arms([0, 1, 4], COMPARED)]
    assert names == ["full attention", "window alone", "1 anchor + window", "4 anchors + window", "window recomputed"]
    assert [arm.kind for arm in arms([0, 4], COMPARED + 1)] == ["anchors", "anchors"]


def found(after: bool, tokens: int = 300) -> dict[str, Any]:
    ways = arms([0, 4], tokens)
    figures = {Arm("full"): ArmFigures(30.0, 90.0, 3000), Arm("anchors", 0): ArmFigures(60.0, 100.0, 640)}
    figures |= {Arm("anchors", 4): ArmFigures(40.0, 120.0, 640), Arm("recomputed"): ArmFigures(41.0, 8.0, 0)}
    side = [told(64, {way: figures[way] for way in ways})]
    shape = {"model": "tiny", "dtype": "float32", "text": "birds.txt", "tokens": tokens, "context": 256}
    return {**shape, "patch": "cut" if after else None, "stock": side, "after": side if after else None}


def test_how_much_faster_than_recomputed_and_how_much_worse_without_anchors() -> None:
    rows = {row["arm"]: row for row in found(after=False)["stock"][0]["arms"]}
    assert {name: row["ratio"] for name, row in rows.items()} == {
        "full attention": 11.25,
        "window alone": 12.5,
        "4 anchors + window": 15.0,
        "window recomputed": 1.0,
    }
    assert rows["4 anchors + window"]["anchors"] == 4
    assert rows["full attention"]["anchors"] is None
    text = stream_text(found(after=False))
    assert "birds.txt: the 236 tokens after the first 64" in text
    assert "stock 60.00 without anchors and 40.00 with 4 (+50.0%). On this text stock" in " ".join(text.split())
    assert "published for × at most: 22.2" in text


def test_stock_and_after_fit_a_terminal() -> None:
    text = stream_text(found(after=True))
    assert "after perplexity" in text and "after: with cut" in text
    assert max(map(len, text.splitlines())) <= 80


def test_without_the_window_run_anew_there_is_no_ratio() -> None:
    far = found(after=False, tokens=COMPARED + 1)
    assert [row["ratio"] for row in far["stock"][0]["arms"]] == [None, None]
    assert f"up to --tokens {COMPARED} alone" in stream_text(far)
