from __future__ import annotations

import math

import pytest
import torch

from engine.heads import Head
from engine.nn.load import Patient
from engine.nn.vitals import ablated, ablation_loss, mean_loss, perplexity, token_losses

SAMPLES = torch.randint(4, 260, (5, 20), generator=torch.Generator().manual_seed(1))


def test_a_model_that_knows_nothing_has_the_vocabulary_as_perplexity(patient: Patient) -> None:
    patient.model.get_parameter("transformer.word_embeddings.weight").data.zero_()  # tied: all logits are 0
    assert perplexity(mean_loss(patient, SAMPLES)) == pytest.approx(260, rel=1e-5)


def test_every_predicted_token_counts_once_however_it_is_batched(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = mean_loss(patient, SAMPLES)
    assert whole == pytest.approx(token_losses(patient, SAMPLES).item() / (5 * 19), rel=1e-6)
    monkeypatch.setattr("engine.nn.vitals.TOKENS_AT_ONCE", 40)
    assert mean_loss(patient, SAMPLES) == pytest.approx(whole, rel=1e-6)


def test_perplexity_stays_a_number() -> None:
    assert perplexity(math.log(20)) == pytest.approx(20)
    assert math.isfinite(perplexity(math.inf))
    assert perplexity(math.nan) == perplexity(math.inf)


def test_ablation_silences_and_gives_back_every_bit(patient: Patient) -> None:
    weight = patient.attention(1).get_submodule("dense").weight
    before = weight.detach().clone()
    with ablated(patient, [Head(1, 2)]):
        assert weight[:, 16:24].abs().max() == 0
        assert torch.equal(weight[:, :16], before[:, :16])
    assert torch.equal(weight, before)


def test_a_silent_head_is_worth_nothing(patient: Patient) -> None:
    patient.attention(1).get_submodule("dense").weight.data[:, 16:24] = 0
    assert ablation_loss(patient, [Head(1, 2)], SAMPLES, mean_loss(patient, SAMPLES)) == 0
    assert ablation_loss(patient, [Head(1, 1)], SAMPLES, mean_loss(patient, SAMPLES)) != 0
