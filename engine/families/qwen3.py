"""Qwen 3 (2025): as Llama, with Q and K of each head normalised and heads of 128 whatever the width."""

from __future__ import annotations

from engine.families.base import Anatomy, Config
from engine.families.decoder import decoder
from engine.families.qwen2 import upper_window


def anatomy(config: Config) -> Anatomy:
    bias, (window, sliding) = bool(config.get("attention_bias", False)), upper_window(config)
    return decoder(
        config,
        "qwen3",
        qkv_bias=bias,
        o_bias=bias,
        d_head=128,
        qk_norm=True,
        window=window,
        sliding=sliding,
    )
