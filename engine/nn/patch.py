"""Patches: replacement values and originals of the slices, applied to checkpoint files and taken off.

Values *and* originals are kept rather than differences, because adding a difference and taking it
away again does not give back the same bits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from torch import Tensor

from engine.anatomy import Slice
from engine.checkpoint import PATCH_FORMAT, TensorPlace, copy_model, read_slice, tensor_places, weights_sha256
from engine.errors import InputError
from engine.families.base import GIVEN_SINKS
from engine.gguf import is_gguf
from engine.nn.embedding import stand_before
from engine.nn.load import Patient, dequantised
from engine.nn.slices import write_values
from engine.nn.tensorfile import read_tensors, write_tensors

_TORCH = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
_WIDER = {(torch.bfloat16, torch.float32), (torch.float16, torch.float32)}


@dataclass(frozen=True)
class Patch:
    """The changed slices by key, with what they held before."""

    values: dict[str, Tensor]
    originals: dict[str, Tensor]
    about: dict[str, Any]
    """``number``, ``weights_sha256`` of the stock checkpoint, ``plan``, ``target_heads``, ``source``."""

    @property
    def treatment(self) -> str:
        found: str = self.about.get("plan", {}).get("treatment", "reinitialise")
        return found


def save_patch(path: Path, patch: Patch) -> int:
    """Write a patch atomically; its size in bytes."""
    tensors = {f"values/{key}": tensor.contiguous() for key, tensor in patch.values.items()}
    tensors |= {f"originals/{key}": tensor.contiguous() for key, tensor in patch.originals.items()}
    return write_tensors(path, tensors, {PATCH_FORMAT: json.dumps(patch.about, sort_keys=True)}, "the patch")


def load_patch(path: Path) -> Patch:
    """Read a patch.

    Raises:
        InputError: there is none, it is damaged, or it is another kind of file.
    """
    if not path.is_file():
        raise InputError(f"patch not found: {path}")
    try:
        tensors, metadata = read_tensors(path)
    except SafetensorError as error:
        raise InputError(f"{path} is damaged: {error}") from error
    if PATCH_FORMAT not in metadata:
        raise InputError(f"{path} is no headsurgeon patch")
    sides: dict[str, dict[str, Tensor]] = {"values": {}, "originals": {}}
    for name, tensor in tensors.items():
        side, _, key = name.partition("/")
        sides[side][key] = tensor
    return Patch(sides["values"], sides["originals"], json.loads(metadata[PATCH_FORMAT]))


def put_on(patient: Patient, patch: Patch) -> None:
    """Give a loaded patient what a patch holds: slices of its weights, sink logits, a token before every text."""
    write_values(patient, patch.values)
    if patch.treatment == "placeholder":
        stand_before(patient)


def take_off(patient: Patient, patch: Patch) -> None:
    """The inverse of ``put_on``, for the patch that was put on last."""
    write_values(patient, patch.originals)
    if patch.treatment == "placeholder":
        patient.placeholder = None


@contextmanager
def taken_off(patient: Patient, patches: list[Patch]) -> Iterator[None]:
    """While open, the patient is without ``patches`` (which stand on it, in order)."""
    for patch in reversed(patches):
        take_off(patient, patch)
    try:
        yield
    finally:
        for patch in patches:
            put_on(patient, patch)


def apply_patches(patches: list[Patch], source: Path, to: Path) -> None:
    """Copy the checkpoint in ``source`` to ``to`` with ``patches`` put on, in order. A GGUF file is dequantised
    on the way: what is written holds safetensors, in the dtype that the patches were made in.

    Raises:
        InputError: a patch is for another model, or holds what no plain checkpoint can; or ``to`` is taken, or the
            disk is too small.
    """
    require_plain(patches)
    wanted = patches[0].about["weights_sha256"]
    if patches[0].about["number"] == 1 and weights_sha256(source) != wanted:
        raise InputError(
            f"{source} is another model than the patch was made on (weights {weights_sha256(source)[:12]}…, "
            f"expected {wanted[:12]}…); name the stock one with --model"
        )
    steps = [(patch.originals, patch.values) for patch in patches]
    complaint = "does not hold what the patch replaces; it is another model or lacks an earlier patch"
    if not is_gguf(source):
        _rewrite(source, to, steps, complaint)
        return
    if to.exists() and (not to.is_dir() or any(to.iterdir())):  # said before minutes of work, not after
        raise InputError(f"{to} is not empty; name a new folder with --to")
    made_in = str(next(iter(patches[0].originals.values())).dtype).removeprefix("torch.")
    with dequantised(source, made_in, to.with_name(f".{to.name}.dequantised")) as folder:
        _rewrite(folder, to, steps, complaint)


def require_plain(patches: list[Patch]) -> None:
    """Raises InputError: a patch gives heads sink logits that their family has no place for."""
    for patch in patches:
        if any(Slice.parse(key).tensor.endswith(f".{GIVEN_SINKS}") for key in patch.values):
            raise InputError(
                f"pass {patch.about['number']} gave {len(patch.values)} heads a sink logit, and a plain checkpoint of "
                "this family has no place for one: the patch itself carries them, and --patch puts it on a model "
                "(headsurgeon diagnose, perplexity, generate, ablate, stream)"
            )


def undo_patches(patches: list[Patch], model: Path, to: Path) -> None:
    """Copy the checkpoint in ``model`` to ``to`` with ``patches`` taken off, the last one first.

    Raises:
        InputError: the model does not carry them, or its originals were not kept exactly.
    """
    steps = [(patch.values, patch.originals) for patch in reversed(patches)]
    places = tensor_places(model)
    for _, originals in steps:
        for key, tensor in originals.items():
            place = _place(places, Slice.parse(key), model)
            if tensor.dtype != _TORCH[place.dtype] and (_TORCH[place.dtype], tensor.dtype) not in _WIDER:
                raise InputError(
                    f"the patch keeps originals as {tensor.dtype}, and {model} holds {_TORCH[place.dtype]}: "
                    "they would not come back exactly; take the stock checkpoint instead"
                )
    _rewrite(model, to, steps, "does not carry this patch as it was made")


def _rewrite(source: Path, to: Path, steps: list[tuple[dict[str, Tensor], dict[str, Tensor]]], complaint: str) -> None:
    """Copy with slices changed step by step from the first of each pair to the second."""
    places = tensor_places(source)
    now: dict[str, bytes] = {}
    for before, after in steps:
        for key, tensor in before.items():
            piece = Slice.parse(key)
            place = _place(places, piece, source)
            if now.get(key, read_slice(place, piece)) != _bytes(tensor, place):
                raise InputError(f"{source} {complaint} ({piece.tensor})")
            now[key] = _bytes(after[key], place)
    edits: dict[Path, list[tuple[int, bytes]]] = {}
    for key, data in now.items():
        piece = Slice.parse(key)
        place, at = _place(places, piece, source), 0
        for offset, size in place.runs(piece):
            edits.setdefault(place.file, []).append((offset, data[at : at + size]))
            at += size
    copy_model(source, to, edits)


def _place(places: dict[str, TensorPlace], piece: Slice, folder: Path) -> TensorPlace:
    place = places.get(piece.tensor)
    if place is None or place.dtype not in _TORCH or piece.stop > place.shape[piece.dim]:
        raise InputError(f"{folder} is another model: it has no tensor {piece.tensor} of the patch's shape and kind")
    return place


def _bytes(tensor: Tensor, place: TensorPlace) -> bytes:
    """A slice as the checkpoint's own dtype spells it."""
    return bytes(tensor.to(_TORCH[place.dtype]).contiguous().view(torch.uint8).numpy().tobytes())
