"""GPT-NeoX and Pythia (Black et al., 2022; Biderman et al., 2023): fused per head like BLOOM; RoPE on a part of
each head, which is a quarter where the config names none.

transformers 5.0 forgets the part that a config names in ``rope_parameters`` alone and turns a quarter; such a model
attends otherwise than its config says, and the check in every diagnosis refuses to measure it.
"""

from __future__ import annotations

import math

from engine.families.base import Anatomy, Config, Part, every, head_size, require_fixed_rope


def anatomy(config: Config) -> Anatomy:
    d_model, n_heads = config.number("hidden_size"), config.number("num_attention_heads")
    n_layers, d_ff = config.number("num_hidden_layers"), config.number("intermediate_size")
    d_head, bias = head_size(d_model, n_heads, n_layers), bool(config.get("attention_bias", True))
    require_fixed_rope(config)
    rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
    share = float(rope.get("partial_rotary_factor") or config.get("rotary_pct") or 0.25)
    vocabulary, tied = config.number("vocab_size"), bool(config.get("tie_word_embeddings", False))
    layer = 4 * d_model**2 + 4 * d_model * bias + 2 * d_model * d_ff + d_ff + d_model + 4 * d_model
    q, k, v = (
        Part("query_key_value", every(3 * d_head, n_heads, index * d_head), 3 * d_model, bias) for index in range(3)
    )
    return Anatomy(
        family="gpt_neox",
        n_layers=n_layers,
        n_heads=n_heads,
        n_kv_heads=n_heads,
        d_model=d_model,
        d_head=d_head,
        vocabulary=vocabulary,
        total_parameters=vocabulary * d_model * (1 if tied else 2) + n_layers * layer + 2 * d_model,
        blocks="gpt_neox.layers",
        attention="attention",
        q=q,
        k=k,
        v=v,
        o=Part("dense", every(d_head, n_heads), d_model, bias),
        position_encoding="rope",
        rotary=int(d_head * share),
        scales=(1 / math.sqrt(d_head),) * n_layers,
        mlp=("mlp.dense_h_to_4h", "mlp.dense_4h_to_h"),
        d_ff=d_ff,
    )
