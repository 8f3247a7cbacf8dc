"""The embedding of one token as an fp32 master weight: a placeholder that stands before every text and can be trained.

A sink may rest on such a token alone (Xiao et al., 2023, section 3.3). It is one of the tokenizer's own that no
text has in it, so that what is trained is a row of the embedding, and a checkpoint with it is a plain one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from engine.errors import InputError
from engine.families.base import Slice
from engine.nn.load import Patient, swapped_forward
from engine.nn.projection import Trained, projected
from engine.nn.tokens import start_ids


class _Looked(torch.autograd.Function):
    """An embedding as the model looks it up, of which one row trains."""

    @staticmethod
    def forward(ctx: Any, ids: Tensor, plain: Any, embedding: Embedding, master: Tensor) -> Tensor:
        ctx.scale = float(getattr(embedding.module, "embed_scale", 1.0))  # Gemma multiplies what it looks up
        ctx.save_for_backward(ids == embedding.token)
        return plain(ids)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (there,) = ctx.saved_tensors  # (B, T)
        found = grads[0][there].float().sum(0, keepdim=True) * ctx.scale  # (1, d_model)
        return None, None, None, found


@dataclass
class Embedding:
    """One token's row of the embedding."""

    module: nn.Module
    tied: nn.Module | None
    """The projection to the vocabulary where it has the same weights: the token's own logit follows from the row."""
    token: int
    piece: Slice
    weight: Tensor  # (1, d_model) fp32

    def write_back(self) -> None:
        weight = self.module.get_parameter("weight")
        weight[self.token] = self.weight[0].to(weight.dtype)

    def read(self) -> None:
        """Take the master from the model."""
        self.weight.copy_(self.module.get_parameter("weight")[self.token : self.token + 1])

    @contextmanager
    def training(self) -> Iterator[None]:
        """While open, a backward pass fills the master's gradient, from both ends where the weights are tied."""
        plain = self.module.forward
        with ExitStack() as stack:
            stack.enter_context(
                swapped_forward(self.module, lambda ids: _Looked.apply(ids, plain, self, self.weight)),
            )
            if self.tied is not None:
                place = torch.tensor([self.token], device=self.weight.device)
                live = torch.ones(1, device=self.weight.device)
                stack.enter_context(projected(Trained(self.tied, True, 0, place, [], live, self.weight, None)))
            yield


def embedding_of(patient: Patient) -> Embedding:
    """The row of the token that ``placeholder_token`` names.

    Raises:
        InputError: there is no such token.
    """
    token, model = placeholder_token(patient), patient.model
    inputs, outputs = model.get_input_embeddings(), model.get_output_embeddings()
    weight = inputs.get_parameter("weight")
    name = next(name for name, parameter in model.named_parameters() if parameter is weight)
    tied = outputs if outputs is not None and outputs.get_parameter("weight") is weight else None
    row = weight[token : token + 1].detach().float().requires_grad_()  # (1, d_model)
    return Embedding(inputs, tied, token, Slice("e", name, 0, token, token + 1), row)


def placeholder_token(patient: Patient) -> int:
    """The token to stand before every text: the one that the tokenizer puts there anyway, else one that no text has
    in it: of the tokenizer's own, or a row of the embedding that belongs to no token, or what ends a text.

    Raises:
        InputError: there is none.
    """
    t = patient.tokenizer
    own = [token for token in (t.bos_token_id, t.pad_token_id, t.cls_token_id, t.mask_token_id) if token is not None]
    spare = [len(t)] if len(t) < patient.anatomy.vocabulary else []
    ends = [] if t.eos_token_id is None else [t.eos_token_id]
    free = [*start_ids(t), *(token for token in own if token not in ends), *spare, *ends]
    if not free:
        raise InputError(
            f"the tokenizer of {patient.source} has no token that is in no text, so there is none to stand before "
            "every text; choose another treatment"
        )
    return int(free[0])


def stand_before(patient: Patient) -> None:
    """Let the placeholder stand before every text from now on, where the tokenizer does not put it there itself."""
    if not start_ids(patient.tokenizer):
        patient.placeholder = placeholder_token(patient)
