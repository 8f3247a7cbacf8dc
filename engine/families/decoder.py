"""The plan that Llama set and many follow: separate Q, K, V and output projections with grouped K and V, RoPE on
whole heads, a gated MLP, RMS norms. The families' own files say where theirs differs.

``q_proj`` holds the query heads one after the other, ``k_proj`` and ``v_proj`` the K/V heads; query heads
[g·i, g·(i+1)) share K/V head i (g = n_heads / n_kv_heads). ``o_proj`` has a column block per query head.
"""

from __future__ import annotations

from collections.abc import Iterable

from engine.families.base import Anatomy, Config, Part, every, layer_windows, require_division, require_fixed_rope


def decoder(
    config: Config,
    family: str,
    *,
    qkv_bias: bool = False,
    o_bias: bool = False,
    mlp_bias: bool = False,
    n_kv_heads: int = 0,
    d_head: int = 0,
    tied: bool = False,
    scale: float = 0.0,
    softcap: float = 0.0,
    qk_norm: bool = False,
    norms: int = 2,
    window: int = 0,
    sliding: Iterable[int] = (),
) -> Anatomy:
    """A model on this plan.

    Args:
        n_kv_heads: where the config names none; 0: as many as heads
        d_head: the same; 0: the width over the heads
        scale: 0: 1/√d_head
        norms: of the width of the model, per layer
        window, sliding: keys that a query sees, and the layers where that holds if the config lists no types
        tied: whether embeddings are tied where the config says nothing
    """
    d_model, n_heads = config.number("hidden_size"), config.number("num_attention_heads")
    n_layers, d_ff = config.number("num_hidden_layers"), config.number("intermediate_size")
    n_kv_heads = config.number("num_key_value_heads", default=n_kv_heads or n_heads)
    d_head = config.number("head_dim", default=d_head or d_model // max(1, n_heads))
    require_division(n_heads, n_kv_heads, n_layers, d_head)
    require_fixed_rope(config)
    if config.get("use_bidirectional_attention"):
        raise ValueError("it attends to the future")
    vocabulary, tied = config.number("vocab_size"), bool(config.get("tie_word_embeddings", tied))
    rows, kv_rows = n_heads * d_head, n_kv_heads * d_head
    layer = 2 * rows * d_model + 2 * kv_rows * d_model + (rows + 2 * kv_rows) * qkv_bias + d_model * o_bias
    layer += 3 * d_model * d_ff + (2 * d_ff + d_model) * mlp_bias + norms * d_model + 2 * d_head * qk_norm
    return Anatomy(
        family=family,
        n_layers=n_layers,
        n_heads=n_heads,
        n_kv_heads=n_kv_heads,
        d_model=d_model,
        d_head=d_head,
        vocabulary=vocabulary,
        total_parameters=vocabulary * d_model * (1 if tied else 2) + n_layers * layer + d_model,
        blocks="model.layers",
        attention="self_attn",
        q=Part("q_proj", every(d_head, n_heads), rows, qkv_bias),
        k=Part("k_proj", every(d_head, n_kv_heads), kv_rows, qkv_bias),
        v=Part("v_proj", every(d_head, n_kv_heads), kv_rows, qkv_bias),
        o=Part("o_proj", every(d_head, n_heads), rows, o_bias),
        position_encoding="rope",
        rotary=d_head,
        scales=(scale or d_head**-0.5,) * n_layers,
        windows=layer_windows(config, n_layers, window, sliding),
        softcap=softcap,
        qk_norm=qk_norm,
        mlp=("mlp.up_proj", "mlp.down_proj"),
        d_ff=d_ff,
        gated=True,
    )
