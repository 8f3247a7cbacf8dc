"""Mistral (Jiang et al., 2023): as Llama; with a window, which then all layers have. A config that does not speak of
it means 4096."""

from __future__ import annotations

from dataclasses import replace

from engine.families.base import Anatomy, Config
from engine.families.decoder import decoder


def anatomy(config: Config) -> Anatomy:
    found, window = decoder(config, "mistral", n_kv_heads=8), int(config.get("sliding_window", 4096) or 0)
    return replace(found, windows=(window,) * found.n_layers if window else ())
