"""BOS mass and entropy of every head, computed from Q and K by ourselves, in fp32.

No attention matrix that a model returns is trusted: some implementations return none, some a wrong
one. Ours is alive for a block of query rows of one text and layer; the model's own is dropped as
soon as its layer is done.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from engine.heads import HeadMap, ProbeText, Rows, Thresholds, as_rows
from engine.nn.load import Patient
from engine.nn.seeds import generator
from engine.probes import Probe

QUERY_BLOCK = 256
RESAMPLES = 1000
TOKENS_AT_ONCE = {"cpu": 256, "cuda": 2048}
"""Texts are padded into batches of so many tokens, or measured alone where they are longer. A CPU is
soon busy and then pays for padding; on a GPU a batch takes no more memory than one text of BLOOM's context."""

Take = Callable[[int, Tensor, Tensor, Tensor, Tensor], None]


def head_weights(q: Tensor, k: Tensor, alibi: Tensor, start: int, stop: int) -> Tensor:
    """Attention weights of some query rows of one layer on one text, in fp32.

    Args:
        q: queries  # (n_heads, T, d_head)
        k: keys  # (n_heads, T, d_head)
        alibi: position bias per key  # (n_heads, 1, T)
        start, stop: the query rows; they see no key from ``stop`` on

    Returns:
        weights  # (n_heads, stop - start, stop)
    """
    keys = torch.arange(stop, device=q.device)
    rows, columns = q[:, start:stop].float(), k[:, :stop].float().transpose(1, 2)
    bias = alibi[..., :stop].float()  # (n_heads, 1, stop)
    scores = torch.baddbmm(bias, rows, columns, alpha=1 / math.sqrt(q.shape[-1]))  # (n_heads, rows, stop)
    return scores.masked_fill_(keys > keys[start:, None], float("-inf")).softmax(-1)


def head_statistics(q: Tensor, k: Tensor, alibi: Tensor) -> tuple[Tensor, Tensor]:
    """BOS mass and entropy of one layer on one text (paper section 3; entropy in nats).

    Args:
        q, k, alibi: as in ``head_weights``

    Returns:
        bos_mass, entropy  # (n_heads,) each, means over the T query rows
    """
    n_heads, n_tokens, _ = q.shape
    mass = torch.zeros(n_heads, device=q.device)
    entropy = torch.zeros(n_heads, device=q.device)
    for start in range(0, n_tokens, QUERY_BLOCK):
        p = head_weights(q, k, alibi, start, min(start + QUERY_BLOCK, n_tokens))  # (n_heads, rows, keys)
        mass += p[:, :, 0].sum(-1)
        entropy -= torch.xlogy(p, p).sum((1, 2))
    return mass / n_tokens, entropy / n_tokens


def check_attention(returned: Tensor, mass: Tensor, layer: int) -> None:
    """Hold what the model itself used against our figures: causal, rows sum to 1, same BOS mass.

    Args:
        returned: the model's attention weights on one text's real tokens  # (n_heads, T, T)
        mass: our BOS mass  # (n_heads,)

    Raises:
        ArithmeticError: the model attends to the future, or otherwise than we compute.
    """
    loose = 1e-4 if returned.dtype == torch.float32 else 0.02
    for head, ours in zip(returned, mass, strict=True):  # one by one: a T×T of all heads is large
        weights = head.float()  # (T, T)
        if weights.triu(1).abs().max() > 0:
            raise ArithmeticError(f"layer {layer} attends to the future; its figures would mean nothing")
        if (weights.sum(-1) - 1).abs().max() > loose:
            raise ArithmeticError(f"the attention rows of layer {layer} do not sum to 1")
        if (weights[:, 0].mean() - ours).abs() > loose:
            raise ArithmeticError(f"layer {layer} attends otherwise than computed from its queries and keys")


@contextmanager
def watching(patient: Patient, take: Take) -> Iterator[None]:
    """While open, each layer that the model runs is handed to ``take(layer, q, k, alibi, weights)``:
    q and k  # (B, n_heads, T, d_head), alibi  # (B, n_heads, 1, T) and the model's own weights
    # (B, n_heads, T, T), which nobody else sees: the model would keep them into the next layer.
    """
    a = patient.anatomy
    fused: list[Tensor] = []
    hooks = []

    def keep(module: Any, args: Any, output: Tensor) -> None:
        fused.append(output)

    def hand_on(layer: int, module: Any, args: Any, kwargs: dict[str, Any], output: Any) -> Any:
        qkv = fused.pop().unflatten(-1, (a.n_heads, 3, a.d_head)).transpose(1, 2)  # (B, n_heads, T, 3, d_head)
        alibi = kwargs["alibi"].unflatten(0, (-1, a.n_heads))  # (B, n_heads, 1, T)
        take(layer, qkv[..., 0, :], qkv[..., 1, :], alibi, output[1])
        return output[0], None

    for layer in range(a.n_layers):
        attention = patient.attention(layer)
        hooks.append(attention.get_submodule("query_key_value").register_forward_hook(keep))
        hooks.append(attention.register_forward_hook(partial(hand_on, layer), with_kwargs=True))
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def statistics(patient: Patient, ids: Tensor, mask: Tensor | None = None, check: bool = False) -> tuple[Tensor, Tensor]:
    """BOS mass and entropy of all heads on each text of a batch, over its real tokens alone: position 0
    is the first of them, on whichever side the padding stands.

    Args:
        ids: token ids  # (B, T)
        mask: 1 for real tokens, 0 for padding; None: nothing is padded  # (B, T)
        check: also hold the model's own attention weights against ours (``check_attention``)

    Returns:
        bos_mass, entropy  # (B, n_layers, n_heads) each, on the CPU

    Raises:
        ValueError: a text of the batch has no real token.
        ArithmeticError: ``check`` failed.
    """
    real = torch.ones_like(ids) if mask is None else mask
    if not bool(real.any(1).all()):
        raise ValueError("a row of the mask holds no real token")
    places = [row.nonzero()[:, 0] for row in real]  # (T of this text,) each
    figures: list[Tensor] = []

    def take(layer: int, q: Tensor, k: Tensor, alibi: Tensor, weights: Tensor) -> None:
        of_texts = []
        for text, place in enumerate(places):
            mass, entropy = head_statistics(q[text][:, place], k[text][:, place], alibi[text][..., place])
            if check:
                check_attention(weights[text][:, place][..., place], mass, layer)
            of_texts.append(torch.stack((mass, entropy)))  # (2, n_heads)
        figures.append(torch.stack(of_texts))  # (B, 2, n_heads)

    with watching(patient, take):
        patient.model.base_model(input_ids=ids, attention_mask=mask, use_cache=False)
    found = torch.stack(figures, 1).cpu()  # (B, n_layers, 2, n_heads)
    return found[:, :, 0], found[:, :, 1]


def in_batches(texts: list[Tensor], at_once: int) -> Iterator[list[int]]:
    """Indices of texts to pad together, longest first so that memory is short at once or never.

    The order in which the texts are given changes no batch. A batch takes at most ``at_once`` tokens
    with its padding; a longer text is alone.
    """
    order = sorted(range(len(texts)), key=lambda i: (-len(texts[i]), texts[i].tolist()))
    while order:
        rows = max(1, at_once // len(texts[order[0]]))
        yield order[:rows]
        order = order[rows:]


def pad(texts: list[Tensor]) -> tuple[Tensor, Tensor | None]:
    """Texts as one batch, padded on the right: ids and mask  # (B, T) each; no mask where all are equally long."""
    ids = torch.nn.utils.rnn.pad_sequence(texts, batch_first=True)  # (B, T)
    if all(len(text) == ids.shape[1] for text in texts):
        return ids, None
    return ids, torch.nn.utils.rnn.pad_sequence([torch.ones_like(text) for text in texts], batch_first=True)


def _measured(patient: Patient, texts: list[Tensor], check: bool = False) -> Iterator[tuple[list[int], Tensor, Tensor]]:
    """Batch after batch: which texts, and their statistics. ``check`` holds for the first, the longest."""
    for number, batch in enumerate(in_batches(texts, TOKENS_AT_ONCE[patient.device.type])):
        yield batch, *statistics(patient, *pad([texts[i] for i in batch]), check=check and number == 0)


def bos_rows(patient: Patient, texts: list[Tensor]) -> Rows:
    """BOS mass of all heads, mean over texts that are token ids already: the check inside a pass."""
    masses = torch.zeros(len(texts), patient.anatomy.n_layers, patient.anatomy.n_heads)
    for batch, mass, _ in _measured(patient, texts):
        masses[batch] = mass
    return _mean(masses)


def _mean(by_text: Tensor) -> Rows:
    return as_rows(by_text.double().mean(0).tolist())  # in fp64 the order of the texts does not reach six digits


@dataclass(frozen=True)
class TokenText:
    """A probe as a patient reads it."""

    name: str
    ids: Tensor  # (T,)


def tokenized(patient: Patient, probes: list[Probe]) -> list[TokenText]:
    """The probes as token ids, cut to what each asks for and to the context. Of those that come out
    the same (long texts with one beginning, in a short context) only the first is kept, so that none
    counts twice.

    Raises:
        InputError: a text leaves no tokens.
    """
    texts: dict[tuple[int, ...], TokenText] = {}
    for probe in probes:
        ids = patient.ids(probe.text, probe.tokens)
        texts.setdefault(tuple(ids.tolist()), TokenText(probe.name, ids))
    return list(texts.values())


def measure(patient: Patient, probes: list[Probe], thresholds: Thresholds | None = None) -> Iterator[int | HeadMap]:
    """The whole head map over several texts. Yields the number of texts done, then the map.

    A head's figures are means over texts, each text counting once; the intervals are 95 % bootstrap
    intervals over texts (percentiles of 1000 resamples, seeded by name). With one text, the paper's
    own diagnosis, an interval is the figure itself. The order of the texts changes nothing: draws go
    by the texts' tokens.

    Raises:
        InputError: a text leaves no tokens.
        ArithmeticError: the model's own attention is not what its Q and K say.
    """
    texts = tokenized(patient, probes)
    ids = [text.ids for text in texts]
    mass = torch.zeros(len(texts), patient.anatomy.n_layers, patient.anatomy.n_heads)
    entropy = torch.zeros_like(mass)
    done = len(probes) - len(texts)
    for batch, of_mass, of_entropy in _measured(patient, ids, check=True):
        mass[batch], entropy[batch] = of_mass, of_entropy
        done += len(batch)
        yield done
    by_tokens = sorted(range(len(texts)), key=lambda i: ids[i].tolist())
    bos_low, bos_high = bootstrap(mass[by_tokens])
    entropy_low, entropy_high = bootstrap(entropy[by_tokens])
    yield HeadMap(
        bos_mass=_mean(mass),
        entropy=_mean(entropy),
        bos_low=as_rows(bos_low.tolist()),
        bos_high=as_rows(bos_high.tolist()),
        entropy_low=as_rows(entropy_low.tolist()),
        entropy_high=as_rows(entropy_high.tolist()),
        texts=[ProbeText(t.name, len(t.ids), patient.tokenizer.decode([int(t.ids[0])])) for t in texts],
        by_text=[as_rows(rows, 4) for rows in mass.tolist()],
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
    once = torch.ones(picks.shape, dtype=torch.float64)
    counts = torch.zeros_like(once).scatter_add_(1, picks, once)  # (RESAMPLES, n_texts)
    means = counts @ by_text.double().flatten(1) / n_texts  # (RESAMPLES, n_layers * n_heads)
    bounds = torch.quantile(means, torch.tensor([0.025, 0.975], dtype=means.dtype), dim=0)
    return bounds[0].view(by_text.shape[1:]), bounds[1].view(by_text.shape[1:])
