"""GPT-2 (Radford et al., 2019): learned positions; Q, K and V one after the other in one weight.

``c_attn`` and ``c_proj`` are ``Conv1D``: their weights are (inputs, outputs), so a head's Q, K, V are *columns*
of the first (q of all heads, then k, then v) and its outputs *rows* of the second.
"""

from __future__ import annotations

import math

from engine.families.base import Anatomy, Config, Part, every, head_size


def anatomy(config: Config) -> Anatomy:
    d_model, n_heads = config.number("n_embd", "hidden_size"), config.number("n_head", "num_attention_heads")
    n_layers = config.number("n_layer", "num_hidden_layers")
    positions = config.number("n_positions", "max_position_embeddings", default=1024)
    d_ff, d_head = config.number("n_inner", default=4 * d_model), head_size(d_model, n_heads, n_layers)
    if config.get("add_cross_attention"):
        raise ValueError("it attends to an encoder too")
    vocabulary, tied = config.number("vocab_size"), bool(config.get("tie_word_embeddings", True))
    scale = 1 / math.sqrt(d_head) if config.get("scale_attn_weights", True) else 1.0
    deeper = bool(config.get("scale_attn_by_inverse_layer_idx", False))
    # a layer: q k v 3d² + 3d, out d² + d, MLP 2d·f + f + d, two norms 4d
    layer = 4 * d_model**2 + 4 * d_model + 2 * d_model * d_ff + d_ff + d_model + 4 * d_model
    embeddings = vocabulary * d_model * (1 if tied else 2) + positions * d_model
    q, k, v = (Part("c_attn", every(d_head, n_heads, index * d_model), 3 * d_model, bias=True) for index in range(3))
    return Anatomy(
        family="gpt2",
        n_layers=n_layers,
        n_heads=n_heads,
        n_kv_heads=n_heads,
        d_model=d_model,
        d_head=d_head,
        vocabulary=vocabulary,
        total_parameters=embeddings + n_layers * layer + 2 * d_model,
        blocks="transformer.h",
        attention="attn",
        q=q,
        k=k,
        v=v,
        o=Part("c_proj", every(d_head, n_heads), d_model, bias=True),
        transposed=True,
        position_encoding="learned",
        scales=tuple(scale / (layer + 1 if deeper else 1) for layer in range(n_layers)),
        mlp=("mlp.c_fc", "mlp.c_proj"),
        d_ff=d_ff,
    )
