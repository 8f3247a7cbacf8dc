"""Gemma 1, 2 and 3 (text): as Llama, with heads of 256 whatever the width and tied embeddings.

Gemma 2 scales by a number of its config, caps its scores by a tanh, and gives every other layer a window; Gemma 3
caps nothing, normalises Q and K, has a window on five of six layers, and turns these by another base.
"""

from __future__ import annotations

from engine.families.base import Anatomy, Config
from engine.families.decoder import decoder


def gemma(config: Config) -> Anatomy:
    bias = bool(config.get("attention_bias", False))
    return decoder(config, "gemma", qkv_bias=bias, o_bias=bias, d_head=256, tied=True)


def gemma2(config: Config) -> Anatomy:
    bias, n_layers = bool(config.get("attention_bias", False)), config.number("num_hidden_layers")
    return decoder(
        config,
        "gemma2",
        qkv_bias=bias,
        o_bias=bias,
        n_kv_heads=4,
        d_head=256,
        tied=True,
        scale=float(config.get("query_pre_attn_scalar", 256)) ** -0.5,
        softcap=float(config.get("attn_logit_softcapping", 50.0) or 0),
        norms=4,
        window=int(config.get("sliding_window", 4096) or 0),
        sliding=range(0, n_layers, 2),
    )


def gemma3(config: Config) -> Anatomy:
    bias, n_layers = bool(config.get("attention_bias", False)), config.number("num_hidden_layers")
    pattern = config.number("sliding_window_pattern", default=6)
    return decoder(
        config,
        "gemma3_text",
        qkv_bias=bias,
        o_bias=bias,
        n_kv_heads=4,
        d_head=256,
        tied=True,
        scale=float(config.get("query_pre_attn_scalar", 256)) ** -0.5,
        qk_norm=True,
        norms=4,
        window=int(config.get("sliding_window", 4096) or 0),
        sliding=[layer for layer in range(n_layers) if (layer + 1) % pattern],
    )
