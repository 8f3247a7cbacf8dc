"""What an adapter says of its family: where each head lies and how it attends. No torch here."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from engine.heads import Head


class Config:
    """A ``config.json`` as an adapter reads it. It remembers what was read, so that a record can say it
    and the same anatomy can be made from the record."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.values = values
        self.read: dict[str, Any] = {}

    def get(self, name: str, default: Any = None) -> Any:
        """A value as it stands there; ``default`` where the key is missing. ``null`` counts as false."""
        if name not in self.values:
            return default
        self.read[name] = _without_null(self.values[name])
        return self.read[name]

    def number(self, *names: str, default: int | None = None) -> int:
        """A whole number under the first of ``names`` that has one.

        Raises:
            KeyError: there is none, and no default.
            TypeError, ValueError, OverflowError: it is no number.
        """
        for name in names:
            value = self.get(name)
            if value is not None and value is not False:
                return int(value)
        if default is None:
            raise KeyError(names[0])
        return default


def _without_null(value: Any) -> Any:
    """TOML, which the record is written in, knows no null; to an adapter both mean no."""
    match value:
        case None:
            return False
        case dict():
            return {str(key): _without_null(inner) for key, inner in value.items()}
        case list():
            return [_without_null(inner) for inner in value]
    return value


GIVEN_SINKS = "sink_logits"
"""The parameter with a sink logit per head that an attention module gets here where its family has none."""


@dataclass(frozen=True)
class Slice:
    """One contiguous piece of one parameter that belongs to one head, or to the heads of one K/V group."""

    part: str
    """``q``, ``k``, ``v`` (rows and their biases), ``o`` (output columns) or ``s`` (the sink logit)."""
    tensor: str
    """Name as in ``model.named_parameters()``."""
    dim: int
    start: int
    stop: int

    @property
    def key(self) -> str:
        """How patches name it."""
        return f"{self.tensor}|{self.dim}:{self.start}:{self.stop}"

    @classmethod
    def parse(cls, key: str) -> Slice:
        """Inverse of ``key``; the part is not kept there. Raises ValueError."""
        tensor, _, place = key.rpartition("|")
        dim, start, stop = (int(number) for number in place.split(":"))
        return cls("", tensor, dim, start, stop)


@dataclass(frozen=True)
class Part:
    """Where the heads of one of Q, K, V or the output lie in the weight of a projection."""

    module: str
    """Within the attention module. Q, K and V may name the same one."""
    starts: tuple[int, ...]
    """Where each head begins (for K and V: each K/V head): rows of Q, K, V, columns of the output."""
    size: int
    """Rows (of the output: columns) of the whole weight."""
    bias: bool
    """Whether the projection has one; that of the output is nobody's."""


def every(step: int, count: int, first: int = 0) -> tuple[int, ...]:
    """``count`` places, ``step`` apart."""
    return tuple(first + step * index for index in range(count))


@dataclass(frozen=True, kw_only=True)
class Anatomy:
    """A model's shape, the place of its heads and what their attention is computed from."""

    family: str
    n_layers: int
    n_heads: int
    n_kv_heads: int
    d_model: int
    d_head: int
    vocabulary: int
    total_parameters: int
    """Of the whole model, tied weights counted once."""

    blocks: str
    """The list of layers in the model, like ``transformer.h``."""
    attention: str
    """The attention module in a layer."""
    q: Part
    k: Part
    v: Part
    o: Part
    transposed: bool = False
    """The weights are kept as (inputs, outputs), as GPT-2's ``Conv1D`` does."""

    position_encoding: str
    """``alibi``, ``rope`` or ``learned``."""
    slopes: tuple[float, ...] = ()
    """ALiBi slope per head index, in nats per token of distance."""
    rotary: int = 0
    """Values of each head that RoPE turns; the others know no position."""
    bias_argument: str = ""
    """Under which name the attention module is handed its ALiBi bias."""
    bias_scaled: bool = False
    """The bias is added before the scores are scaled, not after."""
    bias_in_mask: bool = False
    """The library adds the bias to the mask too, so that its eager attention would count it twice."""
    takes_position_ids: bool = True

    scales: tuple[float, ...]
    """Per layer, what Q·K is multiplied with."""
    windows: tuple[int, ...] = ()
    """Per layer, how many keys a query sees, itself included; 0: all. Empty: no layer has a window."""
    softcap: float = 0.0
    """Scores are squeezed into ±this by a tanh; 0: they are not."""
    clip: float = 0.0
    """Q, K and V are clipped to ±this; 0: they are not."""
    qk_norm: bool = False
    """Q and K of each head are normalised (``q_norm``, ``k_norm``) before positions come in."""
    sinks: str = ""
    """The parameter in the attention module that holds a sink logit per head; empty: there is none."""

    mlp: tuple[str, str] = ("", "")
    """Up- and down-projection in a layer; empty where a layer holds experts instead."""
    d_ff: int
    """Neurons that a token goes through."""
    gated: bool = False
    """The MLP has a gate beside its up-projection."""

    told: dict[str, Any] = field(default_factory=dict, compare=False)
    """What of the config this was made from."""

    @property
    def group(self) -> int:
        """Query heads that share one K and V."""
        return self.n_heads // self.n_kv_heads

    def sharing(self, head: Head) -> list[Head]:
        """The heads that share K and V with ``head``, itself among them."""
        first = head.head // self.group * self.group
        return [Head(head.layer, index) for index in range(first, first + self.group)]

    @property
    def live_key_bias(self) -> int:
        """So many of the values of each K head's bias matter, from the first on. The others add the same to all
        scores of a query, and the softmax drops that: where nothing but a position's own bias comes between
        K and the softmax these are all values, under RoPE those that are not turned."""
        return self.d_head if self.qk_norm or self.softcap or self.sinks or self.clip else self.rotary

    def window(self, layer: int) -> int:
        """How many keys a query of this layer sees; 0: all."""
        return self.windows[layer] if self.windows else 0

    def attention_name(self, layer: int) -> str:
        """The attention module of a layer, as in ``model.named_modules()``."""
        return f"{self.blocks}.{layer}.{self.attention}"

    def slices(self, head: Head, parts: str = "qkvo") -> list[Slice]:
        """The head's pieces: rows and biases of Q, K and V, output columns (``o``), sink logit (``s``; of a family
        that has none, the one that it can be given), as far as ``parts`` names them. K and V are its group's."""
        attention, out = self.attention_name(head.layer), list[Slice]()
        rows, columns = (1, 0) if self.transposed else (0, 1)
        for part, index in (("q", head.head), ("k", head.head // self.group), ("v", head.head // self.group)):
            if part in parts:
                place: Part = getattr(self, part)
                start, stop = place.starts[index], place.starts[index] + self.d_head
                out.append(Slice(part, f"{attention}.{place.module}.weight", rows, start, stop))
                if place.bias:
                    out.append(Slice(part, f"{attention}.{place.module}.bias", 0, start, stop))
        start = self.o.starts[head.head]
        if "o" in parts:
            out.append(Slice("o", f"{attention}.{self.o.module}.weight", columns, start, start + self.d_head))
        if "s" in parts:
            out.append(Slice("s", f"{attention}.{self.sinks or GIVEN_SINKS}", 0, head.head, head.head + 1))
        return out

    def slices_of(self, heads: Iterable[Head], parts: str = "qkvo") -> list[Slice]:
        """The pieces of several heads, those that they share once."""
        return list({piece.key: piece for head in heads for piece in self.slices(head, parts)}.values())

    def slice_shape(self, piece: Slice) -> tuple[int, ...]:
        """Shape of a slice's values."""
        size = piece.stop - piece.start
        if not piece.tensor.endswith(".weight"):
            return (size,)
        return (size, self.d_model) if piece.dim == 0 else (self.d_model, size)

    def trained_parameters(self, heads: Iterable[Head], parts: str = "qkvo") -> int:
        """Parameters in the slices of ``heads``: what a pass really trains, or changes at once. An ``e`` among the
        parts is the embedding of one token."""
        slices = sum(math.prod(self.slice_shape(piece)) for piece in self.slices_of(heads, parts))
        return slices + (self.d_model if "e" in parts else 0)

    def touched_tensor_parameters(self, heads: Iterable[Head], parts: str = "qkvo") -> int:
        """Parameters of the whole tensors that hold a slice: what the paper's counts say. Those of Q, K and V
        count whichever of them are cut."""
        cut = any(part in parts for part in "qkv")
        places = {place.module: place for place in (self.q, self.k, self.v)} if cut else {}
        layer = sum(place.size * (self.d_model + place.bias) for place in places.values())
        layer += self.o.size * self.d_model if "o" in parts else 0
        layer += self.n_heads if "s" in parts else 0
        return len({head.layer for head in heads}) * layer + (self.vocabulary * self.d_model if "e" in parts else 0)


def alibi_slopes(n_heads: int) -> list[float]:
    """m_h = 2^(-8(h+1)/H) for H a power of two; otherwise those of the power below, then every
    second one of the power above (Press et al., 2022)."""
    power = 2 ** math.floor(math.log2(n_heads))
    slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    return slopes + [2 ** (-4 * (2 * h + 1) / power) for h in range(n_heads - power)]


def require_division(n_heads: int, n_kv_heads: int, n_layers: int, d_head: int) -> None:
    """Raises ValueError: no model has such a shape."""
    if min(n_heads, n_kv_heads, n_layers, d_head) < 1 or n_heads % n_kv_heads:
        raise ValueError(f"{n_layers} layers of {n_heads} heads of {d_head} with {n_kv_heads} for K and V are none")


def head_size(d_model: int, n_heads: int, n_layers: int) -> int:
    """Width of a head. Raises ValueError: the heads do not share the width evenly."""
    if min(d_model, n_heads, n_layers) < 1 or d_model % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {d_model}")
    return d_model // n_heads


FIXED_ROPE = ("default", "linear", "llama3", "yarn")
"""Kinds of RoPE whose turning does not depend on how long the text is, so that padding and batches move nothing."""


def require_fixed_rope(config: Config) -> None:
    """Raises ValueError: the kind of RoPE turns a token otherwise in a longer text."""
    for told in _rope_tables(config.get("rope_parameters") or config.get("rope_scaling") or {}):
        kind = told.get("rope_type") or told.get("type") or "default"
        if kind not in FIXED_ROPE:
            raise ValueError(f"its RoPE is of the kind {kind!r}, and there are {', '.join(FIXED_ROPE)}")


def _rope_tables(told: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The one table, or those per kind of layer."""
    nested = [inner for inner in told.values() if isinstance(inner, dict)]
    yield from nested or [told]


def layer_windows(config: Config, n_layers: int, window: int, sliding: Iterable[int]) -> tuple[int, ...]:
    """The window of each layer: by ``layer_types`` where the config has them, else on the layers ``sliding``.

    Raises:
        ValueError: ``layer_types`` are of another number, or name another kind.
    """
    types = config.get("layer_types")
    if not types:
        chosen = set(sliding)
        return tuple(window if layer in chosen else 0 for layer in range(n_layers)) if window and chosen else ()
    unknown = [kind for kind in types if kind not in ("full_attention", "sliding_attention")]
    if unknown or len(types) != n_layers:
        raise ValueError(
            f"{len(types)} layer_types for {n_layers} layers" if not unknown else f"layers of {unknown[0]}"
        )
    found = tuple(window if kind == "sliding_attention" else 0 for kind in types)
    return found if any(found) else ()
