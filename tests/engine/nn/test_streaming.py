"""Anchors and a rolling window, held against full attention and against attention written plainly by slot."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import DynamicCache, LlamaConfig

from engine.errors import InputError
from engine.families.base import Part, alibi_slopes
from engine.nn.load import Patient, load, swapped_forward
from engine.nn.streaming import (
    Block,
    StreamingLayer,
    arm,
    cache_argument,
    cache_bytes,
    long_ids,
    recomputed,
    stream,
    streaming_cache,
)
from engine.streaming import Arm, ArmFigures
from tests.engine.nn.families import CONFIGS, GROUPED, IDS, LLAMA3, make_family, one

STREAMS = ["bloom", "mpt", "gemma", "gpt_neox", "llama", "mistral", "qwen2", "qwen3"]
STREAMS += [
    "falcon, alibi",
    "falcon, alibi, multi-query",
    "falcon, plain",
    "falcon, multi-query",
    "falcon, new decoder",
]


def nats(blocks: Iterable[Block]) -> Tensor:
    return torch.tensor([each for block in blocks for each in block.nats])


def plain(patient: Patient) -> Tensor:
    """What each token of the text costs in one run over all of it."""
    with torch.no_grad():
        logits = patient.model(input_ids=IDS[None], use_cache=False).logits[0, :-1]
    return F.cross_entropy(logits, IDS[1:], reduction="none")


def turned(x: Tensor, place: int, rotary: int) -> Tensor:
    """One query or key at a place: RoPE with the base of all tiny models, by complex numbers."""
    half = rotary // 2
    angles = place * 10_000.0 ** (-torch.arange(half, dtype=torch.float64) * 2 / max(1, rotary))
    pairs = torch.complex(x[:half].double(), x[half:rotary].double()) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat((pairs.real, pairs.imag, x[rotary:].double()))


@contextmanager
def attending_by_slot(patient: Patient, anchors: int, slots: int) -> Iterator[None]:
    """While open, each query attends to the anchors and the latest tokens alone, positions by slot: loops over
    queries, heads and keys, and nothing is kept from one token to the next."""
    a = patient.anatomy
    slopes = alibi_slopes(a.n_heads) if a.position_encoding == "alibi" else [0.0] * a.n_heads
    before_scaling = a.scales[0] if a.family == "falcon" else 1.0  # it adds the bias first and scales both

    def heads(part: Part, module: Any, hidden: Tensor) -> Tensor:
        out = module.get_submodule(part.module)(hidden)[0]
        return torch.stack([out[:, start : start + a.d_head] for start in part.starts])  # (heads, T, d_head)

    def forward_of(layer: int) -> Any:
        attention = patient.attention(layer)

        def forward(*args: Any, **kwargs: Any) -> tuple[Tensor, None]:
            hidden = args[0] if args else kwargs["hidden_states"]
            q, k, v = (heads(part, attention, hidden) for part in (a.q, a.k, a.v))
            if a.qk_norm:
                q, k = attention.get_submodule("q_norm")(q), attention.get_submodule("k_norm")(k)
            out = torch.zeros(hidden.shape[1], a.n_heads * a.d_head)
            for t in range(hidden.shape[1]):
                seen = list(range(t + 1))
                seen = seen if len(seen) <= slots else seen[:anchors] + seen[len(seen) - (slots - anchors) :]
                for h in range(a.n_heads):
                    query = turned(q[h, t], len(seen) - 1, a.rotary)
                    scores = []
                    for slot, key in enumerate(seen):
                        score = query @ turned(k[h // a.group, key], slot, a.rotary) * a.scales[layer]
                        scores.append(score - before_scaling * slopes[h] * (len(seen) - 1 - slot))
                    weights = torch.stack(scores).softmax(0).float()
                    out[t, h * a.d_head : (h + 1) * a.d_head] = weights @ v[h // a.group, seen]
            made = attention.get_submodule(a.o.module)(out[None])
            return made + (args[1] if a.family == "bloom" else 0), None

        return forward

    with ExitStack() as stack:
        for layer in range(a.n_layers):
            stack.enter_context(swapped_forward(patient.attention(layer), forward_of(layer)))
        yield


@pytest.mark.parametrize("name", STREAMS)
def test_full_attention_while_the_text_fits_and_attention_by_slot_after_that(name: str, tmp_path: Path) -> None:
    patient = one(name, tmp_path)
    ours = plain(patient)
    for anchors in (0, 3):  # each of the 23 tokens that are read has a slot
        fits = nats(stream(patient, IDS, streaming_cache(patient, anchors, 23), block=10))
        torch.testing.assert_close(fits, ours, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(nats(stream(patient, IDS, DynamicCache())), ours, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(nats(recomputed(patient, IDS, 23, first=19)), ours[19:], atol=1e-5, rtol=1e-5)
    anchors, slots = 2, 7
    rolled = nats(stream(patient, IDS, streaming_cache(patient, anchors, slots)))
    with attending_by_slot(patient, anchors, slots):
        expected = plain(patient)
    torch.testing.assert_close(rolled, expected, atol=2e-5, rtol=2e-5)
    assert (rolled[slots:] - ours[slots:]).abs().max() > 1e-2  # what fell out was seen before


@pytest.mark.parametrize("kind", ["yarn", "llama3", "linear"])
def test_one_layer_by_slot_is_the_window_run_anew_however_its_keys_are_stretched(kind: str, tmp_path: Path) -> None:
    """In one layer a key says nothing of the tokens before it, so nothing tells a cached window from a short text."""
    rope = {**LLAMA3, "rope_type": kind, "beta_fast": 32.0, "beta_slow": 1.0}
    CONFIGS[kind] = lambda: LlamaConfig(**{**GROUPED, "num_hidden_layers": 1}, rope_parameters=rope)
    try:
        patient = one(kind, tmp_path)
    finally:
        del CONFIGS[kind]
    rolled = nats(stream(patient, IDS, streaming_cache(patient, 0, 6)))
    torch.testing.assert_close(rolled, nats(recomputed(patient, IDS, 6)), atol=1e-5, rtol=1e-5)
    anchored = nats(stream(patient, IDS, streaming_cache(patient, 2, 6)))
    with torch.no_grad():
        seen = torch.cat((IDS[:2], IDS[19:23]))
        last = patient.model(input_ids=seen[None], use_cache=False).logits[0, -1]
    assert anchored[-1].item() == pytest.approx(F.cross_entropy(last, IDS[23]).item(), abs=1e-5)
    assert (rolled[6:] - anchored[6:]).abs().max() > 1e-2


@pytest.mark.parametrize("name", ["bloom", "llama", "gpt_neox"])
def test_in_bf16_a_text_that_fits_is_read_bit_for_bit_as_with_full_attention(name: str, tmp_path: Path) -> None:
    patient = load(str(make_family(tmp_path / "m", name, torch.bfloat16)), "cpu")
    assert patient.dtype == "bfloat16"
    fits = nats(stream(patient, IDS, streaming_cache(patient, 2, 23)))
    assert torch.equal(fits, nats(stream(patient, IDS, DynamicCache())))


def test_keys_in_bf16_are_rounded_once_more_and_not_with_every_token() -> None:
    """Keys of ones, each turned for the slot that it comes to; where it stands later it is as if turned for that."""
    half, slots, anchors = 4, 8, 2
    angles = torch.arange(slots)[:, None] * 10_000.0 ** (-torch.arange(half) / half)  # (slots, half)
    layer = StreamingLayer(anchors, slots, (angles.cos(), angles.sin()))
    for token in range(100):
        came = turned(torch.ones(2 * half), min(token, slots - 1), 2 * half)
        keys, _ = layer.update(came.bfloat16()[None, None, None], torch.ones(1, 1, 1, 2 * half))
        expected = torch.stack([turned(torch.ones(2 * half), slot, 2 * half) for slot in range(keys.shape[2])])
        torch.testing.assert_close(keys[0, 0].double(), expected, atol=2**-7, rtol=0)


def test_two_texts_at_once_are_read_as_each_alone(tmp_path: Path) -> None:
    patient = one("llama", tmp_path)
    both, cache, rows = torch.stack((IDS, IDS.flip(0))), streaming_cache(patient, 2, 7), []
    with torch.no_grad():
        for place in range(23):
            rows.append(patient.model(both[:, place : place + 1], **{cache_argument(patient): cache}).logits[:, -1])
    together = torch.stack(rows, 1)  # (2, 23, vocabulary)
    for logits, ids in zip(together, both, strict=True):
        alone = nats(stream(patient, ids, streaming_cache(patient, 2, 7)))
        torch.testing.assert_close(F.cross_entropy(logits, ids[1:], reduction="none"), alone, atol=1e-5, rtol=1e-5)


def test_a_window_without_anchors(tmp_path: Path) -> None:
    patient = one("bloom", tmp_path)
    with attending_by_slot(patient, 0, 6):
        expected = plain(patient)
    rolled = nats(stream(patient, IDS, streaming_cache(patient, 0, 6)))
    torch.testing.assert_close(rolled, expected, atol=2e-5, rtol=2e-5)


def test_the_memory_is_taken_once(tmp_path: Path) -> None:
    patient = one("llama", tmp_path)
    cache = streaming_cache(patient, 2, 8)
    text = IDS.repeat(4)
    sizes, places = set(), set()
    for _ in stream(patient, text, cache, block=5):
        sizes.add(cache_bytes(cache))
        places.add(cache.layers[0].keys.data_ptr())
    assert sizes == {2 * 2 * 2 * 8 * 8 * 4}  # K and V, 2 layers, 2 K/V heads, 8 slots of 8 values in fp32
    assert len(places) == 1
    cache.reset()
    again = nats(stream(patient, text, cache))
    torch.testing.assert_close(again, nats(stream(patient, text, streaming_cache(patient, 2, 8))))


def test_anchors_are_those_of_the_first_tokens(tmp_path: Path) -> None:
    patient = one("bloom", tmp_path)
    short, long = (streaming_cache(patient, 2, 8) for _ in range(2))
    list(stream(patient, IDS[:9], short))
    list(stream(patient, IDS, long))
    for early, late in ((short.layers[1].keys, long.layers[1].keys), (short.layers[1].values, long.layers[1].values)):
        assert torch.equal(late[:, :, :2], early[:, :, :2])
        assert not torch.equal(late[:, :, 2:], early[:, :, 2:])


def test_several_tokens_at_once_where_they_fit_and_not_beyond(tmp_path: Path) -> None:
    layer = streaming_cache(one("llama", tmp_path), 1, 8).layers[0]
    layer.update(torch.ones(1, 2, 6, 8), torch.ones(1, 2, 6, 8))
    assert layer.get_seq_length() == 6
    assert layer.get_mask_sizes(2) == layer.get_mask_sizes(torch.arange(2)) == (8, 0)
    with pytest.raises(ValueError, match="3 tokens at once do not fit into 2 free slots"):
        layer.update(torch.ones(1, 2, 3, 8), torch.ones(1, 2, 3, 8))


def test_a_window_run_anew_is_a_short_text_of_its_own(tmp_path: Path) -> None:
    patient = one("bloom", tmp_path)
    found = nats(recomputed(patient, IDS, 6, block=5))
    assert len(found) == 23
    torch.testing.assert_close(found[:6], plain(patient)[:6], atol=1e-5, rtol=1e-5)
    with torch.no_grad():
        last = patient.model(input_ids=IDS[None, 17:23]).logits[0, -1].softmax(-1)
    assert found[-1].item() == pytest.approx(-math.log(last[IDS[23]]), abs=1e-4)
    assert torch.equal(nats(recomputed(patient, IDS, 6, first=6, block=5)), found[6:])


def test_the_arms_are_compared_past_the_window_alone(tmp_path: Path) -> None:
    patient = one("bloom", tmp_path)
    whole = {
        Arm("full"): stream(patient, IDS, DynamicCache()),
        Arm("anchors", 0): stream(patient, IDS, streaming_cache(patient, 0, 6)),
        Arm("anchors", 2): stream(patient, IDS, streaming_cache(patient, 2, 6)),
        Arm("recomputed"): recomputed(patient, IDS, 6),
    }
    a_token = 2 * 2 * 32 * 4  # K and V, 2 layers, 32 values in fp32
    memory = {"full": 23 * a_token, "anchors": 6 * a_token, "recomputed": 0}
    for how, blocks in whole.items():
        *done, figures = arm(patient, IDS, 6, how)
        assert isinstance(figures, ArmFigures)
        assert done[-1] == 17
        assert figures.perplexity == pytest.approx(nats(blocks)[6:].double().mean().exp().item(), rel=1e-4)
        assert figures.cache_bytes == memory[how.kind]


def test_a_text_is_read_to_the_number_of_tokens(tmp_path: Path) -> None:
    patient = one("bloom", tmp_path)
    pieces = iter(["ab", "cd", "never read"])
    assert patient.tokenizer.decode(long_ids(patient, pieces, 4)) == "<s>abc"
    assert next(pieces) == "never read"
    assert len(long_ids(patient, ["a" * 100], 200)) == 101  # longer than the context of 64


@pytest.mark.parametrize(
    ("name", "why"),
    [("gpt2", "positions cannot be given by slot"), ("mistral, window", "has layers with a window of their own")],
)
def test_what_cannot_stream_says_so(name: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=why):
        streaming_cache(one(name, tmp_path), 1, 8)


@pytest.mark.parametrize(("anchors", "slots"), [(8, 8), (-1, 8), (1, 65)])
def test_numbers_that_make_no_cache(anchors: int, slots: int, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="makes no cache"):
        streaming_cache(one("bloom", tmp_path), anchors, slots)
