from __future__ import annotations

from pathlib import Path

import pytest
import torch

from engine import events, record
from engine.errors import InputError
from engine.nn.corpus import read_corpus
from engine.nn.load import Patient
from engine.nn.looking import watched
from engine.nn.worker import carry_out
from engine.plan import Plan
from engine.session import create_session
from engine.verify import verify


@pytest.fixture(autouse=True)
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADSURGEON_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def other(tmp_path: Path) -> Path:
    path = tmp_path / "trees.txt"
    path.write_text("\n\n".join(f"Tree {i} is {i * i % 17} years older than tree {i * 3 % 19}." for i in range(200)))
    return path


def plan(corpus: Path, **values: object) -> Plan:
    few = {"steps": 1, "length": 16, "accumulate": 2, "heldout_samples": 9, "generate": False}
    return Plan.model_validate({"targets": "L1-H0", "corpus": [str(corpus)], **few, **values})


def test_beginnings_of_texts_and_held_out_parts_of_corpora_are_watched(
    patient: Patient, corpus: Path, other: Path
) -> None:
    found = watched(patient, plan(corpus, watch=[str(other)], watch_heldout=[str(other)]), lambda tokens: None)
    assert list(found) == [str(other), f"{other} (held out)"]
    assert patient.tokenizer.decode(found[str(other)][0, 1:].tolist()) == other.read_text()[:15]
    held = read_corpus(patient, plan(other), lambda tokens: None).all_heldout
    assert torch.equal(found[f"{other} (held out)"], held)
    assert held.shape == (9, 16)


def test_two_corpora_are_held_out_alike_where_they_are_trained_on_and_where_they_are_watched(
    folder: Path, corpus: Path, other: Path, tmp_path: Path
) -> None:
    """The first pass watches what the second trains on, in other words and fewer samples: stock reads both alike."""
    (tmp_path / "texts.txt").write_text("some words to look at\nand a second line of them\n")
    plans = [
        plan(corpus, watch_heldout=[str(other)], samples=3),
        plan(other, watch_heldout=[str(corpus)], vocabulary=3, layout="one_line"),
    ]
    request = events.Created(
        session="",
        model=str(folder),
        device="cpu",
        texts=str(tmp_path / "texts.txt"),
        plans=[made.model_dump() for made in plans],
    )
    session = create_session(tmp_path / "sessions", request)
    carry_out(session)
    first, second = record.load(session).passes
    assert first.perplexity_stock == {f"{other} (held out)": second.heldout_perplexity_stock}
    assert second.perplexity_stock == {f"{corpus} (held out)": first.heldout_perplexity_stock}
    assert first.heldout_perplexity_stock != second.heldout_perplexity_stock
    assert first.perplexity_after is not None
    assert list(first.perplexity_after) == [f"{other} (held out)"]
    assert first.perplexity_after == {f"{other} (held out)": second.heldout_perplexity_before}
    assert (first.samples, second.vocabulary, second.layout) == (3, 3, "one_line")
    assert first.corpus[0].train_tokens == 45
    assert [claim for claim in verify(session) if claim.holds is False] == []


def test_a_source_that_is_too_short_to_be_watched_is_named(patient: Patient, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("short")
    with pytest.raises(InputError, match=r"held-out part of .*short\.txt is shorter than one sample"):
        watched(patient, plan(corpus, watch_heldout=[str(tmp_path / "short.txt")]), lambda tokens: None)
