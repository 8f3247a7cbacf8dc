from __future__ import annotations

import math

import pytest
import torch

from engine.errors import InputError
from engine.heads import Head
from engine.nn.load import Patient
from engine.nn.vitals import (
    ablated,
    ablation_loss,
    ablation_losses,
    contributions,
    dormancy,
    dormant_neurons,
    mean_loss,
    overall_dormancy,
    perplexities,
    perplexity,
    pooled,
    text_loss,
    text_losses,
    token_losses,
    windows,
)

SAMPLES = torch.randint(4, 260, (5, 20), generator=torch.Generator().manual_seed(1))
SHORT = torch.randint(4, 260, (1, 7), generator=torch.Generator().manual_seed(2))


def test_a_model_that_knows_nothing_has_the_vocabulary_as_perplexity(patient: Patient) -> None:
    patient.model.get_parameter("transformer.word_embeddings.weight").data.zero_()  # tied: all logits are 0
    assert perplexity(mean_loss(patient, SAMPLES)) == pytest.approx(260, rel=1e-5)


def test_neither_batch_nor_order_shows_in_a_figure(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = mean_loss(patient, SAMPLES)
    assert whole == pytest.approx(token_losses(patient, SAMPLES).item() / (5 * 19), rel=1e-6)
    assert mean_loss(patient, SAMPLES.flip(0)) == pytest.approx(whole, abs=1e-6)
    for tokens in (1, 40, 60):  # one, two and three samples at once
        monkeypatch.setattr("engine.nn.vitals.TOKENS_AT_ONCE", tokens)
        assert mean_loss(patient, SAMPLES) == pytest.approx(whole, abs=1e-6)
        assert perplexities(patient, {"x": SAMPLES[[3, 0, 4, 1, 2]]})["x"] == pytest.approx(math.exp(whole), rel=1e-5)


def test_perplexity_stays_a_number() -> None:
    assert perplexity(math.log(20)) == pytest.approx(20)
    assert math.isfinite(perplexity(math.inf))
    assert perplexity(math.nan) == perplexity(math.inf)


def test_sources_are_pooled_by_their_predicted_tokens(patient: Patient) -> None:
    found = text_losses(patient, {"long": [SAMPLES], "short": [SHORT], "both": [SAMPLES, SHORT]})
    assert (found["long"].tokens, found["short"].tokens, found["both"].tokens) == (95, 6, 101)
    together = pooled([found["long"], found["short"]])
    assert together.nats == pytest.approx(found["both"].nats)
    by_hand = (95 * mean_loss(patient, SAMPLES) + 6 * mean_loss(patient, SHORT)) / 101
    assert together.perplexity == pytest.approx(math.exp(by_hand), rel=1e-6)
    assert together.loss != pytest.approx((found["long"].loss + found["short"].loss) / 2, abs=1e-3)


def test_a_text_without_a_token_to_predict_is_refused(patient: Patient) -> None:
    with pytest.raises(InputError, match="the text mute is too short"):
        perplexities(patient, {"mute": SAMPLES[:, :1]})
    with pytest.raises(InputError, match="the text gone is too short"):
        text_losses(patient, {"gone": []})


def test_windows_predict_every_token_once_but_the_first(patient: Patient) -> None:
    whole, rest = windows(patient, ["abcdefgh\n\n", "ij\n\n"], 6)  # 14 bytes; <s> starts each window
    assert [patient.tokenizer.decode(row) for row in whole] == ["<s>abcde", "<s>fgh\n\n"]
    assert patient.tokenizer.decode(rest[0]) == "<s>ij\n\n"
    assert pooled(text_loss(patient, part) for part in (whole, rest)).tokens == 14
    assert [part.shape for part in windows(patient, ["abcdefgh"], 6, at_most=1)] == [(1, 6)]
    assert windows(patient, [], 6) == []


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


def test_a_silent_head_costs_no_run(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    patient.attention(1).get_submodule("dense").weight.data[:, 16:24] = 0
    runs: list[Head] = []
    monkeypatch.setattr("engine.nn.vitals._nats", lambda *_: runs.append(Head(0, 0)) or 95.0)
    assert ablation_losses(patient, [Head(1, 2), Head(0, 1)], SAMPLES, 0.25) == [0.0, 0.75]
    assert len(runs) == 1


def test_head_by_head_is_what_each_alone_is_worth(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    patient.attention(2).get_submodule("dense").weight.data[:, :8] = 0
    loss, before = mean_loss(patient, SAMPLES), patient.model.state_dict()
    before = {name: tensor.clone() for name, tensor in before.items()}
    heads = [Head(2, 3), Head(0, 1), Head(2, 0), Head(1, 1)]
    told: list[int] = []
    monkeypatch.setattr("engine.nn.vitals.TOKENS_AT_ONCE", 40)  # three batches
    found = ablation_losses(patient, heads, SAMPLES, loss, told.append)
    one_by_one = [ablation_loss(patient, [head], SAMPLES, loss) for head in heads]
    assert found == one_by_one  # to the last digit: only the layers below were not run again
    assert found[2] == 0.0 and all(abs(found[i]) > 1e-4 for i in (0, 1, 3))
    assert told == sorted(told) and told[-1] == 4
    assert all(torch.equal(tensor, before[name]) for name, tensor in patient.model.state_dict().items())
    assert mean_loss(patient, SAMPLES) == loss  # every layer computes again


def test_the_grid_of_contributions_holds_every_head(patient: Patient) -> None:
    loss = mean_loss(patient, SAMPLES)
    rows = contributions(patient, SAMPLES, loss)
    assert [len(row) for row in rows] == [4, 4, 4]
    assert rows[1][2] == ablation_loss(patient, [Head(1, 2)], SAMPLES, loss)


def test_dormancy_by_hand(patient: Patient) -> None:
    mlp = patient.model.get_submodule("transformer.h.1.mlp")
    up, down = mlp.get_parameter("dense_h_to_4h.weight").data, mlp.get_parameter("dense_4h_to_h.weight").data
    up.fill_(0).fill_diagonal_(1.0)  # rows 0 to 31 have norm 1, the other 96 norm 0
    down.fill_(0)
    down[0, :] = 0.3
    down[1, :] = 0.4  # every column has norm 0.5
    assert dormancy(patient)[1] == 0.75
    up[5] *= 0.02  # 0.02 * 0.5 is the limit itself, up to rounding; a little above and below it
    up[5] *= 1.01
    assert dormancy(patient)[1] == 0.75
    up[5] *= 0.98
    assert dormant_neurons(patient)[1] == (97, 128)
    assert overall_dormancy([(97, 128), (0, 64)]) == round(97 / 192, 6)


def test_dormancy_by_a_plain_loop(patient: Patient) -> None:
    for name, parameter in patient.model.named_parameters():
        if "mlp.dense" in name and name.endswith("weight"):
            parameter.data *= 0.0876 if "h_to_4h" in name else 0.1  # products of norms lie around the limit
    for layer, share in enumerate(dormancy(patient)):
        mlp = patient.model.get_submodule(f"transformer.h.{layer}.mlp")
        up = mlp.get_parameter("dense_h_to_4h.weight").tolist()
        down = mlp.get_parameter("dense_4h_to_h.weight").tolist()
        asleep = 0
        for neuron in range(128):
            row = math.sqrt(sum(w * w for w in up[neuron]))
            column = math.sqrt(sum(down[i][neuron] ** 2 for i in range(32)))
            asleep += row * column < 0.01
        assert share == round(asleep / 128, 6)
        assert 0.1 < share < 0.9
