"""The command that reads a text on and on, in this process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine import cli
from engine.errors import InputError
from engine.heads import Head
from engine.nn.load import load
from engine.nn.patch import Patch, save_patch
from engine.nn.slices import slice_view
from tests.engine.nn.patients import make_patient, write_corpus


@pytest.fixture(autouse=True)
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder with a tiny patient and a text."""
    monkeypatch.chdir(tmp_path)
    make_patient(Path("tiny"))
    write_corpus(Path("birds.txt"), 12)


def test_stock_beside_repaired_per_window(capsys: pytest.CaptureFixture[str]) -> None:
    patient = load("tiny", "cpu")
    (piece,) = patient.anatomy.slices(Head(1, 2), "o")
    original = slice_view(patient, piece).clone()
    about = {"number": 1, "weights_sha256": patient.weights_sha256, "source": "tiny"}
    save_patch(Path("cut.safetensors"), Patch({piece.key: original * 0}, {piece.key: original}, about))
    few = ["--window", "8", "--window", "16", "--anchors", "0,2", "--tokens", "40", "--patch", "cut.safetensors"]
    assert cli.run(["stream", "tiny", "--text", "birds.txt", *few, "--json"]) == 0
    out, err = capsys.readouterr()
    found = json.loads(out)
    assert (found["tokens"], found["context"], found["patch"]) == (39, 64, "cut.safetensors")
    assert [side["window"] for side in found["stock"]] == [8, 16]
    names = ["full attention", "window alone", "2 anchors + window", "window recomputed"]
    for stock, after in zip(found["stock"], found["after"], strict=True):
        assert [row["arm"] for row in stock["arms"]] == names
        differ = [a["perplexity"] != b["perplexity"] for a, b in zip(stock["arms"], after["arms"], strict=True)]
        assert all(differ)
        assert all(row["tokens_per_second"] > 0 for row in stock["arms"])
        a_token = 2 * 3 * 32 * 4  # K and V, 3 layers, 32 values in fp32
        memory = [39, stock["window"], stock["window"], 0]
        assert [row["cache_bytes"] for row in stock["arms"]] == [a_token * tokens for tokens in memory]
    assert "window 8, 2 anchors + window: 31 of 31 tokens" in err
    assert "the same with the patch on it" in err
    assert cli.run(["stream", "tiny", "--text", "birds.txt", "--anchors", "0,1", "--tokens", "30"]) == 0
    assert "window of 16, anchors among them" in capsys.readouterr().out  # a quarter of the context


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--window", "8"], "a window of 8 tokens with 8 anchors among them makes no cache"),
        (["--window", "65"], "no longer than the patient's context of 64"),
        (["--tokens", "16"], "birds.txt gives 16 tokens, which a window of 16 holds whole"),
        (["--anchors", "few"], "is no list of numbers"),
        (["--text", "missing.txt"], "missing.txt"),
    ],
)
def test_what_cannot_be_read_so(options: list[str], why: str) -> None:
    with pytest.raises(InputError, match=why):
        cli.run(["stream", "tiny", "--text", "birds.txt", *options])
