"""MPT (MosaicML, 2023): Q, K and V of all heads one after the other in ``Wqkv``, no biases, ALiBi.

Its slopes are BLOOM's where the heads are a power of two; otherwise it takes those of the power above,
every second one first.
"""

from __future__ import annotations

import math

from engine.families.base import Anatomy, Config, Part, every, head_size


def anatomy(config: Config) -> Anatomy:
    d_model, n_heads = config.number("d_model", "hidden_size"), config.number("n_heads", "num_attention_heads")
    n_layers = config.number("n_layers", "num_hidden_layers")
    d_head, told = head_size(d_model, n_heads, n_layers), config.get("attn_config") or {}
    if not told.get("alibi", True):  # the library's model knows no other positions
        raise ValueError("it has learned positions, and the library's MPT has ALiBi only")
    if told.get("qk_ln") or told.get("prefix_lm") or told.get("attn_type", "") == "multiquery_attention":
        raise ValueError("the library's MPT has no qk_ln, no prefix_lm and no multiquery_attention")
    vocabulary = config.number("vocab_size")
    tied = bool(config.get("tie_word_embeddings", True))
    q, k, v = (Part("Wqkv", every(d_head, n_heads, index * d_model), 3 * d_model, bias=False) for index in range(3))
    # a layer: q k v 3d², out d², MLP 8d² whatever expansion_ratio says, two norms without bias 2d
    layer = 12 * d_model**2 + 2 * d_model
    return Anatomy(
        family="mpt",
        n_layers=n_layers,
        n_heads=n_heads,
        n_kv_heads=n_heads,
        d_model=d_model,
        d_head=d_head,
        vocabulary=vocabulary,
        total_parameters=vocabulary * d_model * (1 if tied else 2) + n_layers * layer + d_model,
        blocks="transformer.blocks",
        attention="attn",
        q=q,
        k=k,
        v=v,
        o=Part("out_proj", every(d_head, n_heads), d_model, bias=False),
        position_encoding="alibi",
        slopes=tuple(slopes(n_heads, float(told.get("alibi_bias_max") or 8))),
        bias_argument="position_bias",
        takes_position_ids=False,
        scales=(float(told.get("softmax_scale") or 1 / math.sqrt(d_head)),) * n_layers,
        clip=float(told.get("clip_qkv") or 0),
        mlp=("ffn.up_proj", "ffn.down_proj"),
        d_ff=4 * d_model,
    )


def slopes(n_heads: int, largest: float = 8.0) -> list[float]:
    """ALiBi slopes as MPT orders them."""
    power = 2 ** math.ceil(math.log2(n_heads))
    every_one = [2 ** (-largest * (h + 1) / power) for h in range(power)]
    return every_one if power == n_heads else (every_one[1::2] + every_one[::2])[:n_heads]
