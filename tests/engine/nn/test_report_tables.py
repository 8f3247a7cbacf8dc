"""The CSV files of a report as ``datasets`` opens them."""

from __future__ import annotations

from pathlib import Path

import datasets
import pytest

from engine.record import load
from engine.report.trial import write_trial_report
from engine.trial import sessions_in
from tests.engine.story import STOCK, WHOLE_PASS
from tests.engine.test_report import report_of
from tests.engine.test_report_markup import foul


def test_datasets_opens_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    rows = {}
    for name, told in (("whole", WHOLE_PASS), ("foul", foul('a,"b"\n=c', " x"))):
        report_of(tmp_path / name, told)
        for file in ("heads.csv", "perplexities.csv"):
            path = str(tmp_path / name / "out" / "report" / file)
            found = datasets.load_dataset("csv", data_files=path, split="train", cache_dir=str(tmp_path / "cache"))
            rows[name, file] = list(found)
    assert [row["bos_mass"] for row in rows["whole", "heads.csv"]] == [mass for row in STOCK for mass in row]
    assert [row["after"] for row in rows["whole", "perplexities.csv"]] == [55.2, 60.0, 40.0, 27.2]
    name = 'a,"b"\\n=c'
    assert [row["text"] for row in rows["foul", "perplexities.csv"]] == [None, name, "bible.txt", name, "bible.txt"]


def test_datasets_opens_those_of_a_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    (trial,) = (Path(__file__).parents[3] / "sessions").glob("*-healthy-column-demo-*")
    sessions = sessions_in(trial)
    passes = [load(session).passes[0] for session in sessions]
    rows = {}
    for path in (path for path in write_trial_report(sessions, tmp_path / "report") if path.suffix == ".csv"):
        found = datasets.load_dataset("csv", data_files=str(path), split="train", cache_dir=str(tmp_path / "cache"))
        rows[path.name] = list(found)
    assert [row["arm"] for row in rows["arms.csv"]] == ["band", "band and H3"]
    assert [row["heldout_perplexity"] for row in rows["series.csv"] if row["step"] > 0] == [
        check.heldout_perplexity for p in passes for check in p.check
    ]
    assert len(rows["heads.csv"]) >= 2 * 48
