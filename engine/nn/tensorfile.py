"""Safetensors files, written whole or not at all and never built up in memory beside the tensors.

The format is the library's; it is written here because the library makes a file of its own beside the
one that it is given, so that nobody could say when its bytes are on the disk.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import BinaryIO

import torch
from safetensors import safe_open
from torch import Tensor

from engine.files import require_space, write_atomic

_NAMES = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str], what: str) -> int:
    """Replace ``path`` by a safetensors file of CPU tensors; its size in bytes. The same tensors give the
    same bytes.

    Raises:
        InputError: the disk is full; what was there before still is.
    """
    order = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))  # the widest first: aligned
    header: dict[str, object] = {"__metadata__": metadata}
    begin = 0
    for name in order:
        tensor = tensors[name]
        end = begin + tensor.nbytes
        header[name] = {"dtype": _NAMES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    require_space(path.parent, 8 + len(text) + begin, what)

    def write(file: BinaryIO) -> None:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in order:
            file.write(tensors[name].contiguous().reshape(-1).view(torch.uint8).numpy().data)

    write_atomic(path, write)
    return path.stat().st_size


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """All tensors of a safetensors file and its metadata.

    Raises:
        SafetensorError: the file is damaged.
    """
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
