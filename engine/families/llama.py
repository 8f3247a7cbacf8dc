"""Llama 1 to 3 and what is built like it, SmolLM2 among them (Touvron et al., 2023)."""

from __future__ import annotations

from engine.families.base import Anatomy, Config
from engine.families.decoder import decoder


def anatomy(config: Config) -> Anatomy:
    bias = bool(config.get("attention_bias", False))
    return decoder(config, "llama", qkv_bias=bias, o_bias=bias, mlp_bias=bool(config.get("mlp_bias", False)))
