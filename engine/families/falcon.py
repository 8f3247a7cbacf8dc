"""Falcon (Almazrouei et al., 2023): three layouts of one fused weight, RoPE or ALiBi.

* plain: per head q, k, v, as BLOOM;
* multi-query (7B): the q of all heads, then one k and one v for all;
* new decoder (40B, 180B): per K/V head the q of its group, then its k and v.

Its ALiBi is added before the scores are scaled, so a slope counts 1/√d_head of BLOOM's. The library's eager
attention adds the bias twice, by itself and by way of the mask (transformers 5.0 and 5.24; its fused
attention, and the training, once), which loading puts right.
"""

from __future__ import annotations

import math

from engine.families.base import Anatomy, Config, Part, alibi_slopes, every, head_size, require_division
from engine.families.base import require_fixed_rope as require_rope


def anatomy(config: Config) -> Anatomy:
    d_model, n_heads = config.number("hidden_size", "n_embed"), config.number("num_attention_heads", "n_head")
    n_layers, d_head = config.number("num_hidden_layers", "n_layer"), head_size(d_model, n_heads, 1)
    new, multi = bool(config.get("new_decoder_architecture", False)), bool(config.get("multi_query", True))
    n_kv_heads = config.number("num_kv_heads", "n_head_kv", default=n_heads) if new else 1 if multi else n_heads
    require_division(n_heads, n_kv_heads, n_layers, d_head)
    bias, alibi = bool(config.get("bias", False)), bool(config.get("alibi", False))
    d_ff = config.number("ffn_hidden_size", default=4 * d_model)
    if not alibi:
        require_rope(config)
    vocabulary, tied = config.number("vocab_size"), bool(config.get("tie_word_embeddings", True))
    group, size = n_heads // n_kv_heads, (n_heads + 2 * n_kv_heads) * d_head
    step = (group + 2) * d_head  # a group: its queries, then one key and one value
    queries = tuple(head // group * step + head % group * d_head for head in range(n_heads))
    parallel = new or bool(config.get("parallel_attn", True))
    norms = config.number("num_ln_in_parallel_attn", default=2 if new else 1) if parallel else 2
    layer = size * (d_model + bias) + d_model**2 + d_model * bias + 2 * d_model * d_ff + (d_ff + d_model) * bias
    layer += 2 * d_model * norms
    return Anatomy(
        family="falcon",
        n_layers=n_layers,
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        d_model=d_model,
        d_head=d_head,
        vocabulary=vocabulary,
        total_parameters=vocabulary * d_model * (1 if tied else 2) + n_layers * layer + 2 * d_model,
        blocks="transformer.h",
        attention="self_attention",
        q=Part("query_key_value", queries, size, bias),
        k=Part("query_key_value", every(step, n_kv_heads, group * d_head), size, bias),
        v=Part("query_key_value", every(step, n_kv_heads, (group + 1) * d_head), size, bias),
        o=Part("dense", every(d_head, n_heads), d_model, bias),
        position_encoding="alibi" if alibi else "rope",
        slopes=tuple(slope / math.sqrt(d_head) for slope in alibi_slopes(n_heads)) if alibi else (),
        rotary=0 if alibi else d_head,
        bias_argument="alibi" if alibi else "",
        bias_scaled=alibi,
        bias_in_mask=alibi,
        scales=(1 / math.sqrt(d_head),) * n_layers,
        mlp=("mlp.dense_h_to_4h", "mlp.dense_4h_to_h"),
        d_ff=d_ff,
    )
