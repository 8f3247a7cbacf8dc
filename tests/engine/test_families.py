"""Adapters on the configs of published models, by the numbers that are known of these."""

from __future__ import annotations

from typing import Any

import pytest

from engine.anatomy import anatomy_of
from engine.heads import Head


def decoder(width: int, d_ff: int, layers: int, heads: int, kv: int, vocabulary: int, **more: Any) -> dict[str, Any]:
    shape = {"hidden_size": width, "intermediate_size": d_ff, "num_hidden_layers": layers, "vocab_size": vocabulary}
    return {**shape, "num_attention_heads": heads, "num_key_value_heads": kv, **more}


GPT2 = {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "vocab_size": 50257}
PYTHIA_160M = decoder(768, 3072, 12, 12, 12, 50304, model_type="gpt_neox", rotary_pct=0.25)
MPT_7B = {"model_type": "mpt", "d_model": 4096, "n_heads": 32, "n_layers": 32, "vocab_size": 50432}
FALCON_7B = decoder(4544, 4 * 4544, 32, 71, 71, 65024, model_type="falcon", multi_query=True, parallel_attn=True)
LLAMA_2_7B = decoder(4096, 11008, 32, 32, 32, 32000, model_type="llama")
SMOLLM2_135M = decoder(576, 1536, 30, 9, 3, 49152, model_type="llama", tie_word_embeddings=True)
MISTRAL_7B = decoder(4096, 14336, 32, 32, 8, 32000, model_type="mistral", sliding_window=4096)
QWEN_25_05B = decoder(896, 4864, 24, 14, 2, 151936, model_type="qwen2", tie_word_embeddings=True)
QWEN_3_06B = decoder(1024, 3072, 28, 16, 8, 151936, model_type="qwen3", head_dim=128, tie_word_embeddings=True)
GEMMA_2B = decoder(2048, 16384, 18, 8, 1, 256000, model_type="gemma", head_dim=256)
GEMMA_2_2B = decoder(2304, 9216, 26, 8, 4, 256000, model_type="gemma2", head_dim=256)
GEMMA_3_270M = decoder(640, 2048, 18, 4, 1, 262144, model_type="gemma3_text", head_dim=256, sliding_window=512)
GPT_OSS_20B = decoder(
    2880, 2880, 24, 64, 8, 201088, model_type="gpt_oss", head_dim=64, num_local_experts=32, num_experts_per_tok=4
)


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (GPT2, 124_439_808),
        (PYTHIA_160M, 162_322_944),
        (MPT_7B, 6_649_286_656),
        (FALCON_7B, 6_921_720_704),
        (LLAMA_2_7B, 6_738_415_616),
        (SMOLLM2_135M, 134_515_008),
        (MISTRAL_7B, 7_241_732_096),
        (QWEN_25_05B, 494_032_768),
        (QWEN_3_06B, 596_049_920),
        (GEMMA_2B, 2_506_172_416),
        (GEMMA_2_2B, 2_614_341_888),
        (GEMMA_3_270M, 268_098_176),
        (GPT_OSS_20B, 20_914_757_184),
    ],
    ids=lambda value: value["model_type"] if isinstance(value, dict) else "",
)
def test_published_models_have_their_published_size(config, parameters):
    assert anatomy_of(config, "x").total_parameters == parameters


def test_windows_are_on_the_layers_that_have_them():
    assert anatomy_of(GPT_OSS_20B, "x").windows == (128, 0) * 12
    assert anatomy_of(MISTRAL_7B, "x").windows == (4096,) * 32
    assert anatomy_of({**MISTRAL_7B, "sliding_window": None}, "x").windows == ()
    assert anatomy_of(GEMMA_2_2B, "x").windows == (4096, 0) * 13
    assert anatomy_of(GEMMA_3_270M, "x").windows == (512, 512, 512, 512, 512, 0) * 3
    assert anatomy_of(QWEN_25_05B, "x").windows == ()
    turned_on = {**QWEN_25_05B, "use_sliding_window": True, "sliding_window": 32, "max_window_layers": 21}
    assert anatomy_of(turned_on, "x").windows == (0,) * 21 + (32,) * 3


def rows_of(config: dict[str, Any], head: Head) -> dict[str, tuple[str, int, int, int]]:
    weights = [piece for piece in anatomy_of(config, "x").slices(head) if piece.tensor.endswith("weight")]
    return {p.part: (p.tensor.split(".", 3)[-1], p.dim, p.start, p.stop) for p in weights}


def test_where_head_4_lies_in_each_layout():
    """Written down from the papers and model cards: d = 64 wherever it is small enough to count along."""
    assert rows_of(GPT2, Head(0, 4)) == {  # q, k and v are columns of (768, 2304), outputs rows of (768, 768)
        "q": ("attn.c_attn.weight", 1, 256, 320),
        "k": ("attn.c_attn.weight", 1, 768 + 256, 768 + 320),
        "v": ("attn.c_attn.weight", 1, 1536 + 256, 1536 + 320),
        "o": ("attn.c_proj.weight", 0, 256, 320),
    }
    assert rows_of(PYTHIA_160M, Head(0, 4)) == {
        "q": ("attention.query_key_value.weight", 0, 768, 832),
        "k": ("attention.query_key_value.weight", 0, 832, 896),
        "v": ("attention.query_key_value.weight", 0, 896, 960),
        "o": ("attention.dense.weight", 1, 256, 320),
    }
    assert rows_of(FALCON_7B, Head(0, 4)) == {  # 71 queries of 64, then the key and the value of all
        "q": ("self_attention.query_key_value.weight", 0, 256, 320),
        "k": ("self_attention.query_key_value.weight", 0, 4544, 4608),
        "v": ("self_attention.query_key_value.weight", 0, 4608, 4672),
        "o": ("self_attention.dense.weight", 1, 256, 320),
    }
    grouped = {**FALCON_7B, "hidden_size": 512, "num_attention_heads": 8, "num_kv_heads": 2}
    assert rows_of({**grouped, "new_decoder_architecture": True}, Head(0, 4)) == {  # first of the second group of 4
        "q": ("self_attention.query_key_value.weight", 0, 384, 448),
        "k": ("self_attention.query_key_value.weight", 0, 384 + 256, 384 + 320),
        "v": ("self_attention.query_key_value.weight", 0, 384 + 320, 384 + 384),
        "o": ("self_attention.dense.weight", 1, 256, 320),
    }
    assert rows_of(SMOLLM2_135M, Head(0, 4)) == {  # three query heads to a key
        "q": ("self_attn.q_proj.weight", 0, 256, 320),
        "k": ("self_attn.k_proj.weight", 0, 64, 128),
        "v": ("self_attn.v_proj.weight", 0, 64, 128),
        "o": ("self_attn.o_proj.weight", 1, 256, 320),
    }


def test_falcons_slopes_count_as_they_reach_the_softmax():
    config = {**FALCON_7B, "hidden_size": 2048, "num_attention_heads": 32, "alibi": True, "multi_query": False}
    assert anatomy_of(config, "x").slopes[0] == pytest.approx(2**-0.25 / 8)  # 2^(-8/32), over √64
    assert anatomy_of(config, "x").position_encoding == "alibi"
    assert anatomy_of(FALCON_7B, "x").slopes == ()


def test_mpts_slopes_of_six_heads_begin_with_every_second_of_eight():
    config = {**MPT_7B, "d_model": 96, "n_heads": 6}
    assert anatomy_of(config, "x").slopes == tuple(2.0**-power for power in (2, 4, 6, 8, 1, 3))
