"""What a model is worth on a text: perplexity, what its loss owes to some heads, and sleeping neurons."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from engine.errors import InputError
from engine.heads import Head, Rows
from engine.nn.load import Patient, swapped_forward
from engine.nn.slices import slice_view
from engine.nn.tokens import start_ids
from engine.preflight import LOGITS_AT_ONCE, TOKENS_AT_ONCE

LARGEST_LOSS = 700.0
"""In nats; its exponential is the largest that JSON and TOML carry."""
DORMANT = 0.01
"""A neuron sleeps where the product of its two weight norms is below this (arXiv 2603.09616)."""


# --- perplexity ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TextLoss:
    """What a text cost: nats over all predicted tokens, and how many these are."""

    nats: float
    tokens: int

    @property
    def loss(self) -> float:
        """Nats per predicted token."""
        return self.nats / self.tokens

    @property
    def perplexity(self) -> float:
        return perplexity(self.loss)


def token_losses(patient: Patient, samples: Tensor) -> Tensor:
    """Summed negative log-likelihood of the predicted tokens, in nats, in fp32; keeps the graph.

    Args:
        samples: token ids  # (B, T); each row predicts T-1 tokens
    """
    samples = samples.to(patient.device)
    return F.cross_entropy(_logits(patient, samples), samples[:, 1:].flatten(), reduction="sum")


def _logits(patient: Patient, samples: Tensor) -> Tensor:
    """What is predicted of every token but the first, in fp32  # (B, T) -> (B * (T-1), vocabulary)"""
    given = begun(patient, samples)
    logits = patient.model(input_ids=given, use_cache=False).logits[:, given.shape[1] - samples.shape[1] : -1]
    return logits.flatten(0, 1).float()  # (B * (T-1), vocabulary)


def begun(patient: Patient, samples: Tensor) -> Tensor:
    """Samples with the patient's placeholder before them, if it has one  # (B, T) -> (B, T) or (B, T+1)"""
    before = samples.new_tensor(patient.before).expand(len(samples), -1)  # (B, 0 or 1)
    return torch.cat((before, samples), 1)


@torch.no_grad()
def text_loss(patient: Patient, samples: Tensor) -> TextLoss:
    """The same for an evaluation of any size. The sum runs in double precision over single tokens, so
    neither the batch nor the order of samples shows in it.

    Args:
        samples: token ids  # (N, T)
    """
    nats = sum(_nats(patient, part) for part in _parts(patient, samples))
    return TextLoss(nats, samples.shape[0] * (samples.shape[1] - 1))


def _parts(patient: Patient, samples: Tensor) -> tuple[Tensor, ...]:
    """As many samples as fit at once."""
    tokens = min(TOKENS_AT_ONCE, LOGITS_AT_ONCE // patient.anatomy.vocabulary)
    return samples.split(max(1, tokens // samples.shape[1]))


def _nats(patient: Patient, part: Tensor) -> float:
    part = part.to(patient.device)
    each = F.cross_entropy(_logits(patient, part), part[:, 1:].flatten(), reduction="none")  # (B * (T-1),)
    return each.double().sum().item()


def mean_loss(patient: Patient, samples: Tensor) -> float:
    """Loss per predicted token in nats, every predicted token counting once.

    Args:
        samples: token ids  # (N, T)
    """
    return text_loss(patient, samples).loss


def perplexity(loss: float) -> float:
    """exp of a loss per token; a loss that is no number counts as the largest."""
    return round(math.exp(min(loss, LARGEST_LOSS) if math.isfinite(loss) else LARGEST_LOSS), 6)


def text_losses(patient: Patient, samples: Mapping[str, Iterable[Tensor]]) -> dict[str, TextLoss]:
    """The loss per source; a source may come in samples of several lengths.

    Args:
        samples: per source, token ids  # (N, T) each

    Raises:
        InputError: a source has no token to predict.
    """
    found = {}
    for source, parts in samples.items():
        found[source] = pooled(text_loss(patient, part) for part in parts)
        if not found[source].tokens:
            raise InputError(f"the text {source} is too short: there is no token in it to predict")
    return found


def pooled(losses: Iterable[TextLoss]) -> TextLoss:
    """Several texts as one: every predicted token counts once, whichever text it stands in."""
    listed = list(losses)
    return TextLoss(sum(loss.nats for loss in listed), sum(loss.tokens for loss in listed))


def perplexities(patient: Patient, samples: Mapping[str, Tensor]) -> dict[str, float]:
    """Perplexity per source: exp(total nats / predicted tokens).

    ``perplexities(patient, {"bible": windows(patient, running_text("demo:bible.txt"), 256)[0]})``

    Args:
        samples: per source, token ids  # (N, T)

    Raises:
        InputError: a source has no token to predict.
    """
    return {
        source: loss.perplexity
        for source, loss in text_losses(patient, {name: [part] for name, part in samples.items()}).items()
    }


def windows(patient: Patient, pieces: Iterable[str], length: int, at_most: int | None = None) -> list[Tensor]:
    """A text from its beginning as samples without padding: whole windows and the shorter last one.

    The text comes in pieces (``engine.nn.reading.running_text``); every token but the first of each window is
    predicted once. Windows start as the tokenizer starts a text.

    Returns:
        whole windows  # (n, length), then the rest  # (1, shorter), where each is not empty
    """
    start = start_ids(patient.tokenizer)
    step = length - len(start) - (len(patient.before) if length == patient.context else 0)
    rows: list[list[int]] = []
    rest: list[int] = []
    for piece in pieces:
        rest += patient.tokenizer(piece, add_special_tokens=False, verbose=False)["input_ids"]
        whole = len(rest) // step
        rows += [start + rest[i * step : (i + 1) * step] for i in range(whole)]
        rest = rest[whole * step :]
        if at_most is not None and len(rows) >= at_most:
            rows, rest = rows[:at_most], []
            break
    parts = [torch.tensor(rows, dtype=torch.long)] if rows else []
    if len(start) + len(rest) >= 2 and rest:
        parts.append(torch.tensor([start + rest], dtype=torch.long))
    return parts


# --- ablation --------------------------------------------------------------------------------------


@contextmanager
def ablated(patient: Patient, heads: list[Head]) -> Iterator[None]:
    """While open, the output columns of ``heads`` are zero; then they are what they were, to the bit."""
    views = _output_columns(patient, heads)
    kept = [view.clone() for view in views]
    try:
        for view in views:
            view.zero_()
        yield
    finally:
        for view, values in zip(views, kept, strict=True):
            view.copy_(values)


def _output_columns(patient: Patient, heads: list[Head]) -> list[Tensor]:
    return [slice_view(patient, piece) for head in heads for piece in patient.anatomy.slices(head, "o")]


def ablation_loss(patient: Patient, heads: list[Head], samples: Tensor, loss: float) -> float:
    """What the loss on ``samples`` (``loss`` as it stands) gains when ``heads`` fall silent together, in
    nats per token: what they are worth. Near 0: they do nothing there."""
    with ablated(patient, heads):
        return round(mean_loss(patient, samples) - loss, 6)


def silence_each(patient: Patient, heads: list[Head], samples: Tensor, loss: float) -> Iterator[int | list[float]]:
    """The same for each of ``heads`` when it alone falls silent. Yields the number of heads done, then the losses.

    A head whose output columns are zero already costs 0.0 and no run. For the others the layers
    below the head are not run again: what enters its layer is kept, so the figures are those of
    ``ablation_loss`` for about half the work. Give all heads at once, then.

    Args:
        samples: token ids  # (N, T)
    """
    speaking = [head for head in heads if any(view.any() for view in _output_columns(patient, [head]))]
    nats = dict.fromkeys(speaking, 0.0)
    parts = _parts(patient, samples)
    silent = len(heads) - len(speaking)
    keeping_pays = sum(head.layer for head in speaking) > patient.anatomy.n_layers  # it takes a run of its own
    layers = {head.layer for head in speaking} if keeping_pays else set()
    for number, part in enumerate(parts):
        entering = _entering(patient, part, layers)
        for done, head in enumerate(speaking):
            with torch.no_grad(), _from_layer(patient, head.layer, entering), ablated(patient, [head]):
                nats[head] += _nats(patient, part)
            yield silent + (number * len(speaking) + done + 1) // len(parts)
    tokens = samples.shape[0] * (samples.shape[1] - 1)
    yield [round(nats[head] / tokens - loss, 6) if head in nats else 0.0 for head in heads]


def ablation_losses(
    patient: Patient,
    heads: list[Head],
    samples: Tensor,
    loss: float,
    progress: Callable[[int], None] = lambda done: None,
) -> list[float]:
    """``silence_each`` to its end; ``progress`` is told the number of heads done."""
    losses: list[float] = []
    for found in silence_each(patient, heads, samples, loss):
        match found:
            case int():
                progress(found)
            case list():
                losses = found
    return losses


@dataclass
class _Entering:
    """What a run left of itself."""

    states: dict[int, Tensor]
    """The hidden states that enter some layers  # (B, T, d_model) each"""
    bare: bool
    """Layers hand on their states alone, not in a tuple; that goes by family and library version."""


@torch.no_grad()
def _entering(patient: Patient, part: Tensor, layers: set[int]) -> _Entering:
    """The hidden states that enter some layers."""
    kept = _Entering({}, bare=False)
    if not layers:
        return kept

    def keep(layer: int) -> Callable[..., None]:
        def hook(module: Any, args: tuple[Tensor, ...], kwargs: dict[str, Any], output: Any) -> None:
            kept.states[layer] = args[0] if args else kwargs["hidden_states"]
            kept.bare = isinstance(output, Tensor)

        return hook

    with ExitStack() as stack:
        for layer in layers:
            stack.callback(patient.block(layer).register_forward_hook(keep(layer), with_kwargs=True).remove)
        patient.model.base_model(input_ids=begun(patient, part.to(patient.device)), use_cache=False)
    return kept


@contextmanager
def _from_layer(patient: Patient, layer: int, entering: _Entering) -> Iterator[None]:
    """While open, the model starts at ``layer`` with the hidden states that were kept for it, if any were."""
    below = range(layer) if layer in entering.states else ()
    with ExitStack() as stack:
        for passed in below:
            states = entering.states[layer]
            out = states if entering.bare else (states, None)
            stack.enter_context(swapped_forward(patient.block(passed), lambda *_, out=out, **__: out))
        yield


def contributions(
    patient: Patient, samples: Tensor, loss: float, progress: Callable[[int], None] = lambda done: None
) -> Rows:
    """What every head of the model is worth by itself, nats per token, as rows per layer.

    Args:
        samples: token ids  # (N, T)
        progress: told the number of heads done
    """
    a = patient.anatomy
    heads = [Head(layer, head) for layer in range(a.n_layers) for head in range(a.n_heads)]
    flat = ablation_losses(patient, heads, samples, loss, progress)
    return [flat[layer * a.n_heads : (layer + 1) * a.n_heads] for layer in range(a.n_layers)]


# --- dormancy --------------------------------------------------------------------------------------


@torch.no_grad()
def dormant_neurons(patient: Patient) -> list[tuple[int, int]]:
    """Per layer how many neurons of the MLP sleep, and how many it has.

    A neuron sleeps where ‖its row of the up-projection‖·‖its column of the down-projection‖ < 0.01
    (arXiv 2603.09616; 8.75 % of BLOOM-1b7). Norms are taken in fp32, one matrix at a time. A gate beside the
    up-projection is not looked at; layers of experts are not counted, and nothing is found in them.
    """
    found = []
    a = patient.anatomy
    up_name, down_name = a.mlp
    outputs, inputs = (0, 1) if a.transposed else (1, 0)  # the dimensions over which a neuron's norms are taken
    for layer in range(a.n_layers if up_name else 0):
        up = patient.block(layer).get_parameter(f"{up_name}.weight")  # (d_ff, d_model)
        down = patient.block(layer).get_parameter(f"{down_name}.weight")  # (d_model, d_ff)
        rows = torch.linalg.vector_norm(up, dim=outputs, dtype=torch.float32)  # (d_ff,)
        columns = torch.linalg.vector_norm(down, dim=inputs, dtype=torch.float32)  # (d_ff,)
        found.append((int((rows * columns < DORMANT).sum()), len(rows)))
    return found


def dormancy(patient: Patient) -> list[float]:
    """Share of sleeping MLP neurons per layer (0 to 1); see ``dormant_neurons``.

    ``dormancy(load("demo"))``
    """
    return [round(asleep / neurons, 6) for asleep, neurons in dormant_neurons(patient)]


def overall_dormancy(layers: list[tuple[int, int]]) -> float:
    """Share of sleeping neurons of the whole model, each neuron counting once; 0 where none is counted."""
    return round(sum(asleep for asleep, _ in layers) / max(1, sum(neurons for _, neurons in layers)), 6)
