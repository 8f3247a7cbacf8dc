"""BOS mass and entropy of every head, computed from Q and K by ourselves, in fp32.

No attention matrix that a model returns is trusted: some implementations return none, some a wrong
one. Ours is alive for a block of query rows of one text and layer; the model's own is dropped as
soon as its layer is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from engine.heads import HeadMap, ProbeText, Rows, Thresholds, as_rows, reaching
from engine.nn.load import Patient, positions
from engine.nn.seeds import generator
from engine.nn.sinks import given, sinks_of
from engine.nn.watching import Scored, Seen, watching
from engine.probes import Probe

QUERY_BLOCK = 256
RESAMPLES = 1000
TOKENS_AT_ONCE = {"cpu": 256, "cuda": 2048}
"""Texts are padded into batches of so many tokens, or measured alone where they are longer. A CPU is
soon busy and then pays for padding; on a GPU a batch takes no more memory than one text of BLOOM's context."""


def head_weights(scored: Scored, start: int, stop: int) -> tuple[Tensor, Tensor | None]:
    """Attention weights of some query rows of one layer on one text, in fp32.

    Args:
        start, stop: the query rows; they see no key from ``stop`` on

    Returns:
        weights  # (n_heads, stop - start, stop), and what the sink logit takes  # (n_heads, stop - start)
        or None; together the rows sum to 1
    """
    scores = head_scores(scored, start, stop)  # (n_heads, rows, stop)
    if scored.sinks is None:
        return scores.softmax(-1), None
    sinks = scored.sinks.float()[:, None, None].expand(-1, stop - start, 1)  # (n_heads, rows, 1)
    p = torch.cat((scores, sinks), -1).softmax(-1)  # (n_heads, rows, stop + 1)
    return p[..., :-1], p[..., -1]


def head_scores(scored: Scored, start: int, stop: int) -> Tensor:
    """What the softmax of some query rows is taken of, -inf for keys that a row does not see; the arguments are those
    of ``head_weights``  # (n_heads, stop - start, stop)"""
    keys = torch.arange(stop, device=scored.q.device)
    rows, columns = scored.q[:, start:stop].float(), scored.k[:, :stop].float().transpose(1, 2)
    if scored.bias is None:
        scores = torch.bmm(rows, columns).mul_(scored.scale)  # (n_heads, rows, stop)
    else:
        scores = torch.baddbmm(scored.bias[..., :stop].float(), rows, columns, alpha=scored.scale)
    if scored.softcap:
        scores = scores.div_(scored.softcap).tanh_().mul_(scored.softcap)
    unseen = keys > keys[start:, None]  # (rows, stop)
    if scored.window:
        unseen |= keys <= keys[start:, None] - scored.window
    return scores.masked_fill_(unseen, float("-inf"))


def head_statistics(scored: Scored) -> Tensor:
    """BOS mass, entropy and sink mass of one layer on one text (paper section 3; entropy in nats).

    The BOS mass is the mean over the query rows that can reach position 0: all of them, or in a layer with
    a window the first so many; the rows after them hold no weight there whatever the head does. The
    entropy is that of the whole row, the share of the sink logit included.

    Returns:
        bos_mass, entropy, sink_mass (0 without a sink logit)  # (3, n_heads)
    """
    n_heads, n_tokens, _ = scored.q.shape
    found = torch.zeros(3, n_heads, device=scored.q.device)
    for start in range(0, n_tokens, QUERY_BLOCK):
        p, sink = head_weights(scored, start, min(start + QUERY_BLOCK, n_tokens))  # (n_heads, rows, keys)
        found[0] += p[:, :, 0].sum(-1)
        found[1] -= torch.xlogy(p, p).sum((1, 2))
        if sink is not None:
            found[1] -= torch.xlogy(sink, sink).sum(-1)
            found[2] += sink.sum(-1)
    rows = torch.full((3, 1), n_tokens, device=found.device)
    rows[0] = reaching(n_tokens, scored.window)
    return found / rows


def check_attention(
    returned: Tensor | None, mass: Tensor, layer: int, sink: Tensor | None = None, reach: int = 0
) -> None:
    """Hold what the model itself used against our figures: causal, rows sum to 1, same BOS mass.

    Args:
        returned: the model's attention weights on one text's real tokens  # (n_heads, T, T)
        mass: our BOS mass  # (n_heads,)
        sink: our sink mass where there is a sink logit: keys and sink sum to 1  # (n_heads,)
        reach: query rows that can reach position 0; 0: all

    Raises:
        ArithmeticError: the model attends to the future, or otherwise than we compute.
    """
    if returned is None:
        raise ArithmeticError(f"layer {layer} gives no attention to hold against ours; its figures would be unchecked")
    loose = 1e-4 if returned.dtype == torch.float32 else 0.02
    for index, (head, ours) in enumerate(zip(returned, mass, strict=True)):  # one by one: a T×T of all is large
        weights = head.float()  # (T, T)
        if weights.triu(1).abs().max() > 0:
            raise ArithmeticError(f"layer {layer} attends to the future; its figures would mean nothing")
        sums = weights.sum(-1)  # (T,)
        if sink is None and (sums - 1).abs().max() > loose:
            raise ArithmeticError(f"the attention rows of layer {layer} do not sum to 1")
        if sink is not None and (sums.max() > 1 + loose or (sums.mean() + sink[index] - 1).abs() > loose):
            raise ArithmeticError(f"the attention rows of layer {layer} do not sum to 1 with the sink logit's share")
        if (weights[: reach or len(weights), 0].mean() - ours).abs() > loose:
            raise ArithmeticError(f"layer {layer} attends otherwise than computed from its queries and keys")


@torch.no_grad()
def figures(patient: Patient, ids: Tensor, mask: Tensor | None = None, check: bool = False) -> Tensor:
    """The figures of all heads on each text of a batch, over its real tokens alone: position 0 is the
    first of them, on whichever side the padding stands.

    Args:
        ids: token ids  # (B, T)
        mask: 1 for real tokens, 0 for padding; None: nothing is padded  # (B, T)
        check: also hold the model's own attention weights against ours (``check_attention``)

    Returns:
        bos_mass, entropy, sink_mass  # (3, B, n_layers, n_heads), on the CPU

    Raises:
        ValueError: a text of the batch has no real token.
        ArithmeticError: ``check`` failed.
    """
    real = torch.ones_like(ids) if mask is None else mask
    if not bool(real.any(1).all()):
        raise ValueError("a row of the mask holds no real token")
    places = [row.nonzero()[:, 0] for row in real]  # (T of this text,) each
    layers: list[Tensor] = []

    def take(layer: int, seen: Seen) -> None:
        of_texts = []
        for text, place in enumerate(places):
            found = head_statistics(seen.of(text, place))  # (3, n_heads)
            if check:
                returned = None if seen.weights is None else seen.weights[text][:, place][..., place]
                sink = None if seen.sinks is None else found[2]
                check_attention(returned, found[0], layer, sink, reaching(len(place), seen.window))
            of_texts.append(found)
        layers.append(torch.stack(of_texts, 1))  # (3, B, n_heads)

    with watching(patient, take):
        run(patient, ids, mask)
    return torch.stack(layers, 2).cpu()  # (3, B, n_layers, n_heads)


def statistics(patient: Patient, ids: Tensor, mask: Tensor | None = None, check: bool = False) -> tuple[Tensor, Tensor]:
    """BOS mass and entropy alone (``figures``)  # (B, n_layers, n_heads) each"""
    found = figures(patient, ids, mask, check)
    return found[0], found[1]


def run(patient: Patient, ids: Tensor, mask: Tensor | None) -> None:
    """Let the model read a batch, each text counting its positions from its first real token  # (B, T) each"""
    options = {}
    if mask is not None and patient.anatomy.takes_position_ids:
        options["position_ids"] = positions(mask)  # (B, T)
    patient.model.base_model(input_ids=ids, attention_mask=mask, use_cache=False, **options)


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


def _measured(patient: Patient, texts: list[Tensor], check: bool = False) -> Iterator[tuple[list[int], Tensor]]:
    """Batch after batch: which texts, and their figures. ``check`` holds for the first, the longest."""
    for number, batch in enumerate(in_batches(texts, TOKENS_AT_ONCE[patient.device.type])):
        yield batch, figures(patient, *pad([texts[i] for i in batch]), check=check and number == 0)


def rest_rows(patient: Patient, texts: list[Tensor]) -> tuple[Rows, Rows]:
    """BOS mass and sink mass of all heads, means over texts that are token ids already: the check inside a pass.
    The sink mass has no rows where no head has a sink logit."""
    masses = torch.zeros(2, len(texts), patient.anatomy.n_layers, patient.anatomy.n_heads)
    for batch, found in _measured(patient, texts):
        masses[:, batch] = found[[0, 2]]
    return _mean(masses[0]), _mean(masses[1]) if has_sinks(patient) else []


@torch.no_grad()
def levels(patient: Patient, texts: list[Tensor]) -> Tensor:
    """Per head the logarithm of what its keys bring to the softmax together, mean over query rows, then over texts:
    a sink logit of this height takes about half. (A height means nothing by itself: a softmax does not see what
    is added to all its scores.)

    Args:
        texts: token ids  # (T,) each

    Returns:
        in nats  # (n_layers, n_heads), on the CPU
    """
    a = patient.anatomy
    total = torch.zeros(a.n_layers, a.n_heads)

    def take(layer: int, seen: Seen) -> None:
        n_tokens = seen.q.shape[1]
        scored = seen.of(0, torch.arange(n_tokens, device=seen.q.device))
        for start in range(0, n_tokens, QUERY_BLOCK):
            rows = head_scores(scored, start, min(start + QUERY_BLOCK, n_tokens)).logsumexp(-1)  # (n_heads, rows)
            total[layer] += rows.sum(-1).cpu() / n_tokens

    with watching(patient, take):
        for text in texts:
            run(patient, text[None], None)
    return total / len(texts)


def has_sinks(patient: Patient) -> bool:
    """Whether heads have sink logits, of the family's own or given to them."""
    a = patient.anatomy
    return bool(a.sinks) or any(given(sinks_of(patient.attention(layer))) for layer in range(a.n_layers))


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
    a = patient.anatomy
    found = torch.zeros(3, len(texts), a.n_layers, a.n_heads)
    done = len(probes) - len(texts)
    for batch, of_batch in _measured(patient, ids, check=True):
        found[:, batch] = of_batch
        done += len(batch)
        yield done
    mass, entropy, sink = found  # (n_texts, n_layers, n_heads) each
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
        sink_mass=_mean(sink) if has_sinks(patient) else [],
        windows=list(a.windows),
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
