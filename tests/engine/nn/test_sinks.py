"""A sink logit where a family has none: in the softmax, without a value."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from engine.heads import Head
from engine.nn.attention import figures, has_sinks, levels, rest_rows
from engine.nn.load import Patient, load
from engine.nn.sinks import NEVER, give_sinks, with_sinks
from engine.nn.slices import Slices
from engine.nn.training import gradients
from engine.nn.vitals import token_losses
from tests.engine.nn.families import CONFIGS, IDS, make_family


def test_the_worked_example() -> None:
    """Six values of size 4, scores near one another: the logit takes 77 % and the output shrinks with it."""
    torch.manual_seed(0)
    values = torch.randn(6, 4)
    scores = torch.tensor([0.1, -0.2, 0.0, 0.2, -0.1, 0.0])
    without = scores.softmax(-1)
    assert without.sum().item() == pytest.approx(1.00)
    assert (without @ values).norm().item() == pytest.approx(0.83, abs=0.005)
    weights = with_sinks(scores[None, None, None], without[None, None, None], torch.tensor([3.0]))[0, 0, 0]
    assert 1 - weights.sum().item() == pytest.approx(0.77, abs=0.005)
    assert (weights @ values).norm().item() == pytest.approx(0.19, abs=0.005)
    by_hand = torch.cat((scores, torch.tensor([3.0]))).softmax(-1)  # the logit as one more key, whose weight is dropped
    assert torch.allclose(weights, by_hand[:-1], rtol=0, atol=1e-7)


@pytest.mark.parametrize("name", [name for name in CONFIGS if name != "gpt_oss"])
def test_every_family_attends_with_it_as_its_queries_and_keys_say(name: str, tmp_path: Path) -> None:
    patient = load(str(make_family(tmp_path / "model", name)), device="cpu")
    a = patient.anatomy
    with torch.no_grad():
        stock = patient.model(input_ids=IDS[None]).logits
    before = figures(patient, IDS[None])
    sinks = [give_sinks(patient.attention(layer), a.n_heads) for layer in range(a.n_layers)]
    assert not has_sinks(patient)
    with torch.no_grad():
        assert torch.equal(patient.model(input_ids=IDS[None]).logits, stock)  # to the bit
    sinks[1][2] = 1.0
    with torch.no_grad():
        assert not torch.equal(patient.model(input_ids=IDS[None]).logits, stock)
    after = figures(patient, IDS[None], check=True)  # holds the model's own weights against ours: keys + sink = 1
    others = torch.ones(a.n_heads, dtype=torch.bool)
    others[2] = False
    assert torch.equal(after[:, 0, 0], before[:, 0, 0])
    assert torch.equal(after[:2, 0, 1][:, others], before[:2, 0, 1][:, others])
    mass, _, sink = after[:, 0, 1, 2].tolist()
    assert 0.01 < sink < 1 and mass < before[0, 0, 1, 2]
    assert has_sinks(patient)


def test_an_attention_that_takes_no_softmax_of_the_librarys_is_not_given_one() -> None:
    class Other(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            p = super().forward(x).exp()
            return p / p.sum(-1, keepdim=True)

    module = Other(2, 2)
    give_sinks(module, 2)
    with pytest.raises(ArithmeticError, match="Other takes 0 softmaxes"):
        module(torch.zeros(1, 2))


def test_a_logit_of_the_heads_level_takes_half(patient: Patient) -> None:
    one = torch.tensor([7])  # with one key there is one sum, and no mean of several in between
    height = levels(patient, [one])
    for layer in range(patient.anatomy.n_layers):
        give_sinks(patient.attention(layer), patient.anatomy.n_heads)[:] = height[layer]
        below = torch.tensor(rest_rows(patient, [one])[1])[: layer + 1]
        assert torch.allclose(below[0], torch.tensor(0.5), atol=1e-5)  # the layers above hear other things by now
    ids = torch.arange(5, 40)
    fresh = load(str(patient.folder), device="cpu")
    give_sinks(fresh.attention(0), 4)[:] = levels(fresh, [ids])[0]
    masses = torch.tensor(rest_rows(fresh, [ids])[1])
    assert ((masses[0] - 0.5).abs() < 0.15).all() and (masses[1:] == 0).all()


def test_the_gradient_of_a_logit_is_that_of_the_loss(patient: Patient) -> None:
    targets = [Head(0, 1), Head(2, 0), Head(2, 3)]
    slices = Slices(patient, targets, "s")
    assert slices.logits() == [NEVER] * 3
    slices.put({key: torch.tensor([0.3]) for key in slices.values()})
    samples = IDS.view(2, 12)
    with slices.training():
        gradients(patient, samples, 1)
    assert all(p.grad is None and not p.requires_grad for p in patient.model.parameters())
    for layer, index in ((0, 0), (2, 0), (2, 1)):
        its = slices.layers[layer].sinks
        assert its is not None and its.weight.grad is not None
        losses = []
        for step in (0.05, -0.05):
            other = deepcopy(patient)
            key = f"{patient.anatomy.attention_name(layer)}.sink_logits"
            other = load(str(patient.folder), device="cpu")
            moved = Slices(other, targets, "s")
            moved.put(slices.values())
            other.model.get_parameter(key)[its.places[index]] += step
            with torch.no_grad():
                losses.append(token_losses(other, samples).double().item() / 22)
        assert its.weight.grad[index].item() == pytest.approx((losses[0] - losses[1]) / 0.1, rel=0.03, abs=2e-6)


def test_in_bf16_the_logits_stay_fp32_and_the_weights_bf16() -> None:
    scores = torch.randn(1, 2, 3, 5, dtype=torch.bfloat16)
    weights = F.softmax(scores, -1)
    sinks = nn.Parameter(torch.tensor([0.5, NEVER]))
    found = with_sinks(scores, weights, sinks)
    assert found.dtype == torch.bfloat16 and torch.equal(found[:, 1], weights[:, 1])
    found[:, 0].float().sum().backward()
    assert sinks.grad is not None and sinks.grad.dtype == torch.float32 and sinks.grad[0] < 0 and sinks.grad[1] == 0
