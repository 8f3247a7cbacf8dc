"""One optimizer step: the loss over its samples, the gradients of the slices, and whether to believe them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from engine.nn.load import Patient, swapped_forward
from engine.nn.slices import Slices
from engine.nn.vitals import token_losses


def learning_rate(step: int, n_steps: int, warmup: int, lr: float) -> float:
    """Rate of a step (from 0): linear warmup that starts above 0, then a cosine that ends near 0.
    A pure function of the step."""
    if step < warmup:
        return lr * (step + 1) / warmup
    return lr * 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, n_steps - warmup)))


def gradients(patient: Patient, samples: Tensor, micro_batch: int) -> float:
    """Add the gradients of the mean loss over all predicted tokens of ``samples`` to the masters.

    However the samples are cut into micro-batches, every predicted token weighs the same, also where
    the last micro-batch is short.

    Args:
        samples: token ids  # (n, T)

    Returns:
        The loss in nats per predicted token.
    """
    predicted = samples.shape[0] * (samples.shape[1] - 1)
    total = 0.0
    for part in samples.split(micro_batch):
        loss = token_losses(patient, part) / predicted
        loss.backward()
        total += loss.item()
    return total


def update(
    slices: Slices, optimizer: torch.optim.Optimizer, loss: float, rate: float, clip: float
) -> tuple[bool, float]:
    """Clip, step, and write the masters back into the model, unless loss or norm is not finite.

    Returns:
        Whether the step was taken, and the gradient norm before clipping.
    """
    norm = torch.nn.utils.clip_grad_norm_(slices.masters().values(), clip).item()
    taken = math.isfinite(loss) and math.isfinite(norm)
    if taken:
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        slices.write_back()
    return taken, norm


@contextmanager
def checkpointed(patient: Patient, lowest_layer: int) -> Iterator[None]:
    """While open, each block from ``lowest_layer`` up forgets its activations and computes them anew in the
    backward pass. The same operations on the same numbers: no gradient changes."""
    with ExitStack() as stack:
        for layer in range(lowest_layer, patient.anatomy.n_layers):
            block = patient.block(layer)
            stack.enter_context(swapped_forward(block, _recomputing(block)))
        yield


def _recomputing(block: nn.Module) -> Any:
    plain = block.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return plain(*args, **kwargs)
        return checkpoint(plain, *args, use_reentrant=False, **kwargs)

    return forward
