"""Tiny random models of every family with an adapter, and of every layout that a family has, on the disk."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    FalconConfig,
    Gemma2Config,
    Gemma3TextConfig,
    GemmaConfig,
    GPT2Config,
    GPTNeoXConfig,
    GptOssConfig,
    LlamaConfig,
    MistralConfig,
    MptConfig,
    PreTrainedConfig,
    Qwen2Config,
    Qwen3Config,
)

from engine.nn.load import Patient, load
from engine.nn.slices import Slices
from engine.nn.training import gradients
from tests.engine.nn.patients import tokenizer

WINDOW = 5
WIDE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 260}
GROUPED = {**WIDE, "num_key_value_heads": 2, "intermediate_size": 48}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 10_000.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
CONFIGS: dict[str, Callable[[], PreTrainedConfig]] = {
    "bloom": lambda: BloomConfig(vocab_size=260, hidden_size=32, n_layer=2, n_head=4),
    "mpt": lambda: MptConfig(vocab_size=260, d_model=32, n_layers=2, n_heads=4, max_seq_len=64),
    "mpt, six heads, clipped": lambda: MptConfig(
        vocab_size=260, d_model=36, n_layers=2, n_heads=6, max_seq_len=64, attn_config={"clip_qkv": 0.7}
    ),
    "falcon, alibi": lambda: FalconConfig(**WIDE, alibi=True, multi_query=False, parallel_attn=False, bias=True),
    "falcon, alibi, multi-query": lambda: FalconConfig(**WIDE, alibi=True),
    "falcon, plain": lambda: FalconConfig(**WIDE, multi_query=False, bias=True),
    "falcon, multi-query": lambda: FalconConfig(**WIDE, ffn_hidden_size=48),
    "falcon, new decoder": lambda: FalconConfig(**WIDE, new_decoder_architecture=True, num_kv_heads=2),
    "falcon, new decoder, one norm": lambda: FalconConfig(
        **WIDE, new_decoder_architecture=True, num_kv_heads=2, num_ln_in_parallel_attn=1
    ),
    "gpt_neox": lambda: GPTNeoXConfig(**WIDE, intermediate_size=64),
    "gpt_neox, whole heads turned": lambda: GPTNeoXConfig(
        **WIDE, intermediate_size=64, rotary_pct=1.0, use_parallel_residual=False, attention_bias=False
    ),
    "llama": lambda: LlamaConfig(**GROUPED),
    "llama, not grouped, biases, stretched": lambda: LlamaConfig(
        **WIDE,
        intermediate_size=48,
        attention_bias=True,
        mlp_bias=True,
        tie_word_embeddings=True,
        rope_parameters=LLAMA3,
    ),
    "mistral": lambda: MistralConfig(**GROUPED, sliding_window=None),
    "mistral, window": lambda: MistralConfig(**GROUPED, sliding_window=WINDOW),
    "qwen2": lambda: Qwen2Config(**GROUPED),
    "qwen2, window": lambda: Qwen2Config(
        **GROUPED, use_sliding_window=True, sliding_window=WINDOW, max_window_layers=1
    ),
    "qwen3": lambda: Qwen3Config(**GROUPED, head_dim=12),
    "gemma": lambda: GemmaConfig(**GROUPED, head_dim=12),
    "gemma2": lambda: Gemma2Config(
        **GROUPED, head_dim=12, query_pre_attn_scalar=5, attn_logit_softcapping=1.5, sliding_window=WINDOW
    ),
    "gemma3": lambda: Gemma3TextConfig(
        **GROUPED, head_dim=12, query_pre_attn_scalar=5, sliding_window=WINDOW, layer_types=FULL_LAST
    ),
    "gpt2": lambda: GPT2Config(vocab_size=260, n_embd=32, n_layer=2, n_head=4, n_positions=64),
    "gpt2, deeper is flatter": lambda: GPT2Config(
        vocab_size=260, n_embd=32, n_layer=2, n_head=4, n_positions=64, n_inner=48, scale_attn_by_inverse_layer_idx=True
    ),
    "gpt_oss": lambda: GptOssConfig(
        **GROUPED, head_dim=12, num_local_experts=4, num_experts_per_tok=2, sliding_window=WINDOW
    ),
}
FULL_LAST = ["sliding_attention", "full_attention"]


def make_family(folder: Path, name: str, dtype: torch.dtype = torch.float32) -> Path:
    """Save a random model of two layers, as good as never uniform in its attention, with a tokenizer."""
    torch.manual_seed(0)
    config = CONFIGS[name]()
    config.initializer_range = 0.25
    config.bos_token_id, config.eos_token_id, config.pad_token_id = 1, 2, 3
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():  # biases and norms start at 0 or 1; trained models have others
        for each, parameter in model.named_parameters():
            if parameter.ndim == 1 or "bias" in each:
                parameter.add_(0.2 * torch.randn(parameter.shape))
            if each.endswith("sinks"):
                parameter.normal_(0, 1)
    model.to(dtype).save_pretrained(folder)
    if name.startswith("gpt_neox"):  # as in the checkpoints that there are; transformers 5.0 reads it there alone
        told = json.loads((folder / "config.json").read_text("utf-8"))
        told["rotary_pct"] = told["rope_parameters"]["partial_rotary_factor"]
        (folder / "config.json").write_text(json.dumps(told), "utf-8")
    tokenizer().save_pretrained(folder)
    return folder


IDS = torch.randint(4, 260, (24,), generator=torch.Generator().manual_seed(1))
"""A text of every model here."""


def one(name: str, folder: Path) -> Patient:
    return load(str(make_family(folder / "one", name)), device="cpu")


def own_attention(patient: Patient, ids: Tensor) -> Tensor:
    """What the model itself returns  # (n_layers, n_heads, T, T)"""
    with torch.no_grad():
        found = patient.model(input_ids=ids[None], output_attentions=True, use_cache=False).attentions
    return torch.stack(found)[:, 0]


def train(slices: Slices, steps: int = 3) -> None:
    optimizer = torch.optim.AdamW(slices.masters().values(), lr=1e-3, weight_decay=0.0)
    with slices.training():
        for _ in range(steps):
            optimizer.zero_grad()
            gradients(slices.patient, IDS.view(2, 12), 2)
            optimizer.step()
            slices.write_back()
