"""What has to be seen to in a model that comes as a GGUF file, before and after transformers has loaded it."""

from __future__ import annotations

import importlib.util
from typing import Any

from engine.errors import InputError
from engine.nn.tokens import start_ids


def require_gguf(source: str) -> None:
    """What transformers reads GGUF files with.

    Raises:
        InputError: it is not installed.
    """
    if not all(importlib.util.find_spec(name) for name in ("gguf", "accelerate")):
        raise InputError(
            f"{source} is a GGUF file, and what reads those is not installed: pip install headsurgeon[real]"
        )


def unmark(model: Any) -> None:
    """A model dequantised from GGUF still calls itself quantised, and would refuse to be saved."""
    model.is_quantized, model.hf_quantizer = False, None
    for name in ("quantization_config", "_pre_quantization_dtype"):
        if hasattr(model.config, name):
            delattr(model.config, name)


def begin_as_told(tokenizer: Any, told: bool | None) -> None:
    """Whether the first token stands before every text is for the file to say, where it does: transformers 5.0 puts
    it before the texts of every Llama, whatever the file says.

    Args:
        told: what the file says
    """
    if told is not None and bool(start_ids(tokenizer)) != told:
        tokenizer.add_bos_token = told
