"""Ways of reading a long text, as the command names and prints them."""

from __future__ import annotations

from typing import Any

import pytest

from engine.errors import InputError
from engine.streaming import (
    COMPARED,
    Arm,
    ArmFigures,
    answer,
    arms,
    cache_size,
    default_window,
    read_anchors,
    stream_text,
    told,
    why_not,
)


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
    one_line = " ".join(text.split())
    assert "without anchors and with 4: stock 60.00 and 40.00 (+50.0 %). On this text stock needs them" in one_line
    assert "published for × at most: 22.2" in text


def test_stock_and_after_fit_a_terminal() -> None:
    text = stream_text(found(after=True))
    assert "after perplexity" in text and "after: with cut" in text
    assert max(map(len, text.splitlines())) <= 80


def test_without_the_window_run_anew_there_is_no_ratio() -> None:
    far = found(after=False, tokens=COMPARED + 1)
    assert [row["ratio"] for row in far["stock"][0]["arms"]] == [None, None]
    assert f"up to --tokens {COMPARED} alone" in stream_text(far)


def side(**by_anchors: float) -> dict[Arm, ArmFigures]:
    return {Arm("anchors", int(name[1:])): ArmFigures(value, 1.0, 1) for name, value in by_anchors.items()}


@pytest.mark.parametrize(
    ("stock", "after", "verdict"),
    [
        (side(a0=60, a4=40), side(a0=51, a4=50), "stock needs them and after pass 1 it does not"),
        (side(a0=60, a4=40), side(a0=60, a4=50), "after pass 1 it still needs them, less than stock"),
        (side(a0=60, a4=40), side(a0=80, a4=50), "after pass 1 it still needs them, no less than stock"),
        (side(a0=41.9, a4=40), side(a0=39, a4=40), "neither stock nor after pass 1 does it need them"),
        (side(a0=40, a4=40), side(a0=42, a4=40), "stock does not need them and after pass 1 it does"),
        (side(a0=60, a4=40), {}, "On this text stock needs them"),
        ({}, side(a0=60, a4=40), "On this text after pass 1 it needs them"),
        ({}, side(a0=40, a4=40), "On this text after pass 1 it needs none"),
    ],
)
def test_what_the_figures_answer(stock: dict[Arm, ArmFigures], after: dict[Arm, ArmFigures], verdict: str) -> None:
    told = answer({name: found for name, found in (("stock", stock), ("after pass 1", after)) if found})
    assert verdict in told and "under 5 % counts as none" in told


def test_only_what_both_have_read_is_compared() -> None:
    stock, after = side(a0=60, a1=50, a4=40), side(a0=51, a1=50)
    told = answer({"stock": stock, "after pass 1": after})
    assert "with 1: stock 60.00 and 50.00 (+20.0 %), after pass 1 51.00 and 50.00 (+2.0 %)" in told
    told = answer({"stock": stock, "after pass 1": side(a0=51)})
    assert "with 4: stock 60.00 and 40.00" in told and "pass 1" not in told
    assert answer({"stock": side(a0=60)}) == answer({"stock": side(a1=60, a2=50)}) == ""


def test_who_cannot_stream() -> None:
    assert why_not("llama", [0, 0]) == ""
    assert "window of their own" in why_not("mistral", [0, 5])
    assert "of the family gpt2" in why_not("gpt2", [])


def test_a_window_suits_the_context_and_a_cache_has_a_size() -> None:
    assert [default_window(context) for context in (4, 64, 256, 2048)] == [2, 16, 64, 256]
    assert (cache_size(49_152), cache_size(201_326_592)) == ("49 kB", "201 MB")
