"""A sink logit for heads of a family that has none: it takes part in the softmax and carries no value.

A head with logit s gives each key e^score / (Σ e^scores + e^s): its weights without the logit, times
σ(log Σ e^scores - s), since the logit's own share brings nothing. So a head whose logit is -inf is
to the bit what it was. The logit stands beside the attention module's own parameters; no file of the
family's holds it, so it lives in patches alone.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from engine.families.base import GIVEN_SINKS

NEVER = float("-inf")
"""The logit of a head that has none."""
_SOFTMAX = (F.softmax, torch.softmax, Tensor.softmax)


def with_sinks(scores: Tensor, weights: Tensor, sinks: Tensor) -> Tensor:
    """Attention weights as they are with a sink logit per head.

    Args:
        scores: what the softmax was taken of  # (B, n_heads, T, keys)
        weights: what it gave  # (B, n_heads, T, keys)
        sinks:  # (n_heads,)
    """
    total = scores.float().logsumexp(-1, keepdim=True)  # (B, n_heads, T, 1)
    left = torch.sigmoid(total - sinks[:, None, None])  # (B, n_heads, T, 1)
    return (weights * left).to(weights.dtype)


class _Joining(TorchFunctionMode):
    """While open, the one softmax over keys is taken with the sink logits in it."""

    def __init__(self, sinks: Tensor) -> None:
        super().__init__()
        self.sinks = sinks
        self.joined = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        if func not in _SOFTMAX or not args:
            return out
        self.joined += 1
        return with_sinks(args[0], out, self.sinks)


def give_sinks(attention: nn.Module, n_heads: int) -> nn.Parameter:
    """The sink logits of an attention module, which gets them now if it has none: -inf, so that nothing changes.

    Returns:
        in fp32, whatever the model's dtype  # (n_heads,)
    """
    found = sinks_of(attention)
    if found is not None:
        return found
    device = next(attention.parameters()).device
    sinks = nn.Parameter(torch.full((n_heads,), NEVER, device=device), requires_grad=False)
    attention.register_parameter(GIVEN_SINKS, sinks)
    plain = attention.forward

    def forward(*args: Any, **kwargs: Any) -> Any:
        with _Joining(sinks) as joining:
            out = plain(*args, **kwargs)
        if joining.joined != 1:
            raise ArithmeticError(
                f"{type(attention).__name__} takes {joining.joined} softmaxes, and a sink logit joins one over keys"
            )
        return out

    attention.forward = forward
    return sinks


def sinks_of(attention: nn.Module) -> nn.Parameter | None:
    """The sink logits that an attention module was given, if any  # (n_heads,)"""
    return dict(attention.named_parameters(recurse=False)).get(GIVEN_SINKS)


def given(sinks: Tensor | None) -> bool:
    """Whether any head of a module has a logit that can take weight."""
    return sinks is not None and bool((sinks > NEVER).any())
