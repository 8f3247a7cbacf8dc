"""The slices of the target heads as fp32 master weights, and nothing else that trains.

The model's own parameters stay frozen. During a pass the two attention projections of a target
layer compute their output exactly as the plain model would, from its own weights in its own dtype;
only their backward differs: beside the gradient of their input they form, in fp32, the gradient of
the target heads' rows or columns. After each optimizer step the masters are cast into the weights.
So what is trained, evaluated and exported is one and the same, to the bit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from engine.anatomy import Slice
from engine.heads import Head
from engine.nn.load import Patient, swapped_forward
from engine.nn.seeds import generator


class _Rows(torch.autograd.Function):
    """Linear layer of which some output rows train."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, rows: Tensor, live: Tensor, *masters: Tensor
    ) -> Tensor:
        ctx.save_for_backward(x, weight, rows, live)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, rows, live = ctx.saved_tensors
        grad = grads[0]  # (B, T, 3·d_model)
        chosen = grad.flatten(0, -2).index_select(-1, rows).float()  # (B·T, rows)
        grad_weight = chosen.T @ x.flatten(0, -2).float()  # (rows, d_model)
        grad_x = grad @ weight if ctx.needs_input_grad[0] else None
        return grad_x, None, None, None, None, grad_weight, chosen.sum(0) * live


class _Columns(torch.autograd.Function):
    """Linear layer of which some input columns train."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, columns: Tensor, *masters: Tensor) -> Tensor:
        ctx.save_for_backward(x, weight, columns)
        return F.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, columns = ctx.saved_tensors
        grad = grads[0]  # (B, T, d_model)
        chosen = x.flatten(0, -2).index_select(-1, columns).float()  # (B·T, columns)
        grad_weight = grad.flatten(0, -2).float().T @ chosen  # (d_model, columns)
        grad_x = grad @ weight if ctx.needs_input_grad[0] else None
        return grad_x, None, None, None, grad_weight


@dataclass
class LayerSlices:
    """The masters of one layer's target heads, side by side in the order of the heads."""

    qkv: nn.Linear
    dense: nn.Linear
    rows: Tensor
    """Rows of ``qkv`` that train."""
    columns: Tensor
    """Columns of ``dense`` that train."""
    live: Tensor
    """1 for rows whose bias can matter, 0 for those of K. A key's bias adds the same to all scores of
    a query, and the softmax drops it, so its true gradient is 0; what arithmetic leaves of it is
    rounding noise, which Adam would blow up to steps as large as any other."""
    weight: Tensor  # (rows, d_model) fp32
    bias: Tensor  # (rows,) fp32
    out: Tensor  # (d_model, columns) fp32

    @property
    def masters(self) -> tuple[Tensor, Tensor, Tensor]:
        return self.weight, self.bias, self.out


def slice_view(patient: Patient, piece: Slice) -> Tensor:
    """A slice as the model holds it; writing into it changes the model."""
    return patient.model.get_parameter(piece.tensor).detach().narrow(piece.dim, piece.start, piece.stop - piece.start)


def write_values(patient: Patient, values: dict[str, Tensor]) -> None:
    """Write slices by their key (as ``Slices.values`` gives them, or a patch) into the model."""
    for key, value in values.items():
        slice_view(patient, Slice.parse(key)).copy_(value)


class Slices:
    """The slices of a pass: ``heads`` with the chosen ``parts`` of Q, K, V and their output columns."""

    def __init__(self, patient: Patient, heads: list[Head], parts: str = "qkv") -> None:
        self.patient = patient
        self.heads = heads
        self.parts = parts
        self.pieces = {head: patient.anatomy.slices(head, parts) for head in heads}
        self.layers = {layer: self._layer(layer) for layer in sorted({head.layer for head in heads})}

    def _layer(self, layer: int) -> LayerSlices:
        pieces = [s for head in self.heads if head.layer == layer for s in self.pieces[head]]
        rows = [r for s in pieces if s.tensor.endswith("query_key_value.weight") for r in range(s.start, s.stop)]
        live = [float(s.part != "k") for s in pieces if s.tensor.endswith(".bias") for _ in range(s.start, s.stop)]
        columns = [c for s in pieces if s.dim == 1 for c in range(s.start, s.stop)]
        attention = self.patient.attention(layer)
        qkv, dense = attention.get_submodule("query_key_value"), attention.get_submodule("dense")
        assert isinstance(qkv, nn.Linear)
        assert isinstance(dense, nn.Linear)
        device = qkv.weight.device
        r, c = torch.tensor(rows, device=device), torch.tensor(columns, device=device)
        masters = (qkv.weight[r], qkv.bias[r], dense.weight[:, c])
        weight, bias, out = (m.detach().float().clone().requires_grad_() for m in masters)
        return LayerSlices(qkv, dense, r, c, torch.tensor(live, device=device), weight, bias, out)

    def masters(self) -> dict[str, Tensor]:
        """All master tensors by name."""
        named: dict[str, Tensor] = {}
        for layer, s in self.layers.items():
            named |= {f"{layer}.weight": s.weight, f"{layer}.bias": s.bias, f"{layer}.out": s.out}
        return named

    @torch.no_grad()
    def reinitialise(self, init: str, seed: int) -> None:
        """Fresh Xavier weights for the heads' Q, K, V, zero for their biases and output columns.

        Each head and part draws from a generator of its own, so adding a target changes no other.
        A head's Q is taken as a matrix of its own (d_head × d_model).
        """
        draw = {"xavier_normal": nn.init.xavier_normal_, "xavier_uniform": nn.init.xavier_uniform_}[init]
        a = self.patient.anatomy
        for layer, s in self.layers.items():
            blocks = []
            for head in (h for h in self.heads if h.layer == layer):
                for part in self.parts:
                    fresh = torch.empty(a.d_head, a.d_model)
                    blocks.append(draw(fresh, generator=generator(f"init/{head}/{part}", seed)))
            s.weight.copy_(torch.cat(blocks))
            s.bias.zero_()
            s.out.zero_()
        self.write_back()

    @torch.no_grad()
    def write_back(self) -> None:
        """Cast the masters into the model's weights."""
        for s in self.layers.values():
            s.qkv.weight[s.rows] = s.weight.to(s.qkv.weight.dtype)
            s.qkv.bias[s.rows] = s.bias.to(s.qkv.bias.dtype)
            s.dense.weight[:, s.columns] = s.out.to(s.dense.weight.dtype)

    def values(self) -> dict[str, Tensor]:
        """A copy of every slice as the model holds it, by the key that patches use, on the CPU."""
        return {s.key: slice_view(self.patient, s).cpu().clone() for pieces in self.pieces.values() for s in pieces}

    @torch.no_grad()
    def put(self, values: dict[str, Tensor]) -> None:
        """Write values (as from ``values``) into the model and the masters."""
        write_values(self.patient, values)
        for s in self.layers.values():
            s.weight.copy_(s.qkv.weight[s.rows])
            s.bias.copy_(s.qkv.bias[s.rows])
            s.out.copy_(s.dense.weight[:, s.columns])

    @contextmanager
    def training(self) -> Iterator[None]:
        """While open, a backward pass fills the masters' gradients."""
        with ExitStack() as stack:
            for s in self.layers.values():
                stack.enter_context(swapped_forward(s.qkv, _rows_forward(s)))
                stack.enter_context(swapped_forward(s.dense, _columns_forward(s)))
            yield

    def frozen_sha256(self) -> str:
        """Digest of every byte of the model outside the slices."""
        digest = hashlib.sha256()
        mine: dict[str, list[Slice]] = {}
        for pieces in self.pieces.values():
            for piece in pieces:
                mine.setdefault(piece.tensor, []).append(piece)
        tensors = [*self.patient.model.named_parameters(), *self.patient.model.named_buffers()]
        for name, tensor in sorted(tensors, key=lambda pair: pair[0]):
            data = tensor.detach().cpu()
            if name in mine:
                data = data.clone()
                for piece in mine[name]:
                    data.narrow(piece.dim, piece.start, piece.stop - piece.start).zero_()
            digest.update(f"{name} {data.dtype} {tuple(data.shape)}".encode())
            digest.update(data.reshape(-1).contiguous().view(torch.uint8).numpy().data)
        return digest.hexdigest()


def _rows_forward(s: LayerSlices) -> Any:
    return lambda x: _Rows.apply(x, s.qkv.weight, s.qkv.bias, s.rows, s.live, s.weight, s.bias)


def _columns_forward(s: LayerSlices) -> Any:
    return lambda x: _Columns.apply(x, s.dense.weight, s.dense.bias, s.columns, s.out)
