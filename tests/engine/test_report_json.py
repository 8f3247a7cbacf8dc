"""report.json: one object, the record as it is and what the report works out of it."""

import json

import pytest

from engine.chart import Chart
from engine.report.material import Material, gather
from engine.report.plain import report_json
from tests.engine import story
from tests.engine.story import DIAGNOSED, WHOLE_PASS
from tests.engine.test_report import RUNNING, report_of


def refuse(constant):
    raise AssertionError(f"{constant} is no JSON")


def read(text):
    return json.loads(text, parse_constant=refuse)


def test_the_record_and_what_follows_from_it(tmp_path):
    found = read(report_of(tmp_path, WHOLE_PASS)["report.json"])
    assert found["format"] == "headsurgeon-report-1"
    assert found["record"]["diagnosis"]["stock"]["bos_mass"] == story.STOCK
    assert found["record"]["pass"][0]["heldout_perplexity_cut"] == 132.89
    derived = found["derived"]
    assert derived["heads"] == 12
    assert derived["healthy"] == {"stock": 6, "pass-1": 8}
    assert derived["shares"]["stock"]["dead"] == pytest.approx(2 / 12)
    assert derived["heads_by_worth"]["stock"][:2] == ["L1-H3", "L2-H3"]
    (p,) = derived["passes"]
    assert (p["number"], p["at_step"], p["woken"], p["best_checked_step"]) == (1, 40, 2, 40)
    assert p["working_gained"] == 0.714  # 0.744 less 0.030
    assert p["heldout_ratio_to_stock"] == pytest.approx(55.2 / 128.98)
    assert p["zones"] == {"targets": 2, "in_band_frozen": 0, "outside": 10}
    assert p["frozen_unchanged"] is True
    assert [(t["head"], t["woken"], t["worth_after"]) for t in p["targets"]] == [
        ("L1-H2", True, 0.512),
        ("L1-H3", True, 0.25),
    ]


def test_what_is_worked_out_of_the_checks(tmp_path):
    derived = read(report_of(tmp_path, WHOLE_PASS)["report.json"])["derived"]
    found = derived["passes"][0]["analysis"]
    assert found["heldout"]["crossed"] == 20 and found["heldout"]["best"] == {"step": 40, "value": 55.2}
    assert found["phases"]["reading"] == "cannot be told: 2 checks"
    assert [column["index"] for column in found["columns"]] == [0, 1, 2, 3]
    assert found["outside"]["mean"]["points"][0] == {"step": 0, "value": 0.014}
    assert derived["paper"] == []


def test_what_is_not_known_yet_is_null(tmp_path):
    (p,) = read(report_of(tmp_path, RUNNING)["report.json"])["derived"]["passes"]
    assert (p["at_step"], p["heldout_perplexity"]) == (20, 70.0)
    assert p["working_gained"] is None and p["frozen_unchanged"] is None
    early = read(report_of(tmp_path / "early", DIAGNOSED[:1])["report.json"])
    assert early["derived"]["heads"] == 0 and early["derived"]["passes"] == []


def test_no_number_is_other_than_finite(tmp_path):
    found = gather(story.tell(tmp_path / "story", [*DIAGNOSED, story.started()]))
    found.record.passes[0].lr = float("nan")
    found.record.passes[0].perplexity_stock["austen"] = float("inf")
    p = read(report_json(Material(found.record, Chart(), found.maps)))["record"]["pass"][0]
    assert p["lr"] is None and p["perplexity_stock"] == {"austen": None}
