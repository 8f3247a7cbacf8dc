"""What else can be done to heads than reinitialising them: each carried out as a pass, kept, taken off again."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine import events
from engine.errors import InputError
from engine.generation import Prompt, Sampling
from engine.heads import Head
from engine.nn.attention import tokenized
from engine.nn.embedding import placeholder_token
from engine.nn.generate import continue_batch
from engine.nn.load import Patient, load
from engine.nn.operate import operate
from engine.nn.patch import Patch, apply_patches, load_patch, put_on, take_off, taken_off
from engine.nn.slices import Slices
from engine.nn.streaming import arm, long_ids
from engine.nn.training import gradients
from engine.nn.vitals import ablated, mean_loss, token_losses
from engine.probes import Probe
from engine.streaming import Arm
from tests.engine.nn.families import make_family
from tests.engine.nn.patients import make_patient
from tests.engine.nn.test_operate import make_plan, nobody, of_kind, run, set_up, timeless

TARGETS = [Head(0, 1), Head(1, 0), Head(1, 1), Head(2, 3)]
IDS = torch.arange(4, 44).view(2, 20)


def done(folder: Path, corpus: Path, to: Path, **values: Any) -> tuple[list[events.Event], Patch]:
    found = run(folder, make_plan(corpus, **values), to)
    return found, load_patch(to / "pass-1" / "best.safetensors")


def loss_of(patient: Patient) -> float:
    return mean_loss(patient, IDS)


def test_sink_logits_train_alone_and_the_patch_carries_them(folder: Path, corpus: Path, tmp_path: Path) -> None:
    found, patch = done(folder, corpus, tmp_path / "s", treatment="sink_logit")
    started, cut, ended = (of_kind(found, k)[0] for k in (events.PassStarted, events.Cut, events.PassEnded))
    assert (started.trained_parameters, started.touched_tensor_parameters) == (4, 3 * 4)
    assert started.plan["lr"] == 3e-3 and "take half" in started.sink_logits
    assert started.frozen_sha256_before == ended.frozen_sha256_after
    for layer, row in enumerate(cut.sink_mass):
        for head, mass in enumerate(row):
            assert 0.3 < mass < 0.7 if Head(layer, head) in TARGETS else mass == 0
    assert {key.partition("|")[0] for key in patch.values} == {
        f"transformer.h.{layer}.self_attention.sink_logits" for layer in range(3)
    }
    assert all(value == float("-inf") for value in patch.originals.values())
    assert ended.learned_logits == pytest.approx([float(value) for value in patch.values.values()], abs=1e-6)
    assert ended.heldout_perplexity < cut.heldout_perplexity
    patient = load(str(folder), device="cpu")
    stock = loss_of(patient)
    put_on(patient, patch)
    treated = loss_of(patient)
    assert treated != stock
    with taken_off(patient, [patch]):
        assert loss_of(patient) == stock
    assert loss_of(patient) == treated
    take_off(patient, patch)
    assert loss_of(patient) == stock
    with pytest.raises(InputError, match="gave 4 heads a sink logit, and a plain checkpoint"):
        apply_patches([patch], folder, tmp_path / "plain")


def test_where_the_family_has_sink_logits_they_train_from_where_they_are(corpus: Path, tmp_path: Path) -> None:
    folder = make_family(tmp_path / "model", "gpt_oss")
    plan = make_plan(corpus, treatment="sink_logit", targets="L0-H1 | L1-H2", lr=0.1)
    patient = load(str(folder), device="cpu")
    (tmp_path / "s").mkdir()
    found = list(operate(set_up(patient, plan, tmp_path / "s"), nobody))
    started, cut = of_kind(found, events.PassStarted)[0], of_kind(found, events.Cut)[0]
    assert started.sink_logits == "train from where they are" and started.trained_parameters == 2
    assert cut.heldout_perplexity == started.heldout_perplexity_stock
    patch = load_patch(tmp_path / "s" / "pass-1" / "best.safetensors")
    apply_patches([patch], folder, tmp_path / "plain")  # the family has a place for them
    again = load(str(tmp_path / "plain"), device="cpu")
    assert loss_of(again) == loss_of(patient)


@pytest.mark.parametrize("treatment", ["sink_logit", "placeholder", "prune", "nothing"])
def test_stopped_and_resumed_it_ends_with_the_same_bytes(
    folder: Path, corpus: Path, tmp_path: Path, treatment: str
) -> None:
    plan = make_plan(corpus, treatment=treatment)
    whole = run(folder, plan, tmp_path / "whole")
    for count in (3, 9) if plan.trains else (3,):
        torn = tmp_path / f"torn-{count}"
        torn.mkdir()
        first = list(islice(operate(set_up(load(str(folder), device="cpu"), plan, torn), nobody), count))
        again = set_up(load(str(folder), device="cpu"), plan, torn)
        second = list(operate(again, nobody, of_kind(first, events.Cut)[0]))
        files = [at / "pass-1" / "best.safetensors" for at in (tmp_path / "whole", torn)]
        assert files[0].read_bytes() == files[1].read_bytes()
        assert timeless(whole)[-1] == timeless(second)[-1]


def test_pruned_targets_are_silent_and_nothing_is_trained(folder: Path, corpus: Path, tmp_path: Path) -> None:
    found, patch = done(folder, corpus, tmp_path / "s", treatment="prune")
    started, ended = of_kind(found, events.PassStarted)[0], of_kind(found, events.PassEnded)[0]
    assert (started.steps, started.trained_parameters, started.touched_tensor_parameters) == (0, 0, 3 * 32 * 32)
    assert not of_kind(found, events.Step)
    assert (ended.outcome, ended.step, ended.trained_tokens) == ("completed", 0, 0)
    assert ended.ablation_loss_after == 0
    patient = load(str(folder), device="cpu")
    with ablated(patient, TARGETS):
        expected = loss_of(patient)
    put_on(patient, patch)
    assert loss_of(patient) == expected
    apply_patches([patch], folder, tmp_path / "plain")
    assert loss_of(load(str(tmp_path / "plain"), device="cpu")) == expected


def test_nothing_is_nothing(folder: Path, corpus: Path, tmp_path: Path) -> None:
    found, patch = done(folder, corpus, tmp_path / "s", treatment="nothing")
    started, ended = of_kind(found, events.PassStarted)[0], of_kind(found, events.PassEnded)[0]
    assert (started.steps, started.trained_parameters, started.touched_tensor_parameters) == (0, 0, 0)
    assert ended.heldout_perplexity == started.heldout_perplexity_stock
    assert ended.ablation_loss_after == started.ablation_loss_stock
    assert patch.values == patch.originals == {}
    assert ended.drift.outside.worst == 0


# -- a placeholder before every text


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A patient whose tokenizer puts nothing before a text."""
    return make_patient(tmp_path / "plain", bos=False)


def test_a_placeholder_stands_before_every_text_and_only_its_embedding_trains(
    plain: Path, corpus: Path, tmp_path: Path
) -> None:
    found, patch = done(plain, corpus, tmp_path / "s", treatment="placeholder", lr=0.05)
    started, cut, ended = (of_kind(found, k)[0] for k in (events.PassStarted, events.Cut, events.PassEnded))
    assert (started.placeholder, started.placeholder_text) == (1, "<s>")
    assert (started.trained_parameters, started.touched_tensor_parameters) == (32, 260 * 32)
    assert list(patch.values) == ["transformer.word_embeddings.weight|0:1:2"]
    assert started.frozen_sha256_before == ended.frozen_sha256_after
    assert ended.heldout_perplexity < cut.heldout_perplexity
    patient = load(str(plain), device="cpu")
    stock = loss_of(patient)
    assert patient.ids("bird").tolist() == patient.tokenizer("bird")["input_ids"]
    put_on(patient, patch)
    assert patient.ids("bird").tolist() == [1, *patient.tokenizer("bird")["input_ids"]]
    assert tokenized(patient, [Probe("a", "bird")])[0].ids[0] == 1
    assert len(patient.ids("bird" * 50)) == patient.context == 64
    with taken_off(patient, [patch]):
        assert loss_of(patient) == stock and patient.placeholder is None
    # the checkpoint is a plain one: with the token before each sample, and its prediction of the first left out
    apply_patches([patch], plain, tmp_path / "written")
    written = load(str(tmp_path / "written"), device="cpu")
    with torch.no_grad():
        logits = written.model(input_ids=torch.cat((torch.ones(2, 1, dtype=torch.long), IDS), 1)).logits[:, 1:-1]
        theirs = torch.nn.functional.cross_entropy(logits.flatten(0, 1), IDS[:, 1:].flatten())
    assert loss_of(patient) == pytest.approx(theirs.item(), abs=1e-6)


def test_its_gradient_comes_from_both_ends_of_tied_weights(tmp_path: Path) -> None:
    for name in ("bloom", "gpt_neox", "gemma2"):  # tied; not tied; tied, and multiplied as it is looked up
        folder = make_family(tmp_path / name, name)
        ours, theirs = (load(str(folder), device="cpu") for _ in range(2))
        slices = Slices(ours, [Head(0, 0)], "e")
        embedding = slices.embedding
        assert embedding is not None and (embedding.tied is None) == (name == "gpt_neox")
        token = torch.full((2, 1), placeholder_token(ours))
        samples = torch.cat((token, IDS), 1)
        with slices.training():
            loss = gradients(ours, samples, 1)
        weight = theirs.model.get_input_embeddings().get_parameter("weight").requires_grad_(True)
        expected = token_losses(theirs, samples) / 40
        expected.backward()
        assert loss == pytest.approx(expected.item(), abs=1e-5)
        assert embedding.weight.grad is not None and weight.grad is not None
        assert (embedding.weight.grad[0] - weight.grad[int(token[0])]).abs().max() < 1e-6
        assert weight.grad[int(token[0])].abs().max() > 1e-4


def test_where_the_tokenizer_has_a_first_token_it_is_that_one(folder: Path, corpus: Path, tmp_path: Path) -> None:
    patient = load(str(folder), device="cpu")
    found, patch = done(folder, corpus, tmp_path / "s", treatment="placeholder")
    assert of_kind(found, events.PassStarted)[0].placeholder == 1
    assert of_kind(found, events.Cut)[0].heldout_perplexity == found_stock(found)  # it stood there before
    put_on(patient, patch)
    assert patient.placeholder is None and patient.ids("bird").tolist()[:2].count(1) == 1


def found_stock(found: list[events.Event]) -> float:
    stock: float = of_kind(found, events.PassStarted)[0].heldout_perplexity_stock
    return stock


def test_samples_leave_room_for_it(plain: Path, corpus: Path, tmp_path: Path) -> None:
    patient = load(str(plain), device="cpu")
    with pytest.raises(InputError, match="samples of 64 tokens leave no room in the context of 64 for the placeholder"):
        set_up(patient, make_plan(corpus, treatment="placeholder", length=64), tmp_path)


def test_a_long_text_is_read_from_it_on(plain: Path) -> None:
    patient = load(str(plain), device="cpu")
    ids, full = torch.arange(4, 34), Arm("full")
    assert torch.equal(long_ids(patient, ["a text"], 9), long_ids(replace(patient, placeholder=3), ["a text"], 9))
    *_, without = arm(patient, ids, 10, full)
    patient.placeholder = 3
    *_, found = arm(patient, ids, 10, full)
    with torch.no_grad():
        logits = patient.model(input_ids=torch.cat((torch.tensor([3]), ids))[None]).logits[0, 11:-1]
        expected = torch.nn.functional.cross_entropy(logits, ids[11:]).exp().item()  # the same 19 tokens either way
    assert found.perplexity == pytest.approx(expected, rel=1e-5) != without.perplexity
    *_, window = arm(patient, ids, 10, Arm("anchors", 1))
    *_, bare = arm(patient, ids, 10, Arm("anchors", 0))
    assert window.perplexity != bare.perplexity and window.cache_bytes == bare.cache_bytes


def test_what_is_written_goes_on_from_it(plain: Path) -> None:
    patient = load(str(plain), device="cpu")
    patient.placeholder = 3
    prompt, coldest = Prompt("a", "a prompt"), Sampling(temperature=1e-4, new_tokens=1)
    ((token, *_),) = continue_batch(patient, [prompt], coldest)
    ids: Tensor = torch.tensor([3, *patient.tokenizer(prompt.text)["input_ids"]])
    with torch.no_grad():
        assert patient.model(input_ids=ids[None]).logits[0, -1].argmax() == token
