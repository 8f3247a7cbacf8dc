"""Qwen 2 and 2.5 (Yang et al., 2024): as Llama, with biases on Q, K and V; a window on the upper layers where
the config turns it on."""

from __future__ import annotations

from engine.families.base import Anatomy, Config
from engine.families.decoder import decoder


def anatomy(config: Config) -> Anatomy:
    window, sliding = upper_window(config)
    return decoder(config, "qwen2", qkv_bias=True, window=window, sliding=sliding)


def upper_window(config: Config) -> tuple[int, range]:
    """Qwen's window: off unless turned on, and then on layers from ``max_window_layers`` up."""
    window = config.number("sliding_window", default=4096) if config.get("use_sliding_window", False) else 0
    return window, range(config.number("max_window_layers", default=28), config.number("num_hidden_layers"))
