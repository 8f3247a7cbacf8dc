"""Checkpoint files as bytes: where tensors lie in safetensors files, and copies with some bytes replaced.

Patching bytes keeps everything else as it was, whatever wrote the file: ties, order, metadata. It
needs no torch and no memory worth naming.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from engine.anatomy import Slice, anatomy_of, read_config
from engine.errors import InputError
from engine.files import require_space, sha256_of, write_atomic
from engine.gguf import is_gguf

PATCH_FORMAT = "headsurgeon-patch-1"
"""Under this name a patch's metadata tells what it is and what it was made on."""
ITEM_SIZE = {"F32": 4, "BF16": 2, "F16": 2}
MODEL_FILES = (
    "config.json",
    "generation_config.json",
    "*.safetensors",
    "*.safetensors.index.json",
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "chat_template*",
)
"""What makes up a model folder; anything else in it is not ours to copy."""


@dataclass(frozen=True)
class TensorPlace:
    """Where one tensor lies."""

    file: Path
    dtype: str
    """As safetensors spells it: F32, BF16, F16."""
    shape: tuple[int, ...]
    offset: int
    """Of its first byte in the file."""

    def runs(self, piece: Slice) -> Iterator[tuple[int, int]]:
        """(offset in the file, bytes) of each contiguous run of a slice, in the slice's own order."""
        item = ITEM_SIZE[self.dtype]
        width = piece.stop - piece.start
        if piece.dim == 0:
            row = item * (self.shape[1] if len(self.shape) == 2 else 1)
            yield self.offset + piece.start * row, width * row
        else:
            for index in range(self.shape[0]):
                yield self.offset + (index * self.shape[1] + piece.start) * item, width * item


def read_header(path: Path) -> tuple[dict[str, Any], int]:
    """Header of a safetensors file and the offset where its data begins.

    Raises:
        InputError: the file is truncated or no safetensors file.
    """
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
            header: dict[str, Any] = json.loads(file.read(min(size, 100_000_000)))
        data_end = max((t["data_offsets"][1] for name, t in header.items() if name != "__metadata__"), default=0)
    except FileNotFoundError as error:
        raise InputError(f"file not found: {path}") from error
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged or no safetensors file; fetch or save it anew") from error
    if path.stat().st_size != 8 + size + data_end:
        raise InputError(f"{path} is truncated: its header tells of more data; fetch or save it anew")
    return header, 8 + size


def weight_files(folder: Path) -> list[Path]:
    """The model's safetensors files, or the one file that a GGUF model is.

    Raises:
        InputError: there are none.
    """
    if is_gguf(folder):
        return [folder]
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise InputError(
            f"{folder} holds no safetensors weights; headsurgeon reads no pickled ones, "
            "save the model anew with save_pretrained"
        )
    return files


def tensor_places(folder: Path) -> dict[str, TensorPlace]:
    """Every tensor of a model folder by its name in ``named_parameters()``.

    Some checkpoints were saved from the bare model and lack the prefix of all its names (BLOOM's and GPT-2's
    ``transformer.``).
    """
    prefix = anatomy_of(read_config(folder), str(folder)).blocks.partition(".")[0] + "."
    places = {}
    for file in weight_files(folder):
        header, start = read_header(file)
        for name, tensor in header.items():
            if name != "__metadata__":
                offset = start + tensor["data_offsets"][0]
                places[name] = TensorPlace(file, tensor["dtype"], tuple(tensor["shape"]), offset)
    if any(name.startswith(prefix) for name in places):
        return places
    return {prefix + name: place for name, place in places.items()}


def weights_sha256(folder: Path) -> str:
    """Fingerprint of a model's weights: the digest of its file, or of its files' digests in order of name."""
    digests = [sha256_of(file.resolve()) for file in weight_files(folder)]
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("".join(digests).encode()).hexdigest()


def read_slice(place: TensorPlace, piece: Slice) -> bytes:
    """The bytes of a slice, row by row."""
    with place.file.open("rb") as file:
        return b"".join(_read_at(file, offset, size) for offset, size in place.runs(piece))


def _read_at(file: BinaryIO, offset: int, size: int) -> bytes:
    file.seek(offset)
    return file.read(size)


def copy_model(source: Path, to: Path, edits: dict[Path, list[tuple[int, bytes]]]) -> None:
    """Copy a model folder to ``to`` with some bytes of its weight files replaced.

    The copy appears under its name only when it is whole. ``edits`` maps a file of ``source`` to
    (offset, bytes) pairs.

    Raises:
        InputError: ``to`` holds something already, or the disk is too small.
    """
    if to.exists() and (not to.is_dir() or any(to.iterdir())):
        raise InputError(f"{to} is not empty; name a new folder with --to")
    to.parent.mkdir(parents=True, exist_ok=True)
    files = sorted({file for pattern in MODEL_FILES for file in source.glob(pattern) if file.is_file()})
    require_space(to.parent, sum(file.stat().st_size for file in files), "a full checkpoint")
    half = to.with_name(f".{to.name}.half")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir()
    try:
        for file in files:
            changes = sorted(edits.get(file, []))
            write_atomic(half / file.name, lambda out, file=file, changes=changes: _copy_edited(file, out, changes))  # type: ignore[misc]
        half.replace(to)
    finally:
        shutil.rmtree(half, ignore_errors=True)


def _copy_edited(source: Path, out: BinaryIO, edits: list[tuple[int, bytes]]) -> None:
    with source.open("rb") as file:
        for offset, data in edits:
            _copy_bytes(file, out, offset - file.tell())
            out.write(data)
            file.seek(len(data), 1)
        shutil.copyfileobj(file, out, 1 << 20)


def _copy_bytes(file: BinaryIO, out: BinaryIO, count: int) -> None:
    while count > 0:
        data = file.read(min(count, 1 << 20))
        if not data:
            raise InputError("a weight file ended too early; fetch or save it anew")
        out.write(data)
        count -= len(data)
