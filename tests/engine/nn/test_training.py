from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from engine.heads import Head
from engine.nn.load import Patient
from engine.nn.slices import Slices
from engine.nn.training import checkpointed, gradients, learning_rate, update
from engine.nn.vitals import token_losses

HEADS = [Head(1, 0), Head(2, 3)]
SAMPLES = torch.randint(4, 260, (5, 24), generator=torch.Generator().manual_seed(3))


def slice_gradients(patient: Patient, micro_batch: int) -> tuple[float, dict[str, torch.Tensor]]:
    slices = Slices(patient, HEADS)
    with slices.training():
        loss = gradients(patient, SAMPLES, micro_batch)
    return loss, {name: master.grad.clone() for name, master in slices.masters().items() if master.grad is not None}


def test_the_loss_is_the_mean_over_all_predicted_tokens(patient: Patient) -> None:
    loss, _ = slice_gradients(patient, 5)
    with torch.no_grad():
        logits = patient.model(input_ids=SAMPLES).logits[:, :-1]
    assert loss == pytest.approx(F.cross_entropy(logits.flatten(0, 1), SAMPLES[:, 1:].flatten()).item(), rel=1e-6)


@pytest.mark.parametrize("micro_batch", [1, 2, 3, 4])
def test_every_token_weighs_the_same_in_whatever_micro_batch_it_stands(patient: Patient, micro_batch: int) -> None:
    whole, wanted = slice_gradients(patient, 5)
    loss, found = slice_gradients(patient, micro_batch)  # five samples: the last micro-batch is short
    assert loss == pytest.approx(whole, abs=1e-6)
    assert wanted.keys() == found.keys()
    assert all(torch.allclose(found[name], wanted[name], atol=1e-6) for name in wanted)


def test_checkpointing_changes_no_gradient(patient: Patient) -> None:
    _, wanted = slice_gradients(patient, 5)
    with checkpointed(patient, lowest_layer=1):
        _, found = slice_gradients(patient, 5)
    assert max((found[name] - wanted[name]).abs().max().item() for name in wanted) <= 1e-6
    assert not any("forward" in vars(patient.block(layer)) for layer in range(3))


def kept_for_backward(patient: Patient) -> int:
    """Bytes that a forward pass keeps, each storage once."""
    sizes: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    slices = Slices(patient, HEADS)
    with slices.training(), torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        token_losses(patient, SAMPLES)
    return sum(sizes.values())


def test_checkpointing_keeps_less(patient: Patient) -> None:
    whole = kept_for_backward(patient)
    with checkpointed(patient, lowest_layer=1):
        assert kept_for_backward(patient) < whole / 2


def test_checkpointing_leaves_evaluation_alone(patient: Patient) -> None:
    with torch.no_grad():
        plain = patient.model(input_ids=SAMPLES).logits
        with checkpointed(patient, 0):
            assert torch.equal(patient.model(input_ids=SAMPLES).logits, plain)


@pytest.mark.parametrize("spoil", ["loss", "gradient"])
def test_a_step_without_a_number_moves_nothing(patient: Patient, spoil: str) -> None:
    slices = Slices(patient, HEADS)
    optimizer = torch.optim.AdamW(slices.masters().values(), weight_decay=0.0)
    with slices.training():
        loss = gradients(patient, SAMPLES, 5)
    if spoil == "gradient":
        grad: Any = slices.masters()["1.weight"].grad
        grad[0, 0] = float("inf")
    before = {key: value.clone() for key, value in slices.values().items()}
    taken, _ = update(slices, optimizer, float("nan") if spoil == "loss" else loss, 0.1, 1.0)
    assert not taken
    assert all(torch.equal(value, before[key]) for key, value in slices.values().items())


def test_the_rate_rises_from_above_zero_and_falls_to_almost_zero() -> None:
    rates = [learning_rate(step, 100, 25, 1.0) for step in range(100)]
    assert rates[0] == pytest.approx(0.04)
    assert rates[24] == rates[25] == 1.0
    assert rates[62] == pytest.approx(0.5, abs=0.02)
    assert 0 < rates[99] < 0.001
    assert rates[25:] == sorted(rates[25:], reverse=True)
