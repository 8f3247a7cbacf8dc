"""Reading on and on in constant memory: the first tokens as anchors, and a rolling window of the latest.

A plain window fails as soon as the first tokens, on which many heads rest their weight, fall out of it; a
few of them kept as anchors carry it (Xiao et al., 2023, StreamingLLM). Positions are given by slot in the
cache, not by place in the text, so that none is ever further than the model was trained for: keys under
RoPE are turned anew, from the slot that they came to towards the one that they have moved to, and ALiBi
counts the distance in slots.
"""

from __future__ import annotations

import inspect
import math
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import Cache, DynamicCache
from transformers.cache_utils import CacheLayerMixin

from engine.errors import InputError
from engine.nn.load import Patient
from engine.nn.tokens import start_ids
from engine.nn.vitals import perplexity
from engine.nn.watching import turn
from engine.streaming import Arm, ArmFigures, why_not

BLOCK = 64
"""Tokens between two results."""


class StreamingLayer(CacheLayerMixin):
    """Keys and values of one layer: ``anchors`` first tokens and the latest ones, ``slots`` in all, in the order
    of the text. The memory is taken once and never grows.

    Args:
        turning: cosines and sines per number of slots where keys are turned (RoPE)  # (slots, rotary / 2) each
    """

    is_sliding = False

    def __init__(self, anchors: int, slots: int, turning: tuple[Tensor, Tensor] | None = None) -> None:
        super().__init__()
        self.anchors, self.slots, self.turning = anchors, slots, turning
        self.held = 0
        self.gone = 0
        """Tokens that have made room for others."""
        self.back: tuple[Tensor, Tensor] | None = None
        """Cosines and sines by which each slot's key is turned back  # (slots, rotary / 2) each"""

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        self.device, self.dtype = key_states.device, key_states.dtype
        self.keys, self.values = (
            states.new_zeros(*states.shape[:2], self.slots, states.shape[-1]) for states in (key_states, value_states)
        )  # (B, n_kv_heads, slots, d_head) each
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Take in new tokens and give out all that are held; where no slot is free, the oldest token that is
        no anchor goes.

        Args:
            key_states: turned for the slots that they come to  # (B, n_kv_heads, T, d_head)
            value_states:  # (B, n_kv_heads, T, d_head)

        Raises:
            ValueError: several tokens at once, and not a free slot for each: the first would see what is gone.
        """
        new = key_states.shape[-2]
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        if self.held + new > self.slots:
            if new > 1:
                raise ValueError(f"{new} tokens at once do not fit into {self.slots - self.held} free slots")
            for kept in (self.keys, self.values):
                kept[:, :, self.anchors : -1] = kept[:, :, self.anchors + 1 :].clone()
            self.held -= 1
            self._move()
        start, self.held = self.held, self.held + new
        self.keys[:, :, start : self.held] = key_states
        self.values[:, :, start : self.held] = value_states
        keys = self.keys[:, :, : self.held]  # (B, n_kv_heads, held, d_head)
        if self.back is not None:
            keys = turn(keys.float(), *self.back).to(self.dtype)
        return keys, self.values[:, :, : self.held]

    def _move(self) -> None:
        """All but the anchors have moved one slot towards them. Keys stay as they came, turned for the slot that they
        came to, and are turned back as far as they have moved each time that they are given out: so nothing adds up,
        and until something moves they are those of full attention, bit for bit."""
        self.gone += 1
        if self.turning is None or self.gone > self.slots - 1 - self.anchors:
            return  # whatever came before the first one went is gone: each slot has its turn for good
        moved = torch.arange(self.slots - 1, -1, -1, device=self.device).clamp(max=self.gone)  # (slots,)
        moved[: self.anchors] = 0
        cos, sin = self.turning
        self.back = cos[moved], -sin[moved]

    def get_seq_length(self, *args: Any) -> int:
        """The slot that the next token comes to: so many tokens will be before it, and that is its position."""
        return min(self.held, self.slots - 1)

    def get_mask_sizes(self, query_length: int | Tensor) -> tuple[int, int]:
        """Keys that the next so many queries meet, and the first of them; older versions of the library name
        the queries' positions instead of their number."""
        new = query_length.shape[0] if isinstance(query_length, Tensor) else query_length
        return self.get_seq_length() + new, 0

    def get_max_length(self) -> int:
        return self.slots

    def get_max_cache_shape(self) -> int:
        """``get_max_length`` of older versions of the library."""
        return self.slots

    def reset(self) -> None:
        super().reset()
        self.held, self.gone, self.back = 0, 0, None


def streaming_cache(patient: Patient, anchors: int, slots: int) -> Cache:
    """A cache of ``slots`` tokens, the first ``anchors`` of the text among them, for all layers.

    Raises:
        InputError: the family's positions cannot go by slot, or the numbers make no cache.
    """
    check_streams(patient)
    if not 0 <= anchors < slots <= patient.context:
        raise InputError(
            f"a window of {slots} tokens with {anchors} anchors among them makes no cache; the anchors are fewer than "
            f"the window, and the window is no longer than the patient's context of {patient.context}"
        )
    tables = _turning(patient, slots)
    return Cache(layers=[StreamingLayer(anchors, slots, tables) for _ in range(patient.anatomy.n_layers)])


def check_streams(patient: Patient) -> None:
    """Raises InputError: the positions of this patient's family cannot be given by slot."""
    a = patient.anatomy
    why = why_not(a.family, list(a.windows))
    if why:
        raise InputError(f"{patient.source} {why}")


def _turning(patient: Patient, slots: int) -> tuple[Tensor, Tensor] | None:
    """The model's own cosines and sines of so many slots, in fp32; where it stretches what it turns (yarn), without
    that: a key that is turned on is stretched already  # (slots, rotary / 2) each"""
    half = patient.anatomy.rotary // 2
    if not half:
        return None
    places = torch.arange(slots, device=patient.device)[None]  # (1, slots)
    tables = patient.model.base_model.get_submodule("rotary_emb")(places.float(), position_ids=places)
    cos, sin = (table[0, :, :half].float() for table in tables)  # (slots, rotary / 2) each
    stretched = torch.hypot(cos, sin)  # (slots, rotary / 2)
    return cos / stretched, sin / stretched


def cache_bytes(cache: Cache) -> int:
    """What the keys and values take in memory."""
    kept = [(layer.keys, layer.values) for layer in cache.layers if isinstance(layer, CacheLayerMixin)]
    return sum(keys.nbytes + values.nbytes for keys, values in kept if keys is not None and values is not None)


# --- reading a text --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Block:
    """Some tokens of a text that were read one after the other."""

    nats: list[float]
    """What predicting the token after each cost."""
    seconds: float
    """In the model, for all of them together."""


def long_ids(patient: Patient, pieces: Iterable[str], tokens: int) -> Tensor:
    """The beginning of a text of any length, however short the context  # (at most ``tokens``,)"""
    ids = list(start_ids(patient.tokenizer))
    for piece in pieces:
        ids += patient.tokenizer(piece, add_special_tokens=False, verbose=False)["input_ids"]
        if len(ids) >= tokens:
            break
    return torch.tensor(ids[:tokens], device=patient.device)


def stream(patient: Patient, ids: Tensor, cache: Cache, block: int = BLOCK) -> Iterator[Block]:
    """Read a text token by token through a cache: a ``streaming_cache``, or ``DynamicCache()`` for full attention.

    Args:
        ids: token ids; all but the last are read, all but the first predicted  # (T,)
        block: tokens between two results
    """
    name = cache_argument(patient)
    for start in range(0, len(ids) - 1, block):
        part = ids[start : min(start + block, len(ids) - 1)]  # (tokens of the block,)
        rows = []
        began = time.perf_counter()
        with torch.no_grad():
            for token in part.split(1):
                given: dict[str, Any] = {name: cache, "use_cache": True}
                rows.append(patient.model(input_ids=token[None], **given).logits[:, -1])  # (1, vocabulary)
            _finish(patient)
        seconds = time.perf_counter() - began
        yield Block(_nats(torch.cat(rows), ids[start + 1 : start + 1 + len(part)]), seconds)


def cache_argument(patient: Patient) -> str:
    """What the model calls the cache that it is given; the library has changed the name."""
    return "cache" if "cache" in inspect.signature(patient.model.forward).parameters else "past_key_values"


def recomputed(patient: Patient, ids: Tensor, window: int, first: int = 0, block: int = BLOCK) -> Iterator[Block]:
    """Read a text with the latest ``window`` tokens alone, run anew for every token, positions from 0: what the
    cache is held against. Starts with the token at ``first``.

    Args:
        ids: as for ``stream``  # (T,)
    """
    for start in range(first, len(ids) - 1, block):
        stop = min(start + block, len(ids) - 1)
        rows = []
        began = time.perf_counter()
        with torch.no_grad():
            for place in range(start, stop):
                seen = ids[max(0, place + 1 - window) : place + 1]  # (at most window,)
                logits = patient.model(input_ids=seen[None], use_cache=False, logits_to_keep=1).logits
                rows.append(logits[:, -1])  # (1, vocabulary)
            _finish(patient)
        seconds = time.perf_counter() - began
        yield Block(_nats(torch.cat(rows), ids[start + 1 : stop + 1]), seconds)


def _nats(logits: Tensor, following: Tensor) -> list[float]:
    """(T, vocabulary), (T,) -> T figures"""
    return [float(nats) for nats in F.cross_entropy(logits.float(), following, reduction="none").tolist()]


def _finish(patient: Patient) -> None:
    """A GPU is still at work when Python has gone on; times are of finished work."""
    if patient.device.type == "cuda":
        torch.cuda.synchronize(patient.device)


# --- arms ------------------------------------------------------------------------------------------


def past_window(patient: Patient, ids: Tensor, cache: Cache, window: int, block: int = BLOCK) -> Iterator[Block]:
    """What comes after the first ``window`` tokens have been read through a cache: only there it shows what it keeps.

    Args:
        ids: as for ``stream``  # (T,)
    """
    for _ in stream(patient, ids[: window + 1], cache, block):
        pass
    yield from stream(patient, ids[window:], cache, block)


def arm(patient: Patient, ids: Tensor, window: int, how: Arm, block: int = BLOCK) -> Iterator[int | ArmFigures]:
    """One way of reading a text past its first ``window`` tokens. Yields the tokens done, then the figures.

    ``*_, figures = arm(load("demo"), ids, 64, Arm("anchors", 4))``

    Args:
        ids: as for ``stream``; the patient's placeholder, if it has one, is put before them and is no part of what
            is predicted  # (T,)
        block: tokens between two results
    """
    nats: list[float] = []
    seconds, cache = 0.0, None
    ids = torch.cat((ids.new_tensor(patient.before), ids))  # (T or T + 1,)
    skipped = window + len(patient.before)
    match how.kind:
        case "recomputed":
            blocks = recomputed(patient, ids, window, skipped, block)
        case "full":
            cache = DynamicCache()
            blocks = past_window(patient, ids, cache, skipped, block)
        case _:
            cache = streaming_cache(patient, how.anchors, window)
            blocks = past_window(patient, ids, cache, skipped, block)
    for some in blocks:
        nats += some.nats
        seconds += some.seconds
        yield len(nats)
    loss = math.fsum(nats) / len(nats)
    yield ArmFigures(perplexity(loss), round(len(nats) / seconds, 3), cache_bytes(cache) if cache else 0)
