"""The header of a GGUF file: its metadata and which tensors it holds, read without torch and without the package
``gguf``, so that a patient kept in one can be looked at before anything is loaded.

Source: the GGUF specification (ggml, docs/gguf.md), versions 2 and 3, little-endian.
"""

from __future__ import annotations

import struct
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from engine.errors import InputError

_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_TYPES = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 6: "Q5_0", 7: "Q5_1", 8: "Q8_0", 10: "Q2_K", 11: "Q3_K", 12: "Q4_K",
    13: "Q5_K", 14: "Q6_K", 15: "Q8_K", 30: "BF16",
}  # fmt: skip
_CONFIG = {
    "context_length": "max_position_embeddings",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "embedding_length": "hidden_size",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.layer_norm_rms_epsilon": "rms_norm_eps",
}
_EMBEDDINGS, _HEAD, _ROPE_FACTORS = "token_embd.weight", "output.weight", "rope_freqs.weight"


@dataclass(frozen=True)
class Header:
    """What a GGUF file says of itself."""

    metadata: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]
    """Of each tensor, as (rows, columns); the file names columns first."""
    types: dict[str, str]
    """How each tensor is kept: ``F32``, ``Q4_1`` …"""

    @property
    def stored(self) -> str:
        """How the weights came and what was done to them, in words."""
        kinds = Counter(kind for name, kind in self.types.items() if len(self.shapes[name]) == 2)
        names = [f"{kind} ({n} tensors)" for kind, n in kinds.most_common()]
        return f"dequantised from GGUF: {', '.join(names) or 'no matrices'}"


def is_gguf(path: Path) -> bool:
    """Whether a path names a GGUF file that is there."""
    return path.suffix.lower() == ".gguf" and path.is_file()


def read_gguf(path: Path) -> Header:
    """The header of a GGUF file.

    Raises:
        InputError: it is cut short, damaged, or no GGUF file of a version that is read here.
    """
    try:
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise InputError(f"{path} is no GGUF file: it does not begin as one; fetch it anew")
            version = _number(file, "I")
            if version not in (2, 3):
                raise InputError(f"{path} is GGUF of version {version}, and versions 2 and 3 are read here")
            tensors, keys = _number(file, "Q"), _number(file, "Q")
            metadata = {}
            for _ in range(keys):
                name = _text(file)
                metadata[name] = _value(file, _number(file, "I"))
            shapes, types = {}, {}
            for _ in range(tensors):
                name = _text(file)
                shapes[name] = tuple(reversed([_number(file, "Q") for _ in range(_count(file, "I"))]))
                types[name] = _TYPES.get(kind := _number(file, "I"), f"type {kind}")
                _number(file, "Q")  # where it lies
    except FileNotFoundError as error:
        raise InputError(f"file not found: {path}") from error
    except (EOFError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is damaged or cut short ({error}); fetch it anew") from error
    return Header(metadata, shapes, types)


def config_of_gguf(path: Path) -> dict[str, Any]:
    """What the ``config.json`` of the same model would say of its shape.

    Raises:
        InputError: the file is damaged, of another architecture than Llama's, or of one of its variants whose
            weights transformers would read as something else.
    """
    header = read_gguf(path)
    told, family = header.metadata, header.metadata.get("general.architecture")
    if family != "llama":
        raise InputError(
            f"{path} holds a {family!r} model, and of GGUF files only 'llama' ones are read; take safetensors"
        )
    if told.get("llama.expert_count") or _ROPE_FACTORS in header.shapes or told.get("llama.rope.scaling.type"):
        raise InputError(
            f"{path} has experts or a scaled RoPE, which would not survive the dequantising; take its safetensors"
        )
    config = {there: told[f"llama.{here}"] for here, there in _CONFIG.items() if f"llama.{here}" in told}
    if "llama.rope.dimension_count" in told:
        config["head_dim"] = told["llama.rope.dimension_count"]
    if _EMBEDDINGS not in header.shapes:
        raise InputError(f"{path} lacks {_EMBEDDINGS}; fetch it anew")
    return config | {
        "model_type": family,
        "rope_parameters": {"rope_type": "default", "rope_theta": told.get("llama.rope.freq_base", 10_000.0)},
        "tie_word_embeddings": _HEAD not in header.shapes,
        "vocab_size": header.shapes[_EMBEDDINGS][0],
        "dtype": "float32",  # what it is dequantised to
    }


def _number(file: BinaryIO, code: str) -> Any:
    return struct.unpack(f"<{code}", _bytes(file, struct.calcsize(f"<{code}")))[0]


def _count(file: BinaryIO, code: str) -> int:
    """A length: more than any file has would keep the reading from ever ending."""
    count = int(_number(file, code))
    if count > 1 << 28:
        raise ValueError(f"a length of {count}")
    return count


def _bytes(file: BinaryIO, size: int) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise EOFError("it ends within its header")
    return data


def _text(file: BinaryIO) -> str:
    return _bytes(file, _count(file, "Q")).decode("utf-8", "replace")


def _value(file: BinaryIO, kind: int) -> Any:
    if kind == _STRING:
        return _text(file)
    if kind == _ARRAY:
        inner, count = _number(file, "I"), _count(file, "Q")
        if inner in _NUMBERS:
            code = f"<{count}{_NUMBERS[inner]}"
            return list(struct.unpack(code, _bytes(file, struct.calcsize(code))))
        return [_value(file, inner) for _ in range(count)]
    if kind not in _NUMBERS:
        raise ValueError(f"a value of kind {kind}")
    return _number(file, _NUMBERS[kind])
