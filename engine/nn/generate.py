"""A patient continues prompts: temperature and top-p as the paper sets them, reproducible per prompt."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from engine.errors import InputError
from engine.generation import Continuation, Prompt, Sampling, judge
from engine.nn.load import Patient, positions
from engine.nn.seeds import generator

AT_ONCE = 25
"""Prompts in a batch; the keys and values of 25 short texts of a 7b model take about 2 GB."""


def generate(
    patient: Patient, prompts: list[Prompt], sampling: Sampling | None = None
) -> Iterator[int | list[Continuation]]:
    """Let a patient continue prompts. Yields the number of prompts done, then all continuations in order.

    The random numbers of a prompt depend on its name, the seed and the step alone, so stock and
    after draw alike, and neither the batch nor the order of prompts changes a text (in fp32, where
    rounding is too small to matter; in bf16 a batch of another shape may round a rare draw over an edge).

    ``*_, texts = generate(load("demo"), read_prompts())``

    Raises:
        InputError: a prompt leaves no tokens, or the model's figures are not finite.
    """
    sampling = sampling or Sampling()
    found: list[Continuation] = []
    for start in range(0, len(prompts), AT_ONCE):
        part = prompts[start : start + AT_ONCE]
        for prompt, ids in zip(part, continue_batch(patient, part, sampling), strict=True):
            text = patient.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
            found.append(judge(prompt, text, len(ids)))
        yield len(found)
    yield found


@torch.no_grad()
def continue_batch(patient: Patient, prompts: list[Prompt], sampling: Sampling) -> list[list[int]]:
    """New token ids per prompt, up to and without the token that ends a text.

    Prompts are padded on the left, where mask and positions take the padding out. Where prompt and new
    tokens exceed the context, at most half of it is for new tokens and the prompt keeps its beginning.
    """
    steps = min(sampling.new_tokens, max(1, patient.context // 2))
    texts = [patient.ids(prompt.text)[: patient.context - steps] for prompt in prompts]
    draws = torch.stack([_draws(prompt, steps, sampling.seed) for prompt in prompts]).to(patient.device)  # (B, steps)
    longest = max(map(len, texts))
    ids = torch.zeros(len(texts), longest, dtype=torch.long, device=patient.device)  # (B, T)
    mask = torch.zeros_like(ids)  # (B, T)
    for row, text in enumerate(texts):
        ids[row, longest - len(text) :] = text
        mask[row, longest - len(text) :] = 1
    ends = torch.tensor(_end_tokens(patient), device=patient.device)
    options: dict[str, Any] = {_cache_name(patient.model): DynamicCache(), "use_cache": True, "logits_to_keep": 1}
    written: list[Tensor] = []
    ended = torch.zeros(len(texts), dtype=torch.bool, device=patient.device)
    for step in range(steps):
        if patient.anatomy.takes_position_ids:
            options["position_ids"] = positions(mask)[:, -ids.shape[1] :]  # (B, T) or (B, 1)
        logits = patient.model(input_ids=ids, attention_mask=mask, **options).logits[:, -1]  # (B, vocabulary)
        token = sample(logits, draws[:, step], sampling)  # (B,)
        written.append(token)
        ended |= torch.isin(token, ends)
        if ended.all():
            break
        ids, mask = token[:, None], torch.cat([mask, mask.new_ones(len(texts), 1)], 1)  # (B, 1), (B, T+1)
    return [_until(row, set(ends.tolist())) for row in torch.stack(written, 1).tolist()]


def sample(logits: Tensor, draws: Tensor, sampling: Sampling) -> Tensor:
    """One token per row by top-p sampling: the inverse of the cumulative distribution at ``draws``.

    Args:
        logits: any dtype  # (B, vocabulary)
        draws: uniform in [0, 1)  # (B,)

    Raises:
        InputError: the logits are not finite.
    """
    p = (logits.float() / sampling.temperature).softmax(-1)  # (B, vocabulary)
    if not torch.isfinite(p).all():
        raise InputError("the model's next-token figures are not finite: it cannot write; try --dtype float32")
    p, order = p.sort(descending=True, stable=True)  # (B, vocabulary)
    reached = p.double().cumsum(-1)  # (B, vocabulary)
    kept = (reached - p < sampling.top_p).sum(-1, keepdim=True)  # (B, 1), at least 1
    mass = reached.gather(1, kept - 1)  # (B, 1)
    place = torch.searchsorted(reached, draws[:, None] * mass, right=True)  # (B, 1)
    return order.gather(1, torch.minimum(place, kept - 1))[:, 0]  # (B,)


def _draws(prompt: Prompt, steps: int, seed: int) -> Tensor:
    """The random numbers of a prompt; those of fewer steps are the first of these  # (steps,)"""
    return torch.rand(steps, dtype=torch.float64, generator=generator(f"generate/{prompt.name}", seed))


def _end_tokens(patient: Patient) -> list[int]:
    """Ids that end a text, as the checkpoint and its tokenizer say."""
    ends = {patient.tokenizer.eos_token_id}
    configured = patient.model.generation_config.eos_token_id if patient.model.generation_config else None
    ends |= {*(configured if isinstance(configured, list) else [configured])}
    return sorted(end for end in ends if end is not None)


def _until(ids: list[int], ends: set[int]) -> list[int]:
    """The ids before the first that ends the text."""
    return next((ids[:i] for i, token in enumerate(ids) if token in ends), ids)


def _cache_name(model: torch.nn.Module) -> str:
    """The cache's parameter changed its name between versions of the library."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
