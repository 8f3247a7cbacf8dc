"""Generated texts and heads' contributions in the chart and the record."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from engine import events
from engine.chart import read_chart
from engine.record import build, dumps, load
from tests.engine import story

TOLD = [
    *story.DIAGNOSED,
    story.generated(),
    story.contributed(),
    story.started(),
    story.cut(),
    story.ended(),
    story.generated("pass-1", " no no no <p>"),
    story.contributed("pass-1"),
]


def test_the_chart_keeps_them_by_stage_and_undo_forgets_the_pass(tmp_path: Path) -> None:
    chart = read_chart(story.tell(tmp_path / "story", TOLD))
    assert list(chart.generated) == list(chart.contributions) == ["stock", "pass-1"]
    assert chart.contributions["stock"].rows[1][3] == 0.0097
    undone = read_chart(story.tell(tmp_path / "undone", [*TOLD, events.Undone(number=1)]))
    assert list(undone.generated) == list(undone.contributions) == ["stock"]


def test_the_record_has_the_figures_first_and_the_texts_last(tmp_path: Path) -> None:
    session = story.tell(tmp_path / "story", TOLD)
    assert load(session) == build(read_chart(session))
    text = session.record.read_text("utf-8")
    tables = [line for line in text.splitlines() if line.startswith("[")]
    assert tables[-4:] == [f"[[generation.{stage}.text]]" for stage in ("stock", "stock", "pass-1", "pass-1")]
    assert not any(".text]]" in table for table in tables[:-4])
    data = tomllib.loads(text)
    stock, after = data["generation"]["stock"], data["generation"]["pass-1"]
    assert (stock["temperature"], stock["top_p"], stock["new_tokens"], stock["seed"]) == (0.7, 0.92, 4, 42)
    assert stock["figures"]["texts"] == 2 and list(stock["category"]) == ["narrative", "code"]
    assert after["category"]["narrative"]["markup"] == 1.0 and after["category"]["narrative"]["longest_loop"] == 3.0
    assert [t["prompt"] for t in after["text"]] == ["fox", "sum"]
    assert (after["text"][0]["prompt_text"], after["text"][0]["text"]) == ("The fox saw", " no no no <p>")
    assert after["text"][0]["markup"] == ["tag"]
    contribution = data["contribution"]["stock"]
    assert (contribution["text"], contribution["tokens"], contribution["rows"][0][3]) == ("bible.txt", 4088, 0.006)


@pytest.mark.parametrize(
    "written",
    [
        "",
        "\x00\x01\x1b[31m\x7f\x85\r\n\t",
        '"""\n\'\'\' \\ \\u0041 "',
        "[\n    1,\n    2,\n]\n",
        "[[pass]]\nnumber = 9\n",
        "\ufffe\uffff\U0010ffff",
    ],
)
def test_any_text_stands_in_the_record_as_it_was_written(tmp_path: Path, written: str) -> None:
    session = story.tell(tmp_path / "story", [*story.DIAGNOSED, story.generated(text=written)])
    record = load(session)
    assert record.generation["stock"].text[0].text == written
    assert tomllib.loads(dumps(record)) == tomllib.loads(session.record.read_text("utf-8"))


def test_a_surrogate_that_no_file_can_hold_becomes_a_question_mark(tmp_path: Path) -> None:
    session = story.tell(tmp_path / "story", [*story.DIAGNOSED, story.generated(text="a\ud800b")])
    assert load(session).generation["stock"].text[0].text == "a?b"


def test_unknown_keys_beside_the_texts_are_kept(tmp_path: Path) -> None:
    session = story.tell(tmp_path / "story", TOLD)
    text = session.record.read_text("utf-8")
    text = text.replace("[[generation.stock.text]]\n", "[[generation.stock.text]]\nmood = [1, 2]\n")
    text = text.replace("[generation.pass-1]\n", "[generation.pass-1]\nmin_p = 0.1\n")
    session.record.write_text(text, "utf-8")
    data = tomllib.loads(text)
    assert data["generation"]["stock"]["text"][1]["mood"] == [1, 2] and data["generation"]["pass-1"]["min_p"] == 0.1
    assert tomllib.loads(dumps(load(session))) == data


def test_a_stage_without_texts_and_a_record_without_stages(tmp_path: Path) -> None:
    none = replace(story.generated(), continuations=[])
    session = story.tell(tmp_path / "story", [*story.DIAGNOSED, none])
    assert load(session).generation["stock"].text == []
    plain = story.tell(tmp_path / "plain", story.DIAGNOSED)
    assert load(plain).generation == {} and load(plain).contribution == {}
