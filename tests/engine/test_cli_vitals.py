"""The commands on a model's vitals, in this process."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from engine import cli
from engine.errors import InputError
from engine.heads import Head
from engine.nn.load import load
from engine.nn.patch import Patch, save_patch
from engine.nn.slices import slice_view
from tests.engine import story
from tests.engine.nn.patients import make_patient, write_corpus


class Ran:
    def __init__(self, out: str, err: str) -> None:
        self.out, self.err = out, err

    @property
    def json(self) -> dict[str, Any]:
        def refuse(constant: str) -> None:
            raise ValueError(constant)

        found = json.loads(self.out, parse_constant=refuse)
        assert isinstance(found, dict)
        return found


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):  # type: ignore[no-untyped-def]
    """Run a command in a folder with a tiny patient and two texts."""
    monkeypatch.chdir(tmp_path)
    make_patient(tmp_path / "tiny")
    write_corpus(tmp_path / "birds.txt", 12)
    (tmp_path / "note.txt").write_text("A short note.\n")

    def run_(*arguments: str) -> Ran:
        assert cli.run([*arguments]) == 0
        return Ran(*capsys.readouterr())

    return run_


def silencing(head: Head) -> Patch:
    """A patch that sets the output columns of one head of ``tiny`` to zero."""
    patient = load("tiny", "cpu")
    (piece,) = patient.anatomy.slices(head, "o")
    original = slice_view(patient, piece).clone()
    about = {"number": 1, "weights_sha256": patient.weights_sha256, "source": "tiny"}
    return Patch({piece.key: original * 0}, {piece.key: original}, about)


def test_perplexity_per_text_and_pooled(run) -> None:  # type: ignore[no-untyped-def]
    ran = run("perplexity", "tiny", "--text", "birds.txt", "--text", "note.txt", "--json")
    found = ran.json
    assert (found["model"], found["length"], found["after"], found["patch"]) == ("tiny", 64, None, None)
    birds, note = found["stock"]["sources"].values()
    assert note["tokens"] == len("A short note.\n")  # every byte is predicted, the last short window too
    assert birds["tokens"] == len(Path("birds.txt").read_text())
    pooled = found["stock"]["pooled"]
    assert pooled["tokens"] == birds["tokens"] + note["tokens"]
    nats = sum(text["tokens"] * math.log(text["perplexity"]) for text in (birds, note))
    assert pooled["perplexity"] == pytest.approx(math.exp(nats / pooled["tokens"]), rel=1e-6)
    assert "birds.txt: " in ran.err and "loading tiny" in ran.err
    few = run("perplexity", "tiny", "--text", "birds.txt", "--samples", "2", "--length", "20", "--json").json
    assert few["stock"]["pooled"]["tokens"] == 2 * 19
    text = run("perplexity", "tiny", "--text", "birds.txt", "--text", "note.txt").out
    assert "pooled by tokens" in text and f"{pooled['perplexity']:.3f}" in text


def test_a_patch_is_shown_beside_the_stock_model(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    save_patch(tmp_path / "cut.safetensors", silencing(Head(1, 2)))
    ablate = ["ablate", "tiny", "--targets", "L1 x H1-2", "--text", "birds.txt", "--samples", "2"]
    found = run(*ablate, "--patch", "cut.safetensors", "--json").json
    stock, after = found["stock"], found["after"]
    assert found["target_heads"] == ["L1-H1", "L1-H2"] and found["tokens"] == 2 * 63
    assert stock["heads"]["L1-H2"] != 0 and after["heads"]["L1-H2"] == 0
    assert after["loss"] == pytest.approx(stock["loss"] + stock["heads"]["L1-H2"], abs=2e-6)
    assert after["loss"] + after["group"] == pytest.approx(stock["loss"] + stock["group"], abs=2e-6)
    session = story.tell(tmp_path / "story", [*story.DIAGNOSED, story.started(), story.cut(), story.ended()])
    session.patch(1).parent.mkdir(exist_ok=True)
    save_patch(session.patch(1), silencing(Head(1, 2)))
    text = run(*ablate, "--patch", "story").out
    assert "after: with story" in text
    row = next(line for line in text.splitlines() if line.startswith("L1-H2")).split()
    assert row == ["L1-H2", f"{stock['heads']['L1-H2']:+.6f}", "+0.000000"]


def test_a_diagnosis_with_a_patch_on(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    patient = load("tiny", "cpu")
    (piece,) = patient.anatomy.slices(Head(1, 2), "s")
    about = {"number": 1, "weights_sha256": patient.weights_sha256, "plan": {"treatment": "sink_logit"}}
    never, logit = torch.tensor([float("-inf")]), torch.tensor([2.0])
    save_patch(tmp_path / "sink.safetensors", Patch({piece.key: logit}, {piece.key: never}, about))
    stock = run("diagnose", "tiny", "--json").json["heads"]
    after = run("diagnose", "tiny", "--patch", "sink.safetensors", "--json").json["heads"]
    assert [head for head, before in zip(after, stock, strict=True) if head["bos_mass"] != before["bos_mass"]]
    (treated,) = (head for head in after if (head["layer"], head["head"]) == (1, 2))
    assert 0.1 < treated["sink_mass"] < 1
    assert all(head["sink_mass"] == 0 for head in after if (head["layer"], head["head"]) != (1, 2))


def test_classes_are_told_by_a_diagnosis(run) -> None:  # type: ignore[no-untyped-def]
    ran = run("ablate", "tiny", "--targets", "!dead & L2", "--text", "birds.txt", "--samples", "1", "--json")
    assert set(ran.json["target_heads"]) <= {f"L2-H{h}" for h in range(4)}
    assert "diagnosing" in ran.err


def test_dormancy_of_each_layer(run) -> None:  # type: ignore[no-untyped-def]
    found = run("dormancy", "tiny", "--json").json
    assert (found["layers"], found["overall"], found["neurons"], found["threshold"]) == ([0.0] * 3, 0.0, 384, 0.01)
    assert "0.00 %  (0 of 384)" in run("dormancy", "tiny").out


def test_texts_and_figures_of_the_built_in_prompts(run) -> None:  # type: ignore[no-untyped-def]
    found = run("generate", "tiny", "--tokens", "3", "--json").json
    assert (found["temperature"], found["top_p"], found["new_tokens"], found["seed"]) == (0.7, 0.92, 3, 42)
    assert len(found["texts"]) == 50 and found["figures"]["after"] is None
    assert list(found["figures"]["stock"]["category"]) == [
        "conceptual", "technical", "narrative", "code", "french_spanish",
    ]  # fmt: skip
    assert found["figures"]["stock"]["all"]["tokens"] <= 3
    first = found["texts"][0]
    assert first["prompt"] == "night sky" and first["stock"]["tokens"] == 3 and first["after"] is None


def test_own_prompts_before_and_after(run, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    (tmp_path / "own.txt").write_text("The river\nA tree\x1b[31m\n")
    patch = silencing(Head(1, 2))
    (key,) = patch.values
    save_patch(tmp_path / "loud.safetensors", replace(patch, values={key: patch.originals[key] * 20}))
    arguments = ["generate", "tiny", "--prompts", "own.txt", "--patch", "loud.safetensors", "--tokens", "8"]
    ran = run(*arguments, "--json")
    pairs = ran.json["texts"]
    assert [(pair["prompt"], pair["category"], pair["prompt_text"]) for pair in pairs] == [
        ("line 1", "own", "The river"),
        ("line 2", "own", "A tree\x1b[31m"),
    ]
    assert all(pair["stock"]["text"] != pair["after"]["text"] for pair in pairs)
    assert "continued 2 of 2 prompts" in ran.err
    text = run(*arguments).out
    assert "\x1b" not in text and "A tree\\x1b[31m" in text
    assert text.count("stock:") == text.count("after:") - 1 == 2  # the heading says "after: with …" too


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["perplexity", "tiny", "--text", "no.txt"], "corpus not found: no.txt"),
        (["perplexity", "nowhere", "--text", "birds.txt"], "folder not found: nowhere"),
        (["perplexity", "tiny", "--text", "birds.txt", "--length", "65"], "longer than the patient's context of 64"),
        (["ablate", "tiny", "--targets", "L9", "--text", "birds.txt"], "there is no layer 9"),
        (["ablate", "tiny", "--targets", "all", "--text", "note.txt"], "give a smaller --length"),
        (["generate", "tiny", "--prompts", "no.txt"], "file of prompts not found"),
        (["generate", "tiny", "--patch", "no.safetensors"], "patch not found"),
        (["generate", "tiny", "--patch", "other.safetensors"], "made for other weights than those of tiny"),
        (["generate", "tiny", "--patch", "young"], "has no finished pass"),
    ],
)
def test_wrong_input_gets_one_sentence(run, tmp_path: Path, arguments: list[str], sentence: str) -> None:  # type: ignore[no-untyped-def]
    if "other.safetensors" in arguments:
        patch = silencing(Head(0, 0))
        save_patch(tmp_path / "other.safetensors", replace(patch, about={**patch.about, "weights_sha256": "00" * 32}))
    if "young" in arguments:
        story.tell(tmp_path / "young", story.DIAGNOSED)
    with pytest.raises(InputError, match=sentence):
        cli.run(arguments)
