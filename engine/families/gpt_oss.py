"""gpt-oss (OpenAI, 2025): as Llama, with biases, a window on every other layer, experts for an MLP, and a learned
sink logit per head, which takes part in the softmax and carries no value.

What becomes of the logit in surgery: it stays as it is unless ``parts`` has an ``s`` (``qkvs``); then it becomes 0,
the score of a key that says nothing, at the cut, and trains with the rest.
"""

from __future__ import annotations

from dataclasses import replace

from engine.families.base import Anatomy, Config
from engine.families.decoder import decoder


def anatomy(config: Config) -> Anatomy:
    bias, n_layers = bool(config.get("attention_bias", True)), config.number("num_hidden_layers")
    window = int(config.get("sliding_window", 128) or 0)
    found = decoder(
        config, "gpt_oss", qkv_bias=bias, o_bias=bias, d_head=64, window=window, sliding=range(0, n_layers, 2)
    )
    experts, chosen = config.number("num_local_experts", "num_experts"), config.number("num_experts_per_tok")
    d, f = found.d_model, found.d_ff
    # an expert: gate and up 2df + 2f, down df + d; the router d + 1 per expert; instead of one MLP of 3df
    mlp = experts * (3 * d * f + 2 * f + d + d + 1) - 3 * d * f
    parameters = found.total_parameters + n_layers * (mlp + found.n_heads)
    return replace(found, total_parameters=parameters, sinks="sinks", mlp=("", ""), d_ff=chosen * f)
