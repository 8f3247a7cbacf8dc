"""BLOOM (Scao et al., 2022): per head Q, K, V fused; ALiBi.

Head h owns rows [3dh, 3d(h+1)) of ``query_key_value``, q then k then v, and columns [dh, d(h+1)) of
``dense`` (d = d_head).
"""

from __future__ import annotations

import math

from engine.families.base import Anatomy, Config, Part, alibi_slopes, every, head_size


def anatomy(config: Config) -> Anatomy:
    d_model = config.number("hidden_size", "n_embed")
    n_heads = config.number("n_head", "num_attention_heads")
    n_layers = config.number("n_layer", "num_hidden_layers")
    d_head = head_size(d_model, n_heads, n_layers)
    if config.get("slow_but_exact") and config.number("pretraining_tp", default=1) > 1:
        raise ValueError("slow_but_exact splits the output projection; set it to false")
    vocabulary, tied = config.number("vocab_size"), bool(config.get("tie_word_embeddings", True))
    return shaped(n_layers, n_heads, d_model, d_head, vocabulary, tied)


def shaped(n_layers: int, n_heads: int, d_model: int, d_head: int, vocabulary: int, tied: bool) -> Anatomy:
    """The anatomy of a BLOOM of this shape, which is all that sets one apart from another."""
    # a layer: q k v 3d², out d², MLP 8d²; biases 3d + d + 4d + d, two norms 4d; one norm each before and after
    parameters = vocabulary * d_model * (1 if tied else 2) + n_layers * (12 * d_model**2 + 13 * d_model) + 4 * d_model
    q, k, v = (
        Part("query_key_value", every(3 * d_head, n_heads, index * d_head), 3 * d_model, bias=True)
        for index in range(3)
    )
    return Anatomy(
        family="bloom",
        n_layers=n_layers,
        n_heads=n_heads,
        n_kv_heads=n_heads,
        d_model=d_model,
        d_head=d_head,
        vocabulary=vocabulary,
        total_parameters=parameters,
        blocks="transformer.h",
        attention="self_attention",
        q=q,
        k=k,
        v=v,
        o=Part("dense", every(d_head, n_heads), d_model, bias=True),
        position_encoding="alibi",
        slopes=tuple(alibi_slopes(n_heads)),
        bias_argument="alibi",
        takes_position_ids=False,
        scales=(1 / math.sqrt(d_head),) * n_layers,
        mlp=("mlp.dense_h_to_4h", "mlp.dense_4h_to_h"),
        d_ff=4 * d_model,
    )
