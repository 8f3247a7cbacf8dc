"""Safetensors files, written whole or not at all and never built up in memory beside the tensors."""

from __future__ import annotations

import errno
import re
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from engine.files import require_space, write_atomic

HEADER = 512
"""Bytes that one tensor's entry in the header takes at most."""


def write_tensors(path: Path, tensors: dict[str, Tensor], metadata: dict[str, str], what: str) -> int:
    """Replace ``path`` by a safetensors file of contiguous CPU tensors; its size in bytes.

    One metadata entry at most: the library writes several in an order that changes from run to run.

    Raises:
        InputError: the disk is full; what was there before still is.
    """
    data = sum(tensor.nbytes for tensor in tensors.values())
    require_space(path.parent, data + HEADER * len(tensors), what)

    def save(file: Any) -> None:
        try:
            save_file(tensors, file.name, metadata=metadata)
        except SafetensorError as error:
            # the library tells the system's reason only in its message
            found = re.search(r"os error (\d+)", str(error))
            raise OSError(int(found[1]) if found else errno.EIO, str(error)) from error

    write_atomic(path, save)
    return path.stat().st_size


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """All tensors of a safetensors file and its metadata.

    Raises:
        SafetensorError: the file is damaged.
    """
    with safe_open(path, "pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}, file.metadata() or {}  # noqa: SIM118
