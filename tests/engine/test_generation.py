"""The figures of a generated text, each on texts made by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import InputError
from engine.generation import (
    CATEGORIES,
    Prompt,
    Sampling,
    averages,
    by_category,
    is_empty,
    judge,
    language_of,
    language_switched,
    longest_loop,
    looks_like_code,
    looks_like_code_lines,
    markup,
    read_prompts,
    repeated_ngrams,
    script_switched,
    words,
)

EN = Prompt("fox", "The fox looked at the dog and said", "narrative", "en")
FR = Prompt("pluie", "Il pleuvait sur la ville", "french_spanish", "fr")
CODE = Prompt("sum", "def sum(a, b):\n", "code", "code")

ENGLISH = "The men were in the house and it was late when they had eaten what there was to eat."
FRENCH = "Les hommes étaient dans la maison et il était tard quand ils avaient mangé ce qu'il y avait."
SPANISH = "Los hombres estaban en la casa y era muy tarde cuando por fin había algo para ellos."
GERMAN = "Die Männer waren in dem Haus und es war spät, als sie auch das aßen, was noch da war."
PYTHON = "    if m:\n        raise TypeError('{!r}')\n    m = m.co\n    return m\n"
AUSTEN = (
    "her sister was of another mind;\nand though she begged to return\nto the house, public opinion held;\n"
    "class distinctions: these alone decided it;\nfor he had said:\nnothing."
)


def test_words_are_what_a_reader_counts() -> None:
    assert words("Don't go, René!") == ["don", "'", "t", "go", ",", "rené", "!"]
    assert words("日本 ok") == ["日", "本", "ok"]


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("", 0.0),
        ("one two three", 0.0),  # shorter than one 4-gram
        ("a b c d e f g", 0.0),
        ("a b c d a b c d", 0.2),  # abcd bcda cdab dabc abcd: the fifth is the first again
        ("a b c d x a b c d y A B C D", 0.1818),  # 11 four-grams, abcd comes back twice
        ("no " * 10, 0.8571),  # 7 four-grams, all alike: 6 / 7
    ],
)
def test_repeated_ngrams(text: str, share: float) -> None:
    assert repeated_ngrams(text) == share


@pytest.mark.parametrize(
    ("text", "length"),
    [
        ("", 0),
        ("a b c d", 0),
        ("he had had enough", 2),
        ("well no no no then", 3),
        ("so it goes, so it goes, so it", 10),
        ("a b a", 0),  # a unit of two that is not said twice
        ("a b a b a", 5),
        ("!!!!!", 5),
        ("哈哈哈", 3),
        (" ".join(f"w{i}" for i in range(17)) + " " + " ".join(f"w{i}" for i in range(17)), 0),  # too long a unit
    ],
)
def test_longest_loop(text: str, length: int) -> None:
    assert longest_loop(text) == length


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("plain words, 3 < 4 and 5 > 2; a & b", []),
        ("he said <p>hello</p>", ["tag"]),
        ('see <a href="x.html">here</a>', ["tag"]),
        ("<br/>", ["tag"]),
        ("fish &amp; chips", ["entity"]),
        ("it&#8217;s", ["entity"]),
        (r"\begin{equation} x", ["latex"]),
        ("| a | b |\n|---|---|", ["table"]),
        ("## A heading\ntext", ["markdown"]),
        ("[a link](https://example.org)", ["markdown"]),
        ("[[Category:Birds]]", ["wiki"]),
        ("<b>a</b> &nbsp;", ["tag", "entity"]),
    ],
)
def test_markup(text: str, kinds: list[str]) -> None:
    assert markup(EN, text) == kinds


def test_markup_that_was_asked_for_is_none() -> None:
    asked = Prompt("page", "<html><body>")
    assert markup(asked, "<p>text</p> &amp;") == ["entity"]
    assert markup(CODE, "List<String> x;\n# a comment\n") == []
    assert markup(CODE, "if (a &lt; b)") == ["entity"]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (ENGLISH, False),
        (AUSTEN, False),
        (PYTHON, True),
        ("\n\ndef find(self):\n", True),
        ("\nimport numpy as np\n", True),
        ("from the town import duties were raised\n", False),
        ("int main() {\n    return 0;\n}\n", True),
        ("#include <stdio.h>", True),
        ("public static void main(String[] a)", True),
        ("const x = 3", True),
        ("The result is x = 3", False),
        ("E = mc2\nwhere E is the energy", False),  # one line that looks like it
        ("== History ==\nIt began early.\n== Later ==", False),
        ("function of the heart", False),
    ],
)
def test_code_where_none_was_asked(text: str, code: bool) -> None:
    assert looks_like_code(EN, text) is code
    assert not looks_like_code(CODE, text)
    assert not looks_like_code(Prompt("own", "import sys\n"), text)


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("only Latin, and ça va", 0.0),
        ("abc где", 0.5),
        ("да", 1.0),
        ("日本語 ab", 0.6),
        ("α 1 2 3 !", 1.0),
        ("12 % 34", 0.0),
        ("ªµ𝐱", 0.0),  # signs that belong to no script of their own
        ("", 0.0),
    ],
)
def test_script_switched(text: str, share: float) -> None:
    assert script_switched(EN, text) == share


def test_a_prompts_own_script_is_expected() -> None:
    assert script_switched(Prompt("own", "Жили-были"), "дед и баба") == 0.0
    assert script_switched(Prompt("own", "Жили-были"), "ab где") == 0.4
    assert script_switched(Prompt("own", "昔々"), "あるところに") == 0.0
    assert script_switched(Prompt("own", "1 2 3"), "где") == 0.0  # nothing was expected


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (ENGLISH, "en"),
        (FRENCH, "fr"),
        (SPANISH, "es"),
        (GERMAN, "de"),
        ("", None),
        ("The cat", None),
        ("x " * 50, None),
    ],
)
def test_language_of(text: str, language: str | None) -> None:
    assert language_of(text) == language


def test_language_switched() -> None:
    assert language_switched(FR, ENGLISH) and not language_switched(FR, FRENCH)
    assert language_switched(FR, SPANISH)
    assert not language_switched(FR, "oui")  # too little to tell
    assert not language_switched(CODE, ENGLISH)
    assert language_switched(Prompt("own", GERMAN), ENGLISH) and not language_switched(Prompt("own", GERMAN), GERMAN)
    assert not language_switched(Prompt("own", "42"), ENGLISH)


@pytest.mark.parametrize(("text", "empty"), [("", True), (" \n\t", True), ("\x00\ufffd", True), (".", False)])
def test_is_empty(text: str, empty: bool) -> None:
    assert is_empty(text) is empty


def test_means_over_texts_and_by_category() -> None:
    texts = [judge(EN, "no no no <p>", 8), judge(FR, ENGLISH, 20), judge(EN, "", 0), judge(EN, "fine", 4)]
    whole = averages(texts)
    assert (whole["texts"], whole["tokens"]) == (4, 8.0)
    assert whole["markup"] == 0.25 and whole["empty"] == 0.25 and whole["language_switched"] == 0.25
    assert whole["longest_loop"] == 0.75
    groups = by_category(texts)
    assert list(groups) == ["narrative", "french_spanish"]
    assert groups["french_spanish"]["language_switched"] == 1.0 and groups["narrative"]["texts"] == 3
    assert averages([])["texts"] == 0


@given(st.text())
def test_any_text_can_be_judged_and_written_down(text: str) -> None:
    found = judge(EN, text, 3)
    assert 0 <= found.repeated_ngrams <= 1 and 0 <= found.script_switched <= 1
    found.text.encode("utf-8")


def test_a_lone_surrogate_becomes_harmless() -> None:
    assert judge(EN, "a\ud800b", 3).text == "a?b"


def test_the_built_in_prompts() -> None:
    prompts = read_prompts()
    assert len(prompts) == len({p.name for p in prompts}) == len({p.text for p in prompts}) == 50
    assert {c: sum(p.category == c for p in prompts) for c in CATEGORIES} == dict.fromkeys(CATEGORIES, 10)
    assert {p.language for p in prompts if p.category == "french_spanish"} == {"fr", "es"}
    for prompt in prompts:  # the rules must not find in a prompt what was not asked for
        assert language_of(prompt.text) in (None, prompt.language) or prompt.language == "code"
        assert prompt.language == "code" or not looks_like_code_lines(prompt.text)
        assert markup(EN, prompt.text) == [] or prompt.language == "code"


def test_prompts_of_ones_own(tmp_path: Path) -> None:
    lines = tmp_path / "own.txt"
    lines.write_text("Once upon a time\n\n  two\u2028lines\n", "utf-8")
    assert read_prompts(str(lines)) == [Prompt("line 1", "Once upon a time"), Prompt("line 3", "  two\u2028lines")]
    objects = tmp_path / "own.jsonl"
    named = {"name": "a", "text": "x\ny", "category": "poem", "language": "en"}
    objects.write_text(json.dumps({"text": "x"}) + "\n" + json.dumps(named) + "\n", "utf-8")
    assert read_prompts(str(objects)) == [Prompt("line 1", "x"), Prompt("a", "x\ny", "poem", "en")]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("no.txt", None, "file of prompts not found"),
        ("empty.txt", b"\n \n", "holds no prompt"),
        ("bytes.txt", b"\xff\xfe", "is not UTF-8"),
        ("bad.jsonl", b"{}\n", "line 1 of .* is no JSON object with a `text`"),
        ("bad.jsonl", b'{"text": " "}\n', "has an empty `text`"),
        ("bad.jsonl", b"[1]\n", "is no JSON object"),
    ],
)
def test_prompts_that_cannot_be_read(tmp_path: Path, name: str, content: bytes | None, says: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=says):
        read_prompts(str(tmp_path / name))


@pytest.mark.parametrize("wrong", [{"temperature": 0.0}, {"top_p": 0.0}, {"top_p": 1.1}, {"new_tokens": 0}])
def test_sampling_that_makes_no_sense_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match="temperature above 0"):
        Sampling(**wrong)  # type: ignore[arg-type]
