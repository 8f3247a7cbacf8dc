import json
from dataclasses import replace

import pytest

from engine import events, show
from engine.heads import Head, HeadMap, ProbeText
from engine.journal import Entry
from tests.engine import story


def test_json_holds_both_intervals_and_the_slope_of_each_head():
    found = replace(story.head_map(), entropy_low=[[0.1] * 4] * 3, entropy_high=[[2.5] * 4] * 3)
    data = json.loads(json.dumps(show.diagnosis_json(story.LOADED, found), allow_nan=False))
    head = data["heads"][1 * 4 + 2]
    assert (head["layer"], head["head"], head["bos_mass"], head["bos_interval"]) == (1, 2, 0.70, [0.68, 0.72])
    assert (head["entropy"], head["entropy_interval"]) == (1.0, [0.1, 2.5])
    assert (data["mean_distance"], data["last_distance"]) == (19.5, 63)  # of texts of 16 and 64 tokens
    assert (head["slope"], head["penalty_at_100"]) == (0.015625, 1.5625)
    assert head["penalty_at_mean"] == pytest.approx(0.015625 * 19.5, abs=1e-4)
    assert head["penalty_at_last"] == pytest.approx(0.015625 * 63, abs=1e-4)


def test_json_names_the_uniform_baseline_of_every_text():
    data = show.diagnosis_json(story.LOADED, story.head_map())
    assert [text["uniform_bos_mass"] for text in data["texts"]] == pytest.approx([0.2113, 0.0741], abs=1e-4)
    assert data["uniform_bos_mass"] == pytest.approx((0.2113 + 0.0741) / 2, abs=1e-4)


def test_people_read_slopes_and_what_they_take_off():
    lines = show.diagnosis_text(story.LOADED, story.head_map()).splitlines()
    assert "2 texts of 16–64 tokens; position 0 held “<s>”, “The”" in lines
    assert "BOS mass of uniform attention on these texts: 0.143 (0.211 on 16 tokens, 0.074 on 64)" in lines
    heading = next(line for line in lines if "at 100" in line)
    assert heading.split() == ["slope", "at", "100", "at", "20", "at", "63"]
    assert lines[lines.index(heading) + 1].split() == ["H0", "0.2500", "-25.00", "-4.88", "-15.75"]
    assert not any("context" in line for line in lines)


def test_a_model_without_slopes_has_none_listed():
    patient = replace(story.LOADED, slopes=[], position_encoding="rope")
    assert "ALiBi" not in show.diagnosis_text(patient, story.head_map())
    assert "slope" not in show.diagnosis_json(patient, story.head_map())["heads"][0]


def test_one_text_that_fills_the_context():
    found = HeadMap([[0.5001]], [[1.0]], [[0.5001]], [[0.5001]], [ProbeText("prompt", 512, "The")])
    text = show.diagnosis_text(replace(story.LOADED, slopes=[0.5]), found)
    assert "1 text of 512 tokens" in text
    assert "1 of them fill the context of 512 tokens" in text
    assert "borderline      0  (one text has no interval)" in text
    assert found.interval(Head(0, 0)) == (0.5001, 0.5001)


HOSTILE = "x\x1b[2J\x9b31m\r\ny"
SHOWN = r"x\x1b[2J\x9b31m\r\ny"


def test_no_name_and_no_error_of_a_session_is_obeyed_by_the_terminal():
    good = {"id": HOSTILE, "patient": HOSTILE, "state": HOSTILE, "healthy_before": 3, "healthy_after": 4}
    text = show.sessions_text([good, {"id": HOSTILE, "state": "unreadable", "error": HOSTILE}])
    first, second = text.split("\n")
    assert first.split() == [SHOWN, SHOWN, SHOWN, "3", "→", "4", "healthy"]
    assert second.split() == [SHOWN, "unreadable:", SHOWN]
    assert show.entry_line(Entry(1, "", events.Refused(message=HOSTILE))) == SHOWN
