"""A projection of which some rows or columns train: it computes what the model does, and only its backward differs."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from engine.heads import Head
from engine.nn.load import swapped_forward


@dataclass
class Trained:
    """What trains of one projection: rows of its outputs (Q, K, V) or columns of its inputs (the output
    projection), as fp32 masters that lie as the weight does."""

    module: nn.Module
    rows: bool
    """Outputs of the projection train, and their biases; False: inputs."""
    dim: int
    """Of the weight, along which ``places`` count: 0 for rows but where the weight is kept transposed."""
    places: Tensor  # (n,)
    blocks: list[tuple[Head, str]]
    """Which head and part each d_head of the places are; K and V go by the first head of their group."""
    live: Tensor
    """1 for rows whose bias can matter, 0 for those of K where the softmax drops it. There its true gradient
    is 0; what arithmetic leaves of it is rounding noise, which Adam would blow up to steps as large as any other."""
    weight: Tensor  # (n, d_model) or (d_model, n) fp32
    bias: Tensor | None  # (n,) fp32

    @property
    def masters(self) -> dict[str, Tensor]:
        return {"weight": self.weight} | ({} if self.bias is None else {"bias": self.bias})

    @property
    def transposed(self) -> bool:
        """The weight is kept as (inputs, outputs)."""
        return (self.dim == 0) != self.rows

    def write_back(self) -> None:
        weight: Tensor = self.module.get_parameter("weight")
        weight.index_copy_(self.dim, self.places, self.weight.to(weight.dtype))
        if self.bias is not None:
            bias = self.module.get_parameter("bias")
            bias[self.places] = self.bias.to(bias.dtype)

    def read(self) -> None:
        """Take the masters from the model."""
        self.weight.copy_(self.module.get_parameter("weight").index_select(self.dim, self.places))
        if self.bias is not None:
            self.bias.copy_(self.module.get_parameter("bias")[self.places])


class _Projection(torch.autograd.Function):
    """A projection as the model computes it, of which some rows or columns train."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, plain: Any, trained: Trained, *masters: Tensor) -> Tensor:
        ctx.trained = trained
        ctx.save_for_backward(x, trained.module.get_parameter("weight"))
        return plain(x)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (x, weight), trained = ctx.saved_tensors, ctx.trained
        grad, bias = grads[0], None  # (B, T, outputs)
        if trained.rows:
            chosen = grad.flatten(0, -2).index_select(-1, trained.places).float()  # (B·T, n)
            found = chosen.T @ x.flatten(0, -2).float()  # (n, d_model)
            bias = None if trained.bias is None else chosen.sum(0) * trained.live  # (n,)
        else:
            chosen = x.flatten(0, -2).index_select(-1, trained.places).float()  # (B·T, n)
            found = grad.flatten(0, -2).float().T @ chosen  # (d_model, n)
        found = found.T if trained.transposed else found
        grad_x = None
        if ctx.needs_input_grad[0]:
            grad_x = grad @ (weight.T if trained.transposed else weight)  # (B, T, inputs)
        return grad_x, None, None, found, *(() if trained.bias is None else (bias,))


def projected(trained: Trained) -> AbstractContextManager[None]:
    """While open, a backward pass through the projection fills its masters' gradients."""
    plain = trained.module.forward
    return swapped_forward(trained.module, lambda x: _Projection.apply(x, plain, trained, *trained.masters.values()))
