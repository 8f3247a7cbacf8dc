"""Gemma 1, 2 and 3 (text): as Llama, with heads of 256 whatever the width and tied embeddings.

Gemma 2 scales by a number of its config, caps its scores by a tanh, and gives every other layer a window; Gemma 3
caps nothing, normalises Q and K, has a window on five of six layers, and turns these by another base.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.families.base import Anatomy, Config
from engine.families.decoder import decoder


def gemma(config: Config) -> Anatomy:
    bias = bool(config.get("attention_bias", False))
    return decoder(config, "gemma", qkv_bias=bias, o_bias=bias, d_head=256, tied=True)


def gemma2(config: Config) -> Anatomy:
    softcap = float(config.get("attn_logit_softcapping", 50.0) or 0)
    return _windowed(config, "gemma2", range(0, config.number("num_hidden_layers"), 2), softcap=softcap)


def gemma3(config: Config) -> Anatomy:
    n_layers, pattern = config.number("num_hidden_layers"), config.number("sliding_window_pattern", default=6)
    return _windowed(config, "gemma3_text", [i for i in range(n_layers) if (i + 1) % pattern], qk_norm=True)


def _windowed(
    config: Config, family: str, sliding: Iterable[int], *, softcap: float = 0.0, qk_norm: bool = False
) -> Anatomy:
    """What Gemma 2 and 3 share."""
    bias = bool(config.get("attention_bias", False))
    return decoder(
        config,
        family,
        qkv_bias=bias,
        o_bias=bias,
        n_kv_heads=4,
        d_head=256,
        tied=True,
        scale=float(config.get("query_pre_attn_scalar", 256)) ** -0.5,
        softcap=softcap,
        qk_norm=qk_norm,
        norms=4,
        window=int(config.get("sliding_window", 4096) or 0),
        sliding=sliding,
    )
