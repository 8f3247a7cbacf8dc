"""One head's attention on one text, small enough to be looked at and journalled."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from engine.errors import InputError
from engine.heads import Head
from engine.nn.attention import head_weights, run
from engine.nn.load import Patient
from engine.nn.watching import Seen, watching

SHOWN = 64
"""A longer text is shown by its first tokens, which attend to nothing after them."""
TOP = 4


@dataclass(frozen=True)
class Pattern:
    """Where a head looks, token by token."""

    tokens: list[str]
    """The text's tokens as text; those of a piece of a letter are not readable alone."""
    top: list[list[list[float]]]
    """Per query the keys with most weight, heaviest first: [index, weight], at most ``TOP`` of them."""
    received: list[float]
    """Mean weight that each key got over all queries; the first is the head's BOS mass here, where no window is
    shorter than the text."""
    sink: list[float]
    """Per query what the head's sink logit takes; empty where it has none."""


@torch.no_grad()
def pattern(patient: Patient, ids: Tensor, head: Head) -> Pattern:
    """What ``head`` attends to on the first ``SHOWN`` tokens of a text.

    Args:
        ids: token ids  # (T,)

    Raises:
        InputError: the patient has no such head.
    """
    a = patient.anatomy
    if not (0 <= head.layer < a.n_layers and 0 <= head.head < a.n_heads):
        last = Head(a.n_layers - 1, a.n_heads - 1)
        raise InputError(f"{patient.source} has no head {head}; its heads go up to {last}")
    ids = ids[:SHOWN]
    found: list[Tensor] = []
    shares: list[Tensor] = []

    def take(layer: int, seen: Seen) -> None:
        if layer == head.layer:
            alone = seen.of(0, torch.arange(len(ids), device=ids.device), slice(head.head, head.head + 1))
            weights, sink = head_weights(alone, 0, len(ids))  # (1, T, T), (1, T)
            found.append(weights[0].cpu())
            shares.extend([] if sink is None else [sink[0].cpu()])

    with watching(patient, take):
        run(patient, ids[None], None)
    heaviest, keys = found[0].sort(descending=True, stable=True)  # (T, T) each
    top = [
        [[key, round(weight, 3)] for key, weight in zip(row_keys, row, strict=True) if weight >= 0.0005]
        for row_keys, row in zip(keys[:, :TOP].tolist(), heaviest[:, :TOP].tolist(), strict=True)
    ]
    return Pattern(
        tokens=[patient.tokenizer.decode([i]) for i in ids.tolist()],
        top=top,
        received=[round(weight, 4) for weight in found[0].mean(0).tolist()],
        sink=[round(share, 4) for of_query in shares for share in of_query.tolist()],
    )
