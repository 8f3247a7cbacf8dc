"""What each layer's attention is computed from, caught while the model runs, in the model's own position scheme.

Q and K are taken from the projections' outputs; positions come in here, in fp32, from what the model hands its
attention modules: the turning angles of RoPE, or the ALiBi bias. Learned positions are in Q and K already.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from engine.families.base import Part
from engine.nn.load import Patient
from engine.nn.sinks import sinks_of


@dataclass(frozen=True)
class Scored:
    """What the attention weights of one layer on one text follow from, in fp32."""

    q: Tensor  # (n_heads, T, d_head)
    k: Tensor  # (n_heads, T, d_head)
    scale: float
    bias: Tensor | None = None  # (n_heads, 1, T)
    window: int = 0
    """Keys that a query sees, itself included; 0: all."""
    softcap: float = 0.0
    sinks: Tensor | None = None  # (n_heads,)


@dataclass(frozen=True)
class Seen:
    """One layer on a batch, as the model ran it."""

    q: Tensor  # (B, T, n_heads, d_head), without positions
    k: Tensor  # (B, T, n_kv_heads, d_head)
    turned: tuple[Tensor, Tensor] | None  # cosines and sines, (1 or B, T, rotary or rotary / 2) each
    bias: Tensor | None  # (1 or B, n_heads, 1, T)
    scale: float
    window: int
    softcap: float
    sinks: Tensor | None  # (n_heads,)
    weights: Tensor
    """The model's own  # (B, n_heads, T, T)"""

    def of(self, text: int, place: Tensor, heads: slice = slice(None)) -> Scored:
        """One text of the batch, over the tokens at ``place`` alone  # (T of this text,)"""
        q = self.q[text, place].float().transpose(0, 1)  # (n_heads, T, d_head)
        k = self.k[text, place].float().transpose(0, 1)  # (n_kv_heads, T, d_head)
        if self.turned is not None:
            cos, sin = (table[min(text, len(table) - 1), place].float() for table in self.turned)
            q, k = turn(q, cos, sin), turn(k, cos, sin)
        k = k.repeat_interleave(len(q) // len(k), 0)  # (n_heads, T, d_head)
        bias = None if self.bias is None else self.bias[min(text, len(self.bias) - 1)][..., place].float()[heads]
        sinks = None if self.sinks is None else self.sinks.float()[heads]
        return Scored(q[heads], k[heads], self.scale, bias, self.window, self.softcap, sinks)


def turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """RoPE (Su et al., 2021): value i and value i + half of the first 2·half are turned together.

    Args:
        x: queries or keys  # (heads, T, d_head)
        cos, sin: per token and pair  # (T, half)
    """
    half = cos.shape[-1]
    first, second, rest = x[..., :half], x[..., half : 2 * half], x[..., 2 * half :]
    return torch.cat((first * cos - second * sin, second * cos + first * sin, rest), -1)


Take = Callable[[int, Seen], None]


@contextmanager
def watching(patient: Patient, take: Take) -> Iterator[None]:
    """While open, each layer that the model runs is handed to ``take(layer, seen)``, and the model's own
    weights are dropped then: the model would keep them into the next layer."""
    hooks: list[Any] = []
    a = patient.anatomy
    for layer in range(a.n_layers):
        attention = patient.attention(layer)
        outputs: dict[str, Tensor] = {}
        for name in {a.q.module, a.k.module}:
            hooks.append(attention.get_submodule(name).register_forward_hook(partial(_keep, outputs, name)))
        hooks.append(
            attention.register_forward_hook(partial(_hand_on, patient, layer, outputs, take), with_kwargs=True)
        )
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def _keep(outputs: dict[str, Tensor], name: str, module: nn.Module, args: Any, output: Tensor) -> None:
    outputs[name] = output


def _hand_on(
    patient: Patient,
    layer: int,
    outputs: dict[str, Tensor],
    take: Take,
    module: nn.Module,
    args: Any,
    kwargs: dict[str, Any],
    output: tuple[Tensor, ...],
) -> Any:
    a = patient.anatomy
    q, k = (_heads_of(part, outputs[part.module], a.d_head) for part in (a.q, a.k))  # (B, T, heads, d_head) each
    outputs.clear()
    if a.clip:
        q, k = q.clamp(-a.clip, a.clip), k.clamp(-a.clip, a.clip)
    if a.qk_norm:
        q, k = module.get_submodule("q_norm")(q), module.get_submodule("k_norm")(k)
    turned = bias = None
    if a.rotary:
        cos, sin = kwargs["position_embeddings"]  # each pair's angle once, or the whole row of them twice
        turned = cos[..., : a.rotary // 2], sin[..., : a.rotary // 2]
    if a.bias_argument:
        given = kwargs[a.bias_argument].flatten(0, -3)  # (B * n_heads or n_heads, 1, T or the longest)
        bias = given.unflatten(0, (-1, a.n_heads))[..., -q.shape[1] :]  # (1 or B, n_heads, 1, T)
        bias = bias.float() * a.scales[layer] if a.bias_scaled else bias
    sinks = module.get_parameter(a.sinks) if a.sinks else sinks_of(module)
    take(layer, Seen(q, k, turned, bias, a.scales[layer], a.window(layer), a.softcap, sinks, output[1]))
    return output[0], None


def _heads_of(part: Part, output: Tensor, d_head: int) -> Tensor:
    """The heads of one part, out of a projection's output  # (B, T, rows) -> (B, T, heads, d_head)"""
    starts = torch.tensor(part.starts, device=output.device)
    rows = starts[:, None] + torch.arange(d_head, device=output.device)  # (heads, d_head)
    return output[..., rows]
