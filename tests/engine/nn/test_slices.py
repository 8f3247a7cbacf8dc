from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from engine.heads import Head
from engine.nn.attention import statistics
from engine.nn.load import Patient, load
from engine.nn.slices import Slices, write_values
from engine.nn.training import learning_rate
from engine.nn.vitals import token_losses
from tests.engine.nn.patients import make_patient

HEADS = [Head(1, 0), Head(1, 3), Head(2, 2)]
D = 8  # d_head of the tiny patient


def rows_of(head: Head) -> slice:
    """BLOOM's fused rows of a head, written down again independently of the adapter."""
    return slice(3 * D * head.head, 3 * D * (head.head + 1))


def columns_of(head: Head) -> slice:
    return slice(D * head.head, D * (head.head + 1))


def batches(n: int) -> list[torch.Tensor]:
    draw = torch.Generator().manual_seed(5)
    return [torch.randint(4, 260, (2, 24), generator=draw) for _ in range(n)]


def plain_training(model: torch.nn.Module, steps: int, lr: float) -> dict[str, torch.Tensor]:
    """The method written straight down: every attention tensor trains whole, gradients are masked."""
    masks = {}
    for layer in range(3):
        prefix = f"transformer.h.{layer}.self_attention."
        for name in ("query_key_value.weight", "query_key_value.bias", "dense.weight"):
            masks[prefix + name] = torch.zeros_like(model.get_parameter(prefix + name))
    for head in HEADS:
        prefix = f"transformer.h.{head.layer}.self_attention."
        masks[prefix + "query_key_value.weight"][rows_of(head)] = 1
        masks[prefix + "query_key_value.bias"][rows_of(head)] = 1
        # The softmax drops a key's bias, so its gradient is rounding noise; Adam would make steps of it.
        masks[prefix + "query_key_value.bias"][rows_of(head)][D : 2 * D] = 0
        masks[prefix + "dense.weight"][:, columns_of(head)] = 1
    parameters = [model.get_parameter(name).requires_grad_() for name in masks]
    optimizer = torch.optim.AdamW(parameters, lr=lr, weight_decay=0.0)
    for step, batch in enumerate(batches(steps)):
        optimizer.zero_grad()
        logits = model(input_ids=batch).logits[:, :-1]
        F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()).backward()
        for parameter, mask in zip(parameters, masks.values(), strict=True):
            parameter.grad = (parameter.grad if parameter.grad is not None else torch.zeros_like(mask)) * mask
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.param_groups[0]["lr"] = learning_rate(step, steps, 2, lr)
        optimizer.step()
    return {name: p.detach() for name, p in model.named_parameters()}


def slice_training(slices: Slices, steps: int, lr: float) -> None:
    optimizer = torch.optim.AdamW(slices.masters().values(), lr=lr, weight_decay=0.0)
    with slices.training():
        for step, batch in enumerate(batches(steps)):
            optimizer.zero_grad()
            (token_losses(slices.patient, batch) / (batch.numel() - len(batch))).backward()
            torch.nn.utils.clip_grad_norm_(slices.masters().values(), 1.0)
            optimizer.param_groups[0]["lr"] = learning_rate(step, steps, 2, lr)
            optimizer.step()
            slices.write_back()


@pytest.mark.parametrize("cut_first", [True, False])
def test_ten_steps_equal_full_tensors_with_gradient_masks(folder: Path, cut_first: bool) -> None:
    ours, theirs = load(str(folder), device="cpu"), load(str(folder), device="cpu")
    slices = Slices(ours, HEADS)
    if cut_first:
        slices.reinitialise("xavier_normal", 3)
        write_values(theirs, slices.values())
    slice_training(slices, 10, 1e-3)
    plain = plain_training(theirs.model, 10, 1e-3)
    stock = dict(load(str(folder), device="cpu").model.named_parameters())
    moved = 0.0
    for name, parameter in ours.model.named_parameters():
        assert (parameter - plain[name]).abs().max() <= 1e-6, name
        moved = max(moved, (parameter - stock[name]).abs().max().item())
    assert moved > 0.005  # the two agree on something that happened


def test_nothing_else_has_a_gradient_or_an_optimizer_state(patient: Patient) -> None:
    slices = Slices(patient, HEADS)
    optimizer = torch.optim.AdamW(slices.masters().values())
    with slices.training():
        token_losses(patient, batches(1)[0]).backward()
    optimizer.step()
    assert all(p.grad is None and not p.requires_grad for p in patient.model.parameters())
    per_head = 3 * D * 32 + 3 * D + 32 * D
    assert sum(m.numel() for m in slices.masters().values()) == 3 * per_head
    states = sum(t.numel() for state in optimizer.state.values() for k, t in state.items() if k != "step")
    assert states == 2 * 3 * per_head


def test_the_forward_is_the_plain_model_to_the_bit(patient: Patient) -> None:
    batch = batches(1)[0]
    plain = patient.model(input_ids=batch).logits
    with Slices(patient, HEADS).training():
        assert torch.equal(patient.model(input_ids=batch).logits, plain)
    assert "forward" not in patient.attention(1).get_submodule("dense").__dict__


def test_gradients_begin_at_the_lowest_target_layer(patient: Patient) -> None:
    seen: list[bool] = []
    patient.attention(1).register_forward_pre_hook(lambda m, args: seen.append(args[0].requires_grad))
    patient.attention(2).register_forward_pre_hook(lambda m, args: seen.append(args[0].requires_grad))
    with Slices(patient, HEADS).training():
        token_losses(patient, batches(1)[0])
    assert seen == [False, True]


def test_only_the_reinitialised_head_attends_otherwise(patient: Patient) -> None:
    ids = torch.arange(4, 44)
    before = statistics(patient, ids[None])
    Slices(patient, [Head(1, 2)]).reinitialise("xavier_uniform", 0)
    after = statistics(patient, ids[None])
    for figure in (0, 1):
        moved = (after[figure][0] - before[figure][0]).abs() > 1e-6
        assert not moved[0].any()  # below the cut nothing can change
        assert moved[1].tolist() == [False, False, True, False]  # beside it only this head


def test_the_cut_is_xavier_per_head_with_zero_biases_and_columns(patient: Patient) -> None:
    head = Head(2, 1)
    Slices(patient, [head]).reinitialise("xavier_uniform", 0)
    attention = patient.attention(2)
    qkv, dense = attention.get_submodule("query_key_value"), attention.get_submodule("dense")
    fresh = qkv.weight[rows_of(head)]
    bound = math.sqrt(6 / (D + 32))  # Q alone is a matrix of 8 × 32
    assert fresh.abs().max() <= bound
    assert fresh.abs().max() > 0.95 * bound
    assert qkv.bias[rows_of(head)].abs().max() == 0
    assert dense.weight[:, columns_of(head)].abs().max() == 0
    assert dense.weight.abs().min(0).values.gt(0).sum() == 32 - D


def test_another_target_does_not_change_a_heads_fresh_weights(folder: Path) -> None:
    one, two = load(str(folder), device="cpu"), load(str(folder), device="cpu")
    Slices(one, [Head(1, 3)]).reinitialise("xavier_normal", 7)
    Slices(two, [Head(1, 0), Head(1, 3)]).reinitialise("xavier_normal", 7)
    weights = [p.attention(1).get_submodule("query_key_value").weight[rows_of(Head(1, 3))] for p in (one, two)]
    assert torch.equal(*weights)


def test_parts_leave_the_others_alone(patient: Patient) -> None:
    slices = Slices(patient, [Head(0, 1)], parts="ko")
    before = patient.attention(0).get_submodule("query_key_value").weight.detach().clone()
    slices.reinitialise("xavier_normal", 0)
    changed = (patient.attention(0).get_submodule("query_key_value").weight != before).any(1)
    start = rows_of(Head(0, 1)).start + D  # k comes second
    assert changed.nonzero().flatten().tolist() == list(range(start, start + D))


def test_queries_and_keys_stand_still_in_the_first_step_after_a_cut(patient: Patient) -> None:
    slices = Slices(patient, [Head(1, 1)])
    slices.reinitialise("xavier_normal", 0)
    with slices.training():
        token_losses(patient, batches(1)[0]).backward()
    layer = slices.layers[1]
    rows, out = layer.rows["query_key_value"].weight.grad, layer.out.weight.grad
    assert rows is not None
    assert out is not None
    assert rows.abs().max() == 0  # the output columns are 0, so nothing comes back through them
    assert out.abs().max() > 0


def test_the_bias_of_a_key_changes_nothing_and_stays(patient: Patient) -> None:
    slices = Slices(patient, [Head(1, 1)])
    key_bias = patient.attention(1).get_submodule("query_key_value").bias[rows_of(Head(1, 1))][D : 2 * D]
    logits = patient.model(input_ids=batches(1)[0]).logits
    before = key_bias.clone()
    slice_training(slices, 3, 1e-2)
    assert torch.equal(key_bias, before)
    write_values(patient, Slices(load(str(patient.folder), device="cpu"), [Head(1, 1)]).values())
    key_bias += 0.5
    assert torch.allclose(patient.model(input_ids=batches(1)[0]).logits, logits, atol=1e-5)


def test_put_gives_back_every_bit(patient: Patient) -> None:
    slices = Slices(patient, HEADS)
    stock, whole = slices.values(), {n: p.clone() for n, p in patient.model.named_parameters()}
    slices.reinitialise("xavier_normal", 0)
    slice_training(slices, 2, 1e-2)
    slices.put(stock)
    assert all(torch.equal(p, whole[n]) for n, p in patient.model.named_parameters())


def test_the_frozen_digest_sees_all_but_the_slices(patient: Patient) -> None:
    slices = Slices(patient, [Head(1, 0)])
    before = slices.frozen_sha256()
    slices.reinitialise("xavier_normal", 0)
    assert slices.frozen_sha256() == before
    patient.attention(1).get_submodule("query_key_value").weight.data[3 * D, 0] += 1e-7  # the next head's first row
    assert slices.frozen_sha256() != before


def test_bfloat16_patients_train_every_weight(tmp_path: Path) -> None:
    patient = load(str(make_patient(tmp_path / "half", torch.bfloat16)), device="cpu")
    slices = Slices(patient, HEADS)
    slices.reinitialise("xavier_normal", 0)
    before = {name: m.detach().clone() for name, m in slices.masters().items()}
    slice_training(slices, 10, 5e-5)
    moved = torch.cat([(m != before[n]).flatten() for n, m in slices.masters().items()])
    assert all(m.dtype == torch.float32 for m in slices.masters().values())
    assert moved.float().mean() >= 0.99
