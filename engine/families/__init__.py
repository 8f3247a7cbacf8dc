"""One small file per family of models: where its heads lie and how they attend, from ``config.json`` alone.

``WRITING.md`` beside this file says how to write another one.
"""

from __future__ import annotations

from collections.abc import Callable

from engine.families import bloom, falcon, gemma, gpt2, gpt_neox, gpt_oss, llama, mistral, mpt, qwen2, qwen3
from engine.families.base import Anatomy, Config

FAMILIES: dict[str, Callable[[Config], Anatomy]] = {
    "bloom": bloom.anatomy,
    "falcon": falcon.anatomy,
    "gemma": gemma.gemma,
    "gemma2": gemma.gemma2,
    "gemma3_text": gemma.gemma3,
    "gpt2": gpt2.anatomy,
    "gpt_neox": gpt_neox.anatomy,
    "gpt_oss": gpt_oss.anatomy,
    "llama": llama.anatomy,
    "mistral": mistral.anatomy,
    "mpt": mpt.anatomy,
    "qwen2": qwen2.anatomy,
    "qwen3": qwen3.anatomy,
}
"""By the ``model_type`` of the config."""
