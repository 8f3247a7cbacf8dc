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

import torch
from torch import Tensor, nn

from engine.anatomy import Slice
from engine.families.base import GIVEN_SINKS
from engine.heads import Head
from engine.nn.embedding import Embedding, embedding_of
from engine.nn.load import Patient
from engine.nn.projection import Trained, projected
from engine.nn.seeds import generator
from engine.nn.sinks import NEVER, give_sinks
from engine.plan import Plan


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
    out: Trained | None
    sinks: SinkLogits | None

    @property
    def projections(self) -> dict[str, Trained]:
        return {**self.rows, "out": self.out} if self.out else self.rows


def slice_view(patient: Patient, piece: Slice) -> Tensor:
    """A slice as the model holds it; writing into it changes the model. A sink logit that a head has not been given
    yet is given to it (-inf: nothing changes)."""
    module, _, name = piece.tensor.rpartition(".")
    if name == GIVEN_SINKS:
        give_sinks(patient.model.get_submodule(module), patient.anatomy.n_heads)
    return patient.model.get_parameter(piece.tensor).detach().narrow(piece.dim, piece.start, piece.stop - piece.start)


def write_values(patient: Patient, values: dict[str, Tensor]) -> None:
    """Write slices by their key (as ``Slices.values`` gives them, or a patch) into the model."""
    for key, value in values.items():
        slice_view(patient, Slice.parse(key)).copy_(value)


class Slices:
    """The slices of a pass: the ``parts`` of ``heads`` (``q``, ``k``, ``v``, output columns ``o``, sink logits ``s``),
    or the embedding of one token (``e``)."""

    def __init__(self, patient: Patient, heads: list[Head], parts: str = "qkvo") -> None:
        self.patient = patient
        self.heads = heads
        self.parts = parts
        self.embedding = embedding_of(patient) if "e" in parts else None
        self.pieces = patient.anatomy.slices_of(heads, parts)
        layers = sorted({head.layer for head in heads}) if self.pieces else []
        self.layers = {layer: self._layer(layer) for layer in layers}
        if self.embedding:
            self.pieces.append(self.embedding.piece)

    def _layer(self, layer: int) -> LayerSlices:
        a, attention = self.patient.anatomy, self.patient.attention(layer)
        prefix = f"{a.attention_name(layer)}."
        modules: dict[str, list[Slice]] = {}
        for piece in self.pieces:
            if piece.tensor.startswith(prefix):
                modules.setdefault(piece.tensor.removeprefix(prefix).rpartition(".")[0], []).append(piece)
        logits, columns = modules.pop("", []), modules.pop(a.o.module, [])
        if logits and not a.sinks:
            give_sinks(attention, a.n_heads)
        out = self._trained(attention.get_submodule(a.o.module), columns) if columns else None
        rows = {name: self._trained(attention.get_submodule(name), pieces) for name, pieces in modules.items()}
        sinks = _sink_logits(attention.get_parameter(a.sinks or GIVEN_SINKS), logits) if logits else None
        return LayerSlices(rows, out, sinks)

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
            if s.out:
                named[f"{layer}.out"] = s.out.weight
            if s.sinks:
                named[f"{layer}.sinks"] = s.sinks.weight
        if self.embedding:
            named["embedding"] = self.embedding.weight
        return named

    @torch.no_grad()
    def cut(self, plan: Plan, levels: Tensor | None = None) -> None:
        """What is done to the targets before any training.

        Args:
            levels: of every head, where a sink logit begins that it has not yet  # (n_layers, n_heads)
        """
        match plan.treatment:
            case "reinitialise" if plan.reinit:
                self.reinitialise(plan.init, plan.seed)
            case "sink_logit":
                for layer, s in self.layers.items():
                    assert s.sinks is not None
                    assert levels is not None
                    its = levels[layer].to(s.sinks.weight)[s.sinks.places]  # (n,)
                    s.sinks.weight.copy_(torch.where(s.sinks.weight == NEVER, its, s.sinks.weight))
            case "prune":
                for s in self.layers.values():
                    assert s.out is not None
                    s.out.weight.zero_()
        self.write_back()

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
            if s.out:
                s.out.weight.zero_()
            if s.sinks:
                s.sinks.weight.zero_()
        self.write_back()

    @torch.no_grad()
    def write_back(self) -> None:
        """Cast the masters into the model's weights."""
        for s in self._all():
            s.write_back()

    def _all(self) -> Iterator[Trained | SinkLogits | Embedding]:
        for s in self.layers.values():
            yield from s.projections.values()
            if s.sinks:
                yield s.sinks
        if self.embedding:
            yield self.embedding

    def values(self) -> dict[str, Tensor]:
        """A copy of every slice as the model holds it, by the key that patches use, on the CPU."""
        return {piece.key: slice_view(self.patient, piece).cpu().clone() for piece in self.pieces}

    def logits(self) -> list[float]:
        """The sink logits among the slices, by target; none where they are not among them."""
        found: dict[Head, float] = {}
        for layer, s in self.layers.items():
            if s.sinks:
                places, values = s.sinks.places.tolist(), s.sinks.weight.tolist()
                found |= {Head(layer, place): round(value, 6) for place, value in zip(places, values, strict=True)}
        return [found[head] for head in self.heads] if found else []

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
                    stack.enter_context(projected(trained))
                if s.sinks:
                    stack.enter_context(_with_gradient(s.sinks))
            if self.embedding:
                stack.enter_context(self.embedding.training())
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
