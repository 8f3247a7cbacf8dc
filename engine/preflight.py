"""What a pass would take, told before anything is touched, from the shape alone."""

from __future__ import annotations

from dataclasses import dataclass

from engine.anatomy import Anatomy
from engine.heads import Head
from engine.plan import Plan
from engine.targets import Model, zone_of, zones

BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


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


def preflight(anatomy: Anatomy, targets: list[Head], plan: Plan, dtype: str) -> Preflight:
    """Counts and estimates for operating on ``targets``."""
    trained = anatomy.trained_parameters(targets, plan.parts)
    layers, heads = zone_of(targets)
    _, frozen, outside = zones(targets, Model(anatomy.n_layers, anatomy.n_heads))
    return Preflight(
        targets=len(targets),
        trained_parameters=trained,
        touched_tensor_parameters=anatomy.touched_tensor_parameters(targets),
        total_parameters=anatomy.total_parameters,
        zone_layers=layers,
        zone_heads=heads,
        in_band_frozen=len(frozen),
        outside=len(outside),
        memory_bytes=memory_bytes(anatomy, trained, layers[0], plan, dtype),
        disk_bytes=disk_bytes(trained, dtype),
    )


def memory_bytes(anatomy: Anatomy, trained: int, lowest_layer: int, plan: Plan, dtype: str) -> int:
    """Peak of a training step: weights, slices' training state, saved activations, logits.

    The counts follow what eager BLOOM keeps for the backward pass from the lowest target layer up.
    """
    size = BYTES.get(dtype, 4)
    tokens = plan.micro_batch * plan.length
    d, layers = anatomy.d_model, anatomy.n_layers - lowest_layer
    weights = anatomy.total_parameters * size
    # fp32 masters, gradients, two moments; best, originals and values at the cut in the model's dtype
    state = trained * (4 * 4 + 3 * size)
    linear = tokens * d * (4 + 3 + 2 + 4 * 5) * size  # norms, q k v, context, four wide MLP stages and more
    attention = plan.micro_batch * anatomy.n_heads * plan.length**2 * (4 + 2 * size)
    logits = tokens * anatomy.vocabulary * (2 * 4 + size)
    return weights + state + layers * (linear + attention) + logits + 350_000_000  # the libraries themselves


def disk_bytes(trained: int, dtype: str) -> int:
    """What a pass writes into its session's folder."""
    return files_bytes(trained, dtype) + 20_000_000  # journal and record


def files_bytes(trained: int, dtype: str) -> int:
    """Best patch, resumable state, and a second copy of each while it is being replaced."""
    size = BYTES.get(dtype, 4)
    patch = trained * 2 * size
    state = trained * (3 * 4 + size)  # masters and two moments in fp32, the best slices so far
    return 2 * (patch + state)
