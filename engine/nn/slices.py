"""The slices of the target heads as fp32 master weights, and nothing else that trains.

The model's own parameters stay frozen. During a pass the attention projections of a target layer
compute their output exactly as the plain model would, from its own weights in its own dtype;
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
from torch import Tensor, nn

from engine.anatomy import Slice
from engine.heads import Head
from engine.nn.load import Patient, swapped_forward
from engine.nn.seeds import generator


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


@dataclass
class SinkLogits:
    """The sink logits of one layer that train. They enter the softmax as they stand in the model, so their
    gradient is taken off the parameter itself."""

    parameter: nn.Parameter  # (n_heads,)
    places: Tensor  # (n,)
    weight: Tensor  # (n,) fp32

    def write_back(self) -> None:
        self.parameter[self.places] = self.weight.to(self.parameter.dtype)

    def read(self) -> None:
        """Take the masters from the model."""
        self.weight.copy_(self.parameter[self.places])

    def take_gradient(self, parameter: Tensor) -> None:
        """Add the gradient that a backward pass left on the parameter to that of the masters."""
        assert parameter.grad is not None
        found = parameter.grad[self.places].float()  # (n,)
        self.weight.grad = found if self.weight.grad is None else self.weight.grad + found
        parameter.grad = None


@dataclass
class LayerSlices:
    """The masters of one layer's target heads, side by side in the order of the heads."""

    rows: dict[str, Trained]
    """By the name of the projection: one where the family fuses Q, K and V."""
    out: Trained
    sinks: SinkLogits | None

    @property
    def projections(self) -> dict[str, Trained]:
        return {**self.rows, "out": self.out}


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
        self.pieces = patient.anatomy.slices_of(heads, parts)
        self.layers = {layer: self._layer(layer) for layer in sorted({head.layer for head in heads})}

    def _layer(self, layer: int) -> LayerSlices:
        a, attention = self.patient.anatomy, self.patient.attention(layer)
        prefix = f"{a.attention_name(layer)}."
        modules: dict[str, list[Slice]] = {}
        for piece in self.pieces:
            if piece.tensor.startswith(prefix):
                modules.setdefault(piece.tensor.removeprefix(prefix).rpartition(".")[0], []).append(piece)
        logits = modules.pop("", [])
        out = self._trained(attention.get_submodule(a.o.module), modules.pop(a.o.module))
        rows = {name: self._trained(attention.get_submodule(name), pieces) for name, pieces in modules.items()}
        return LayerSlices(rows, out, _sink_logits(attention.get_parameter(a.sinks), logits) if logits else None)

    def _trained(self, module: nn.Module, pieces: list[Slice]) -> Trained:
        a = self.patient.anatomy
        pieces = [piece for piece in pieces if piece.tensor.endswith(".weight")]
        weight = module.get_parameter("weight")
        places = torch.tensor([i for s in pieces for i in range(s.start, s.stop)], device=weight.device)
        rows = pieces[0].part != "o"
        bias = getattr(module, "bias", None) if rows else None
        live = [float(s.part != "k" or i < a.live_key_bias) for s in pieces for i in range(s.stop - s.start)]
        return Trained(
            module,
            rows,
            pieces[0].dim,
            places,
            [(self._owner(piece), piece.part) for piece in pieces],
            torch.tensor(live, device=weight.device),
            weight.index_select(pieces[0].dim, places).detach().float().requires_grad_(),
            None if bias is None else bias[places].detach().float().requires_grad_(),
        )

    def _owner(self, piece: Slice) -> Head:
        """The first of the targets that a piece belongs to, or of those that share it with one."""
        a = self.patient.anatomy
        owner = next(head for head in self.heads if piece in a.slices(head, self.parts))
        return owner if piece.part == "q" else a.sharing(owner)[0]

    def masters(self) -> dict[str, Tensor]:
        """All master tensors by name; the projection is named where there are several for Q, K and V."""
        named: dict[str, Tensor] = {}
        for layer, s in self.layers.items():
            for name, trained in s.rows.items():
                prefix = f"{layer}.{name}" if len(s.rows) > 1 else f"{layer}"
                named |= {f"{prefix}.{kind}": master for kind, master in trained.masters.items()}
            named[f"{layer}.out"] = s.out.weight
            if s.sinks:
                named[f"{layer}.sinks"] = s.sinks.weight
        return named

    @torch.no_grad()
    def reinitialise(self, init: str, seed: int) -> None:
        """Fresh Xavier weights for the heads' Q, K, V, zero for their biases, output columns and, where they are
        among the slices, sink logits.

        Each head and part draws from a generator of its own, so adding a target changes no other.
        A head's Q is taken as a matrix of its own (d_head × d_model); where heads share K and V, these
        draw as those of the group's first head.
        """
        draw = {"xavier_normal": nn.init.xavier_normal_, "xavier_uniform": nn.init.xavier_uniform_}[init]
        a = self.patient.anatomy
        for s in self.layers.values():
            for trained in s.rows.values():
                blocks = []
                for head, part in trained.blocks:
                    fresh = torch.empty(a.d_head, a.d_model)
                    blocks.append(draw(fresh, generator=generator(f"init/{head}/{part}", seed)))
                rows = torch.cat(blocks)  # (n, d_model)
                trained.weight.copy_(rows.T if trained.transposed else rows)
                if trained.bias is not None:
                    trained.bias.zero_()
            s.out.weight.zero_()
            if s.sinks:
                s.sinks.weight.zero_()
        self.write_back()

    @torch.no_grad()
    def write_back(self) -> None:
        """Cast the masters into the model's weights."""
        for s in self._all():
            s.write_back()

    def _all(self) -> Iterator[Trained | SinkLogits]:
        for s in self.layers.values():
            yield from s.projections.values()
            if s.sinks:
                yield s.sinks

    def values(self) -> dict[str, Tensor]:
        """A copy of every slice as the model holds it, by the key that patches use, on the CPU."""
        return {piece.key: slice_view(self.patient, piece).cpu().clone() for piece in self.pieces}

    @torch.no_grad()
    def put(self, values: dict[str, Tensor]) -> None:
        """Write values (as from ``values``) into the model and the masters."""
        write_values(self.patient, values)
        for s in self._all():
            s.read()

    @contextmanager
    def training(self) -> Iterator[None]:
        """While open, a backward pass fills the masters' gradients."""
        with ExitStack() as stack:
            for s in self.layers.values():
                for trained in s.projections.values():
                    stack.enter_context(swapped_forward(trained.module, _forward(trained)))
                if s.sinks:
                    stack.enter_context(_with_gradient(s.sinks))
            yield

    def frozen_sha256(self) -> str:
        """Digest of every byte of the model outside the slices."""
        digest = hashlib.sha256()
        mine: dict[str, list[Slice]] = {}
        for piece in self.pieces:
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


def _forward(trained: Trained) -> Any:
    plain = trained.module.forward
    return lambda x: _Projection.apply(x, plain, trained, *trained.masters.values())


def _sink_logits(parameter: nn.Parameter, pieces: list[Slice]) -> SinkLogits:
    places = torch.tensor([piece.start for piece in pieces], device=parameter.device)
    return SinkLogits(parameter, places, parameter[places].detach().float().requires_grad_())


@contextmanager
def _with_gradient(sinks: SinkLogits) -> Iterator[None]:
    sinks.parameter.requires_grad_(True)
    hook = sinks.parameter.register_post_accumulate_grad_hook(sinks.take_gradient)
    try:
        yield
    finally:
        hook.remove()
        sinks.parameter.requires_grad_(False)
