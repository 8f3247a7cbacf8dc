"""Where a model keeps each head, from its ``config.json`` alone: the family's adapter is found here
(``engine.families`` holds them). No torch: names, rows and columns are plain numbers, so that preflight
and patches need no weights.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from engine.errors import InputError
from engine.families import FAMILIES, bloom
from engine.families.base import Anatomy, Config, Slice, alibi_slopes, head_size
from engine.gguf import config_of_gguf, is_gguf
from engine.heads import Head

__all__ = [
    "Anatomy",
    "Slice",
    "alibi_slopes",
    "anatomy_of",
    "context_of",
    "read_config",
    "recorded_anatomy",
    "stored_dtype",
    "untrainable",
    "whole_groups",
]


def anatomy_of(config: dict[str, Any], source: str) -> Anatomy:
    """The anatomy of a model by its ``config.json``.

    Raises:
        InputError: the family has no adapter, or the config lacks or contradicts its shape.
    """
    family = str(config.get("model_type", "unknown"))
    if family not in FAMILIES:
        raise InputError(
            f"{source} is a {family!r} model, and headsurgeon has adapters for {', '.join(sorted(FAMILIES))} only; "
            "engine/families/WRITING.md says how to write one"
        )
    told = Config(config)
    try:
        return replace(FAMILIES[family](told), told=told.read)
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(f"the config.json of {source} does not describe a {family} model: {error}") from error


class Recorded(Protocol):
    """What a record or an event tells of a patient."""

    @property
    def family(self) -> str: ...
    @property
    def n_layers(self) -> int: ...
    @property
    def n_heads(self) -> int: ...
    @property
    def d_model(self) -> int: ...
    @property
    def vocabulary(self) -> int: ...
    @property
    def parameters(self) -> int: ...
    @property
    def config(self) -> dict[str, Any]: ...


def recorded_anatomy(patient: Recorded) -> Anatomy:
    """The anatomy of a patient from what was written down of it. Where that is its shape alone, as at
    first, it is a BLOOM, and its size tells whether its embeddings are tied.

    Raises:
        InputError: there is no adapter for it, or what was written contradicts itself.
    """
    if patient.config or patient.family != "bloom":
        return anatomy_of({**patient.config, "model_type": patient.family}, "the patient of the record")
    try:
        d_head = head_size(patient.d_model, patient.n_heads, patient.n_layers)
    except ValueError as error:
        raise InputError(f"the record does not describe a bloom model: {error}") from error
    shape = (patient.n_layers, patient.n_heads, patient.d_model, d_head, patient.vocabulary)
    tied = bloom.shaped(*shape, tied=True)
    untied = bloom.shaped(*shape, tied=False)
    return untied if untied.total_parameters == patient.parameters else tied


def whole_groups(anatomy: Anatomy, targets: list[Head], parts: str, take_along: bool) -> list[Head]:
    """The targets of a pass on a model whose heads share K and V: all heads of a group, or none of it.

    Args:
        parts: what is changed (``Plan.touched``); where that is neither k nor v, nothing shared is touched and any
            heads will do
        take_along: the heads that share K and V with a target become targets too

    Raises:
        InputError: a group is named in part, and is not to be taken along.
    """
    if "s" in parts and "o" in parts and not anatomy.sinks:  # alone it is a logit that is given to them
        raise InputError(f"parts names s, the sink logit, and {anatomy.family} models have none; leave it out")
    if anatomy.group == 1 or not set(parts) & {"k", "v"}:
        return targets
    whole = sorted({other for head in targets for other in anatomy.sharing(head)})
    if take_along or len(whole) == len(set(targets)):
        return whole
    left = min(set(whole) - set(targets))
    named = next(head for head in targets if left in anatomy.sharing(head))
    raise InputError(
        f"{named} shares its K and V with {left}, which is no target: --whole-groups takes such heads along, and "
        "--parts q leaves K and V alone and cuts Q and output"
    )


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
LONGEST_CONTEXT = 4096
"""Of a model that could take more. Eager attention grows with the square of a text."""
_CONTEXT_KEYS = ("max_position_embeddings", "n_positions", "max_seq_len")


def context_of(folder: Path, config: dict[str, Any]) -> int:
    """Longest text in tokens that is measured or trained on: what config and tokenizer allow."""
    try:
        told = json.loads((folder / "tokenizer_config.json").read_text("utf-8")).get("model_max_length")
    except (OSError, ValueError, AttributeError):
        told = None
    positions = next((config[key] for key in _CONTEXT_KEYS if isinstance(config.get(key), int)), DEFAULT_CONTEXT)
    trained = config.get("seq_length") or min(positions, LONGEST_CONTEXT)
    return int(min(limit for limit in (told, trained) if isinstance(limit, int | float) and limit >= 1))


def read_config(folder: Path) -> dict[str, Any]:
    """``config.json`` of a model folder, or what a GGUF file says in its place.

    Raises:
        InputError: the folder is missing, holds no config, or the config is no JSON object; a GGUF file that
            cannot be read.
    """
    if is_gguf(folder):
        return config_of_gguf(folder)
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
