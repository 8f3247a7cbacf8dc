"""BOS mass and entropy of every head, computed from Q and K by ourselves, in fp32.

No attention matrix that a model returns is trusted: some implementations return none, some a wrong
one. Only a block of query rows of one layer is alive at a time, never a whole T×T per layer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from engine.heads import HeadMap, ProbeText, Rows, Thresholds, as_rows
from engine.nn.load import Patient
from engine.nn.seeds import generator
from engine.probes import Probe

QUERY_BLOCK = 256
RESAMPLES = 1000


def head_statistics(q: Tensor, k: Tensor, alibi: Tensor) -> tuple[Tensor, Tensor]:
    """BOS mass and entropy of one layer on one text (paper section 3; entropy in nats).

    Args:
        q: queries  # (n_heads, T, d_head)
        k: keys  # (n_heads, T, d_head)
        alibi: position bias per key  # (n_heads, 1, T)

    Returns:
        bos_mass, entropy  # (n_heads,) each, means over the T query rows
    """
    n_heads, n_tokens, d_head = q.shape
    q, k, alibi = q.float(), k.float(), alibi.float()
    mass = torch.zeros(n_heads, device=q.device)
    entropy = torch.zeros(n_heads, device=q.device)
    keys = torch.arange(n_tokens, device=q.device)
    for start in range(0, n_tokens, QUERY_BLOCK):
        rows = keys[start : start + QUERY_BLOCK]
        scores = q[:, rows] @ k.transpose(1, 2) / math.sqrt(d_head) + alibi  # (n_heads, rows, T)
        scores = scores.masked_fill(keys > rows[:, None], float("-inf"))
        p = scores.softmax(-1)  # (n_heads, rows, T)
        mass += p[:, :, 0].sum(-1)
        entropy -= torch.xlogy(p, p).sum((1, 2))
    return mass / n_tokens, entropy / n_tokens


class _Watch:
    """Collects each layer's statistics while a text of batch size 1 runs through the model."""

    def __init__(self, patient: Patient) -> None:
        self.patient = patient
        self.mass: list[Tensor] = []
        self.entropy: list[Tensor] = []
        self.check = False
        self._fused: Tensor | None = None

    def keep_fused(self, module: Any, args: Any, output: Tensor) -> None:
        self._fused = output

    def reduce(self, module: Any, args: Any, kwargs: dict[str, Any], output: Any) -> None:
        assert self._fused is not None
        a = self.patient.anatomy
        fused = self._fused[0].view(-1, a.n_heads, 3, a.d_head)  # (T, n_heads, 3, d_head)
        q, k = fused[:, :, 0].transpose(0, 1), fused[:, :, 1].transpose(0, 1)  # (n_heads, T, d_head)
        mass, entropy = head_statistics(q, k, kwargs["alibi"])
        self.mass.append(mass)
        self.entropy.append(entropy)
        self._fused = None
        if self.check:
            check_attention(output[1][0], mass, len(self.mass) - 1)


def check_attention(returned: Tensor, mass: Tensor, layer: int) -> None:
    """Hold what the model itself used against our figures: causal, rows sum to 1, same BOS mass.

    Args:
        returned: the model's attention weights  # (n_heads, T, T)
        mass: our BOS mass  # (n_heads,)

    Raises:
        ArithmeticError: the model attends to the future, or otherwise than we compute.
    """
    weights = returned.float()
    loose = 1e-4 if returned.dtype == torch.float32 else 0.02
    if weights.triu(1).abs().max() > 0:
        raise ArithmeticError(f"layer {layer} attends to the future; its figures would mean nothing")
    if (weights.sum(-1) - 1).abs().max() > loose:
        raise ArithmeticError(f"the attention rows of layer {layer} do not sum to 1")
    if (weights[:, :, 0].mean(-1) - mass).abs().max() > loose:
        raise ArithmeticError(f"layer {layer} attends otherwise than computed from its queries and keys")


@contextmanager
def _watching(patient: Patient) -> Iterator[_Watch]:
    watch, hooks = _Watch(patient), []
    for layer in range(patient.anatomy.n_layers):
        attention = patient.attention(layer)
        hooks.append(attention.get_submodule("query_key_value").register_forward_hook(watch.keep_fused))
        hooks.append(attention.register_forward_hook(watch.reduce, with_kwargs=True))
    try:
        yield watch
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def statistics(patient: Patient, ids: Tensor, check: bool = False) -> tuple[Tensor, Tensor]:
    """BOS mass and entropy of all heads on one text; nothing is padded, so batching cannot matter.

    Args:
        ids: token ids  # (T,)
        check: also hold the model's own attention weights against ours (``check_attention``)

    Returns:
        bos_mass, entropy  # (n_layers, n_heads) each, on the CPU
    """
    with _watching(patient) as watch:
        watch.check = check
        patient.model.base_model(input_ids=ids[None], use_cache=False)
    return torch.stack(watch.mass).cpu(), torch.stack(watch.entropy).cpu()


def bos_rows(patient: Patient, texts: list[Tensor]) -> Rows:
    """BOS mass of all heads, mean over texts that are token ids already: the check inside a pass."""
    masses = [statistics(patient, ids)[0] for ids in texts]
    return as_rows(torch.stack(masses).mean(0).tolist())


def measure(patient: Patient, probes: list[Probe], thresholds: Thresholds | None = None) -> Iterator[int | HeadMap]:
    """The whole head map over several texts. Yields the number of texts done, then the map.

    A head's figures are means over texts, each text counting once; the interval is the 95 %
    bootstrap interval over texts (percentiles of 1000 resamples, seeded by name).

    Raises:
        InputError: a text leaves no tokens.
        ArithmeticError: the model's own attention is not what its Q and K say.
    """
    masses, entropies, texts = [], [], []
    for index, probe in enumerate(probes):
        ids = patient.ids(probe.text)
        mass, entropy = statistics(patient, ids, check=index == 0)  # (n_layers, n_heads)
        masses.append(mass)
        entropies.append(entropy)
        first = patient.tokenizer.decode([int(ids[0])])
        texts.append(ProbeText(probe.name, len(ids), first))
        yield index + 1
    by_text = torch.stack(masses)  # (n_texts, n_layers, n_heads)
    low, high = bootstrap(by_text)
    yield HeadMap(
        bos_mass=as_rows(by_text.mean(0).tolist()),
        entropy=as_rows(torch.stack(entropies).mean(0).tolist()),
        bos_low=as_rows(low.tolist()),
        bos_high=as_rows(high.tolist()),
        texts=texts,
        by_text=[as_rows(rows, 4) for rows in by_text.tolist()],
        thresholds=thresholds or Thresholds(),
    )


def bootstrap(by_text: Tensor) -> tuple[Tensor, Tensor]:
    """2.5 and 97.5 percentiles of the resampled mean over texts.

    Args:
        by_text: a figure per text and head  # (n_texts, n_layers, n_heads)

    Returns:
        low, high  # (n_layers, n_heads) each
    """
    n_texts = len(by_text)
    picks = torch.randint(n_texts, (RESAMPLES, n_texts), generator=generator("bootstrap"))  # (RESAMPLES, n_texts)
    weights = torch.nn.functional.one_hot(picks, n_texts).float().mean(1)  # (RESAMPLES, n_texts)
    means = weights @ by_text.flatten(1)  # (RESAMPLES, n_layers * n_heads)
    bounds = torch.quantile(means, torch.tensor([0.025, 0.975]), dim=0)
    return bounds[0].view(by_text.shape[1:]), bounds[1].view(by_text.shape[1:])
