"""Where a model family keeps each head, from its ``config.json`` alone. No torch here: names, rows
and columns are plain numbers, so that preflight and patches need no weights.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import InputError
from engine.heads import Head


@dataclass(frozen=True)
class Slice:
    """One contiguous piece of one parameter that belongs to one head."""

    part: str
    """``q``, ``k``, ``v`` (rows and their biases) or ``o`` (output columns)."""
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
class Anatomy:
    """A model's shape and the place of its heads."""

    family: str
    n_layers: int
    n_heads: int
    n_kv_heads: int
    d_model: int
    vocabulary: int
    tied: bool

    @property
    def d_head(self) -> int:
        return self.d_model // self.n_heads

    @property
    def position_encoding(self) -> str:
        return "alibi"

    @property
    def slopes(self) -> list[float]:
        """ALiBi slope per head index, in nats per token of distance."""
        return alibi_slopes(self.n_heads)

    @property
    def total_parameters(self) -> int:
        """Of the whole model, tied weights counted once."""
        d, v = self.d_model, self.vocabulary
        layer = 12 * d * d + 13 * d  # q k v 3d², out d², MLP 8d²; biases 3d+d+4d+d, two norms 4d
        return v * d * (1 if self.tied else 2) + self.n_layers * layer + 4 * d

    def slices(self, head: Head, parts: str = "qkv") -> list[Slice]:
        """The head's pieces: rows and biases of the chosen ``parts``, then its output columns.

        BLOOM fuses Q, K and V per head: head h owns rows [3dh, 3d(h+1)) of ``query_key_value``,
        q then k then v, and columns [dh, d(h+1)) of ``dense`` (d = d_head).
        """
        attention = f"transformer.h.{head.layer}.self_attention."
        d, out = self.d_head, []
        for index, part in enumerate("qkv"):
            if part in parts:
                start = 3 * d * head.head + index * d
                for tensor in ("query_key_value.weight", "query_key_value.bias"):
                    out.append(Slice(part, attention + tensor, 0, start, start + d))
        out.append(Slice("o", attention + "dense.weight", 1, d * head.head, d * (head.head + 1)))
        return out

    def slice_shape(self, piece: Slice) -> tuple[int, ...]:
        """Shape of a slice's values."""
        size = piece.stop - piece.start
        if piece.tensor.endswith(".bias"):
            return (size,)
        return (size, self.d_model) if piece.dim == 0 else (self.d_model, size)

    def trained_parameters(self, heads: Iterable[Head], parts: str = "qkv") -> int:
        """Parameters in the slices of ``heads``: what a pass really trains."""
        return sum(math.prod(self.slice_shape(s)) for head in heads for s in self.slices(head, parts))

    def touched_tensor_parameters(self, heads: Iterable[Head]) -> int:
        """Parameters of the whole tensors that hold a slice: what the paper's counts say."""
        d = self.d_model
        return len({head.layer for head in heads}) * (3 * d * d + 3 * d + d * d)


def alibi_slopes(n_heads: int) -> list[float]:
    """m_h = 2^(-8(h+1)/H) for H a power of two; otherwise those of the power below, then every
    second one of the power above (Press et al., 2022)."""
    power = 2 ** math.floor(math.log2(n_heads))
    slopes = [2 ** (-8 * (h + 1) / power) for h in range(power)]
    return slopes + [2 ** (-4 * (2 * h + 1) / power) for h in range(n_heads - power)]


def anatomy_of(config: dict[str, Any], source: str) -> Anatomy:
    """The anatomy of a model by its ``config.json``.

    Raises:
        InputError: the family has no adapter, or the config lacks or contradicts its shape.
    """
    family = str(config.get("model_type", "unknown"))
    if family not in FAMILIES:
        raise InputError(
            f"{source} is a {family!r} model, and headsurgeon has adapters for {', '.join(sorted(FAMILIES))} only"
        )
    try:
        return FAMILIES[family](config)
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"the config.json of {source} does not describe a {family} model: {error}") from error


def _bloom(config: dict[str, Any]) -> Anatomy:
    d_model = int(config["hidden_size"] if "hidden_size" in config else config["n_embed"])
    n_heads = int(config["n_head"] if "n_head" in config else config["num_attention_heads"])
    n_layers = int(config["n_layer"] if "n_layer" in config else config["num_hidden_layers"])
    if min(d_model, n_heads, n_layers) < 1 or d_model % n_heads:
        raise ValueError(f"{n_heads} heads do not divide a width of {d_model}")
    if config.get("slow_but_exact") and int(config.get("pretraining_tp", 1)) > 1:
        raise ValueError("slow_but_exact splits the output projection; set it to false")
    tied = bool(config.get("tie_word_embeddings", True))
    return Anatomy("bloom", n_layers, n_heads, n_heads, d_model, int(config["vocab_size"]), tied)


FAMILIES = {"bloom": _bloom}


def untrainable(config: dict[str, Any]) -> str:
    """Why a model of this config can be diagnosed but not operated on; empty where it can."""
    quantised = config.get("quantization_config")
    if not quantised:
        return ""
    method = quantised.get("quant_method", "unknown") if isinstance(quantised, dict) else "unknown"
    return f"its weights are quantised ({method}) and cannot be trained; take the unquantised checkpoint"


def stored_dtype(config: dict[str, Any]) -> str:
    """The dtype that the config names; empty where it names none."""
    return str(config.get("dtype") or config.get("torch_dtype") or "").removeprefix("torch.")


DEFAULT_CONTEXT = 2048


def context_of(folder: Path, config: dict[str, Any]) -> int:
    """Longest text in tokens that is measured or trained on: what config and tokenizer allow."""
    try:
        told = json.loads((folder / "tokenizer_config.json").read_text("utf-8")).get("model_max_length")
    except (OSError, ValueError, AttributeError):
        told = None
    trained = config.get("seq_length") or DEFAULT_CONTEXT
    return int(min(limit for limit in (told, trained) if isinstance(limit, int | float) and limit >= 1))


def read_config(folder: Path) -> dict[str, Any]:
    """``config.json`` of a model folder.

    Raises:
        InputError: the folder is missing, holds no config, or the config is no JSON object.
    """
    if not folder.is_dir():
        raise InputError(f"folder not found: {folder}")
    path = folder / "config.json"
    try:
        config = json.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{folder} holds no model: there is no config.json in it") from error
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}") from error
    if not isinstance(config, dict):
        raise InputError(f"{path} is damaged: it holds no JSON object")
    return config
