"""What a model is worth on a text: perplexity, and what its loss owes to some heads."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.heads import Head
from engine.nn.corpus import Packer
from engine.nn.load import Patient
from engine.nn.slices import slice_view

TOKENS_AT_ONCE = 4096
LOGITS_AT_ONCE = 2**27
"""Half a gigabyte in fp32; with BLOOM's 250 880 words that is one sample of 512 tokens."""
LARGEST_LOSS = 700.0
"""In nats; its exponential is the largest that JSON and TOML carry."""


def token_losses(patient: Patient, samples: Tensor) -> Tensor:
    """Summed negative log-likelihood of the predicted tokens, in nats, in fp32; keeps the graph.

    Args:
        samples: token ids  # (B, T); each row predicts T-1 tokens
    """
    samples = samples.to(patient.device)
    logits = patient.model(input_ids=samples, use_cache=False).logits[:, :-1]  # (B, T-1, vocabulary)
    return F.cross_entropy(logits.flatten(0, 1).float(), samples[:, 1:].flatten(), reduction="sum")


@torch.no_grad()
def mean_loss(patient: Patient, samples: Tensor) -> float:
    """Loss per predicted token in nats, every predicted token counting once.

    Args:
        samples: token ids  # (N, T)
    """
    tokens = min(TOKENS_AT_ONCE, LOGITS_AT_ONCE // patient.anatomy.vocabulary)
    at_once = max(1, tokens // samples.shape[1])
    total = sum(token_losses(patient, part).item() for part in samples.split(at_once))
    return total / (samples.shape[0] * (samples.shape[1] - 1))


def perplexity(loss: float) -> float:
    """exp of a loss per token; a loss that is no number counts as the largest."""
    return round(math.exp(min(loss, LARGEST_LOSS) if math.isfinite(loss) else LARGEST_LOSS), 6)


def pack_text(patient: Patient, text: str, length: int, at_most: int) -> Tensor:
    """A text as samples for an evaluation  # (n, length)"""
    packer = Packer(patient, length)
    packer.add(text)
    return packer.packed()[:at_most]


@contextmanager
def ablated(patient: Patient, heads: list[Head]) -> Iterator[None]:
    """While open, the output columns of ``heads`` are zero; then they are what they were, to the bit."""
    columns = [s for head in heads for s in patient.anatomy.slices(head, "") if s.part == "o"]
    views = [slice_view(patient, piece) for piece in columns]
    kept = [view.clone() for view in views]
    try:
        for view in views:
            view.zero_()
        yield
    finally:
        for view, values in zip(views, kept, strict=True):
            view.copy_(values)


def ablation_loss(patient: Patient, heads: list[Head], samples: Tensor, loss: float) -> float:
    """What the loss on ``samples`` (``loss`` as it stands) gains when ``heads`` fall silent together, in
    nats per token: what they are worth. Near 0: they do nothing there."""
    with ablated(patient, heads):
        return round(mean_loss(patient, samples) - loss, 6)
