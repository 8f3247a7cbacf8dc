"""Long texts read through windows: in the chart, the record, the report and the claims."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine import events
from engine.chart import read_chart
from engine.record import build, load, streams_of
from engine.report import write_report
from engine.session import Session
from engine.streaming import Arm, ArmFigures, Passage, sides
from engine.verify import verify
from tests.engine import story

A_TOKEN = 2 * 3 * 4 * 8 * 4  # K and V, 3 layers, 4 heads of 8 values in fp32
STOCK = {0: 60.0, 1: 41.0, 4: 40.0}
AFTER = {0: 51.0, 1: 50.5, 4: 50.0}
HERE = Passage("birds.txt", "ab" * 32, 300, 64)


def streamed(stage: str, way: str, anchors: int, perplexity: float, **other: Any) -> events.Streamed:
    held = {"full": 300, "anchors": 64, "recomputed": 0}[way]
    speed = {"full": 90.0, "anchors": 120.0, "recomputed": 8.0}[way]
    made = events.Streamed(
        stage=stage, text="birds.txt", text_sha256="ab" * 32, tokens=300, window=64, way=way, anchors=anchors,
        perplexity=perplexity, tokens_per_second=speed, cache_bytes=held * A_TOKEN,
    )  # fmt: skip
    return replace(made, **other)


def reading(stage: str, by_anchors: dict[int, float], full: float) -> list[events.Event]:
    return [
        streamed(stage, "full", 0, full),
        *(streamed(stage, "anchors", number, value) for number, value in by_anchors.items()),
        streamed(stage, "recomputed", 0, by_anchors[0]),
    ]


STARTED = events.StreamStarted(text="birds.txt", tokens=300, window=64)
TOLD = [
    *story.ONE_PASS[:-1],
    STARTED,
    *reading("stock", STOCK, 30.0),
    *reading("pass-1", AFTER, 45.0),
    events.StreamEnded(outcome="completed"),
    events.Closed(),
]


@pytest.fixture
def session(tmp_path: Path) -> Session:
    return story.tell(tmp_path / "story", TOLD)


def test_the_chart_has_every_arm_by_text_and_state(session: Session) -> None:
    chart = read_chart(session)
    assert list(chart.streams) == [HERE] and list(chart.streams[HERE]) == ["stock", "pass-1"]
    assert chart.streams[HERE]["pass-1"][Arm("anchors", 4)] == ArmFigures(50.0, 120.0, 64 * A_TOKEN)
    assert chart.streaming is None


def test_a_text_that_is_under_way_is_so_until_it_ends_or_the_worker_is_another(tmp_path: Path) -> None:
    begun = [*TOLD[: TOLD.index(STARTED) + 3]]
    assert read_chart(story.tell(tmp_path / "a", begun)).streaming == STARTED
    for number, end in enumerate((events.StreamEnded(outcome="stopped"), story.WORKER, events.Failed(message="no"))):
        chart = read_chart(story.tell(tmp_path / str(number), [*begun, end]))
        assert chart.streaming is None
        assert len(chart.streams[HERE]["stock"]) == 2


def test_undoing_a_pass_forgets_what_was_read_after_it(tmp_path: Path) -> None:
    chart = read_chart(story.tell(tmp_path / "undone", [*TOLD, events.Undone(number=1)]))
    assert list(chart.streams[HERE]) == ["stock"]
    only = [*story.ONE_PASS, streamed("pass-1", "full", 0, 45.0), events.Undone(number=1)]
    assert read_chart(story.tell(tmp_path / "none", only)).streams == {}


def test_the_text_that_was_read_last_stands_last(tmp_path: Path) -> None:
    other = streamed("stock", "full", 0, 9.0, text="other.txt")
    again = streamed("stock", "anchors", 8, 39.0)
    chart = read_chart(story.tell(tmp_path / "two", [*TOLD, other, again]))
    assert [passage.text for passage in chart.streams] == ["other.txt", "birds.txt"]


def test_the_record_says_the_same_and_one_without_it_still_loads(session: Session) -> None:
    record = load(session)
    assert record == build(read_chart(session))
    assert streams_of(record) == read_chart(session).streams
    assert [(t.stage, t.text, t.window, len(t.arm)) for t in record.stream] == [
        ("stock", "birds.txt", 64, 5),
        ("pass-1", "birds.txt", 64, 5),
    ]
    older = re.sub(r"\[\[stream(.arm)?\]\]\n[^\[]*", "", session.record.read_text("utf-8"))
    assert "stream" not in older
    session.record.write_text(older, "utf-8")
    assert load(session).stream == []


def test_the_newest_pass_stands_beside_stock() -> None:
    found = {Arm("full"): ArmFigures(1.0, 1.0, 1)}
    assert list(sides({"pass-2": found, "stock": found, "pass-10": found})) == ["stock", "after pass 10"]
    assert list(sides({"pass-2": found, "stock": {}})) == ["after pass 2"]


def test_the_report_has_a_table_a_picture_and_the_answer(session: Session, tmp_path: Path) -> None:
    write_report(session, tmp_path / "report")
    text = (tmp_path / "report" / "report.md").read_text("utf-8")
    assert "## A long text through a window" in text
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith(("| 4 anchors", "| full att"))]
    cells = [[cell.strip() for cell in row] for row in rows]
    assert cells[1] == ["4 anchors + window", "40.00", "120", "15.0", "50.00", "120", "15.0", "49 kB"]
    assert cells[0][1:5] == ["30.00", "90", "11.2", "45.00"]
    assert "without anchors and with 4: stock 60.00 and 40.00 (+50.0 %), after pass 1 51.00 and 50.00 (+2.0 %)" in text
    assert "stock needs them and after pass 1 it does not" in text
    picture = (tmp_path / "report" / "anchors-1.svg").read_text("utf-8")
    assert picture.count("<circle") == 6 and picture.count("<polyline") == 2 and picture.count('"6 4"') == 2
    heights = [float(y) for y in re.findall(r'cy="([\d.]+)"', picture)]
    assert heights[0] < heights[1] < heights[2]  # 60, 41, 40: higher up is more
    lines = (tmp_path / "report" / "stream.csv").read_text("utf-8").splitlines()
    assert len(lines) == 11
    assert lines[2] == f"birds.txt,300,64,stock,anchors,0,60.0,120.0,{64 * A_TOKEN}"
    derived = json.loads((tmp_path / "report" / "report.json").read_text("utf-8"))["derived"]["streams"]
    assert derived[0]["without_anchors"] == {"stock": 0.5, "pass-1": pytest.approx(0.02)}
    assert "A long text through a window" in (tmp_path / "report" / "report.tex").read_text("utf-8")


def test_the_claims_follow_the_caches_from_the_shape(session: Session, tmp_path: Path) -> None:
    found = [claim for claim in verify(session) if claim.name == "cache_bytes"]
    assert [(claim.where, claim.holds) for claim in found] == [("stream stock", True), ("stream pass-1", True)]
    grown = [*TOLD, streamed("stock", "anchors", 4, 40.0, cache_bytes=300 * A_TOKEN)]
    (stock, _) = [c for c in verify(story.tell(tmp_path / "grown", grown)) if c.name == "cache_bytes"]
    assert stock.holds is False
