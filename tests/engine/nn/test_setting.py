from __future__ import annotations

from pathlib import Path

import pytest

from engine import events
from engine.chart import read_chart
from engine.nn.corpus import read_corpus
from engine.nn.load import Patient
from engine.nn.worker import Worker
from engine.plan import Plan
from engine.session import create_session
from engine.targets import Model, resolve
from engine.verify import verify
from tests.engine.nn.test_operate import make_plan, set_up


@pytest.fixture(autouse=True)
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADSURGEON_CACHE", str(tmp_path / "cache"))


def test_targets_are_named_by_the_newest_map_or_by_stock_as_the_plan_says(
    folder: Path, corpus: Path, tmp_path: Path
) -> None:
    (tmp_path / "texts.txt").write_text("some words to look at\nand a second line of them\n")
    request = events.Created(session="", model=str(folder), device="cpu", texts=str(tmp_path / "texts.txt"))
    session = create_session(tmp_path / "sessions", request)
    common = {"corpus": [str(corpus)], "steps": 1, "length": 16, "accumulate": 1, "generate": False}
    with session.held():
        worker = Worker(session)
        worker.open()
        worker.run_pass(Plan.model_validate({"targets": "L1-H0", **common}))
        maps = read_chart(session).maps
        masses = [maps[stage].bos_mass[1][0] for stage in ("stock", "pass-1")]
        assert abs(masses[0] - masses[1]) > 0.01
        targets = f"L2-H3 | L1-H0 & bos>{sum(masses) / 2:.4f}"  # the head is named by one of the two maps alone
        for classes in ("now", "stock"):
            worker.run_pass(Plan.model_validate({"targets": targets, "classes": classes, **common}))
        worker.close()
    _, now, stock = read_chart(session).passes
    for made, stage in ((now, "pass-1"), (stock, "stock")):
        assert made.targets == resolve(targets, Model.of(maps[stage]))
    assert {len(now.targets), len(stock.targets)} == {1, 2}
    assert [claim for claim in verify(session) if claim.holds is False] == []


def test_an_epoch_goes_through_the_samples_that_a_plan_allows(patient: Patient, corpus: Path, tmp_path: Path) -> None:
    found = set_up(patient, make_plan(corpus, steps=None, epochs=4, samples=5), tmp_path)
    assert (len(found.corpus.train), found.n_samples, found.n_steps) == (5, 20, 5)
    more = set_up(patient, make_plan(corpus, steps=6, samples=5), tmp_path)
    assert (len(more.corpus.train), more.n_samples) == (5, 24)
    all_ = read_corpus(patient, make_plan(corpus, steps=None), lambda tokens: None)
    assert len(all_.train) > 5
