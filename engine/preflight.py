"""What a pass would take, told before anything is touched, from the shape alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from engine.anatomy import Anatomy
from engine.heads import Head
from engine.plan import Plan
from engine.targets import Model, zone_of, zones

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}
LIBRARIES = 440_000_000
"""Resident memory of the process before any model is loaded, and what it keeps of small things."""
WORKING = 8
"""Values per token and unit of width that come and go in a layer."""
SCATTERED = 127
SCATTERED_BYTES = 400_000_000
"""The same, and at most so many bytes, that the allocator keeps between others: it gives large pieces back at once.
Both measured (``benchmarks/memory.py``); the other counts follow from what the model computes."""
TOLERANCE = 1.2
"""The estimate is held to be right within a factor of this (``benchmarks/memory.py``)."""
TOKENS_AT_ONCE = 4096
LOGITS_AT_ONCE = 2**27
"""At most so many tokens and so many logits are evaluated at once. Half a gigabyte of logits in fp32; with
BLOOM's 250 880 words that is one sample of 512 tokens."""


WATCHED = 32
"""Samples of each other text whose perplexity is told."""
LONGEST_TEXT = 2048
"""Tokens of the longest built-in text, in whatever context."""


@dataclass(frozen=True)
class Preflight:
    """Counts and estimates of one pass; bytes for memory (peak) and disk (session folder)."""

    targets: int
    trained_parameters: int
    touched_tensor_parameters: int
    total_parameters: int
    zone_layers: tuple[int, int]
    zone_heads: tuple[int, int]
    in_band_frozen: int
    outside: int
    memory_bytes: int
    disk_bytes: int
    sink_logits: str = ""
    """What becomes of the targets' sink logits; empty where the model has none."""


def preflight(anatomy: Anatomy, targets: list[Head], plan: Plan, dtype: str, context: int = 2048) -> Preflight:
    """Counts and estimates for operating on ``targets``.

    Args:
        context: tokens of the longest text that the heads are measured on
    """
    layers, heads = zone_of(targets)
    _, frozen, outside = zones(targets, Model(anatomy.n_layers, anatomy.n_heads))
    changed = anatomy.trained_parameters(targets, plan.touched)
    return Preflight(
        targets=len(targets),
        trained_parameters=changed if plan.trains else 0,
        touched_tensor_parameters=anatomy.touched_tensor_parameters(targets, plan.touched),
        total_parameters=anatomy.total_parameters,
        zone_layers=layers,
        zone_heads=heads,
        in_band_frozen=len(frozen),
        outside=len(outside),
        memory_bytes=memory_bytes(anatomy, targets, plan, dtype, context),
        disk_bytes=disk_bytes(changed, dtype),
        sink_logits=sink_logits(anatomy, plan),
    )


def sink_logits(anatomy: Anatomy, plan: Plan) -> str:
    """What a pass does with the sink logits of its targets, in words; empty where the model has none."""
    if plan.treatment == "sink_logit":
        return "train from where they are" if anatomy.sinks else "are new, begin where they take half, and train"
    if not anatomy.sinks:
        return ""
    if "s" not in plan.touched:
        return "stay as they are"
    return "become 0 at the cut, then train" if plan.reinit else "train from where they are"


def memory_bytes(anatomy: Anatomy, targets: list[Head], plan: Plan, dtype: str, context: int = 2048) -> int:
    """Peak of a pass: what always stands, and the largest of training, evaluating and diagnosing."""
    size = BYTES.get(dtype, 4)
    trained = anatomy.trained_parameters(targets, plan.touched)
    stands = LIBRARIES + anatomy.total_parameters * size + trained * state_size(size)
    moments = (
        _training(anatomy, lowest_layer(plan, targets), plan, size) if plan.trains else 0,
        _evaluating(anatomy, plan, size),
        _diagnosing(anatomy, context, size),
    )
    return stands + max(moments)


def lowest_layer(plan: Plan, targets: list[Head]) -> int:
    """The first layer that gradients have to come down to."""
    return 0 if plan.treatment == "placeholder" else min(head.layer for head in targets)


def state_size(size: int) -> int:
    """Bytes per trained parameter: fp32 master, gradient and two moments; the originals, the best so
    far and a copy while it is written, in the model's dtype."""
    return 4 * 4 + 3 * size


def _training(a: Anatomy, lowest_layer: int, plan: Plan, size: int) -> int:
    """What the eager model keeps for the backward pass, from the lowest target layer up, and the logits."""
    tokens = plan.micro_batch * plan.length
    layers = a.n_layers - lowest_layer
    # per token: two norms' inputs, q, k, v, the inputs of the two projections that train, that of the activation
    # (with a gate its output and the other factor too); per pair of tokens the softmax in fp32, and cast
    heads = (a.n_heads + 2 * a.n_kv_heads + (2 * a.n_heads if a.group > 1 else 0)) * a.d_head  # shared K, V: copied
    layer = tokens * (4 * a.d_model + heads + a.d_ff * (3 if a.gated else 1)) * size
    layer += plan.micro_batch * a.n_heads * plan.length**2 * (4 + (size if size < 4 else 0))
    kept = layers * tokens * a.d_model * size + layer if plan.checkpointing else layers * layer
    return kept + _logits(tokens, a, size) + _working(tokens, a, size)


def _evaluating(a: Anatomy, plan: Plan, size: int) -> int:
    samples = max(plan.heldout_samples, WATCHED if plan.watch else 0)
    at_once = min(TOKENS_AT_ONCE, LOGITS_AT_ONCE // a.vocabulary, samples * plan.length)
    tokens = max(plan.length, at_once)
    return _logits(tokens, a, size) + _working(tokens, a, size)


def _working(tokens: int, a: Anatomy, size: int) -> int:
    width = tokens * a.d_model * size
    return width * WORKING + min(width * SCATTERED, SCATTERED_BYTES)


def _logits(tokens: int, a: Anatomy, size: int) -> int:
    """The logits, a contiguous copy, the same in fp32, and their log-softmax; on the way back as much."""
    return tokens * a.vocabulary * (2 * size + 4 + (4 if size < 4 else 0))


def _diagnosing(a: Anatomy, context: int, size: int) -> int:
    """Scores and weights of one layer as the model itself makes them on the longest text."""
    return a.n_heads * min(context, LONGEST_TEXT) ** 2 * (2 * size + 2 * 4)


def smaller(plan: Plan) -> Iterator[dict[str, Any]]:
    """Changes to a plan that need less memory, the gentlest first. Micro-batches keep the number of
    samples per step, so the result stays the same but for rounding."""
    samples = plan.micro_batch * plan.accumulate
    fewer = [n for n in range(plan.micro_batch - 1, 0, -1) if samples % n == 0]
    batches = [{"micro_batch": n, "accumulate": samples // n} for n in fewer]
    yield from batches
    if not plan.checkpointing:
        yield {"checkpointing": True}
        yield from ({**batch, "checkpointing": True} for batch in batches)


def what_fits(anatomy: Anatomy, targets: list[Head], plan: Plan, dtype: str, context: int, room: int) -> dict[str, Any]:
    """The gentlest change after which the pass fits into ``room`` bytes; empty: none does."""
    for change in smaller(plan):
        if memory_bytes(anatomy, targets, plan.model_copy(update=change), dtype, context) <= room:
            return change
    return {}


def change_words(change: dict[str, Any]) -> str:
    """A change from ``smaller`` in words."""
    words = []
    if "micro_batch" in change:
        words.append(f"micro-batch {change['micro_batch']} and accumulate {change['accumulate']} (the same batch)")
    if change.get("checkpointing"):
        words.append("gradient checkpointing")
    return " and ".join(words)


def free_ram() -> int:
    """Bytes of memory that this process can still take, within its container's limit if there is one."""
    free = int(psutil.virtual_memory().available)
    try:
        group = Path("/sys/fs/cgroup")
        limit, used = ((group / name).read_text("ascii").strip() for name in ("memory.max", "memory.current"))
        return free if limit == "max" else min(free, int(limit) - int(used))
    except (OSError, ValueError):
        return free


def disk_bytes(trained: int, dtype: str) -> int:
    """What a pass writes into its session's folder."""
    return files_bytes(trained, dtype) + 20_000_000  # journal and record


def files_bytes(trained: int, dtype: str) -> int:
    """Best patch, resumable state, and a second copy of each while it is being replaced."""
    size = BYTES.get(dtype, 4)
    patch = trained * 2 * size
    state = trained * (3 * 4 + size)  # masters and two moments in fp32, the best slices so far
    return 2 * (patch + state)
