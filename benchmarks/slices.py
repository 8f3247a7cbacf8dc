"""Slices against the plainly written method: whole attention tensors train, gradients are masked.

    make bench

Both train the same heads of the same random BLOOM on the same batches, in turns, so that a busy
machine disturbs both alike. Printed: time per optimizer step (median) and bytes of gradients and
optimizer state.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
import torch.nn.functional as F
from tokenizers import Tokenizer, models
from transformers import BloomConfig, BloomForCausalLM, PreTrainedTokenizerFast

from engine.heads import Head
from engine.nn.load import Patient, load
from engine.nn.slices import Slices
from engine.nn.vitals import token_losses

LAYERS, HEADS, WIDTH, VOCABULARY = 8, 8, 512, 4096
TARGETS = [Head(layer, head) for layer in range(2, 8) for head in (5, 7)]
BATCH, LENGTH, STEPS = 2, 128, 15


def make_patient(folder: Path) -> None:
    config = BloomConfig(vocab_size=VOCABULARY, hidden_size=WIDTH, n_layer=LAYERS, n_head=HEADS, use_cache=False)
    BloomForCausalLM(config).save_pretrained(folder)
    words = {f"w{i}": i for i in range(VOCABULARY)}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.WordLevel(words, "w0")), unk_token="w0")
    tokenizer.save_pretrained(folder)


def slice_step(patient: Patient) -> tuple[Callable[[torch.Tensor], None], Callable[[], int]]:
    slices = Slices(patient, TARGETS)
    optimizer = torch.optim.AdamW(slices.masters().values(), lr=1e-4, weight_decay=0.0)

    def step(batch: torch.Tensor) -> None:
        with slices.training():
            optimizer.zero_grad()
            (token_losses(patient, batch) / batch.numel()).backward()
        torch.nn.utils.clip_grad_norm_(slices.masters().values(), 1.0)
        optimizer.step()
        slices.write_back()

    return step, lambda: training_bytes(list(slices.masters().values()), optimizer)


def masked_step(patient: Patient) -> tuple[Callable[[torch.Tensor], None], Callable[[], int]]:
    masks = {}
    for head in TARGETS:
        for piece in patient.anatomy.slices(head):
            parameter = patient.model.get_parameter(piece.tensor).requires_grad_()
            mask = masks.setdefault(parameter, torch.zeros_like(parameter, requires_grad=False))
            mask.narrow(piece.dim, piece.start, piece.stop - piece.start).fill_(1)
    optimizer = torch.optim.AdamW(masks, lr=1e-4, weight_decay=0.0)

    def step(batch: torch.Tensor) -> None:
        optimizer.zero_grad()
        logits = patient.model(input_ids=batch).logits[:, :-1]
        F.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten()).backward()
        for parameter, mask in masks.items():
            assert parameter.grad is not None
            parameter.grad.mul_(mask)
        torch.nn.utils.clip_grad_norm_(masks, 1.0)
        optimizer.step()

    return step, lambda: training_bytes(list(masks), optimizer)


def training_bytes(parameters: list[torch.Tensor], optimizer: torch.optim.Optimizer) -> int:
    """Bytes of gradients and optimizer state."""
    gradients = sum(p.grad.nbytes for p in parameters if p.grad is not None)
    return gradients + sum(t.nbytes for state in optimizer.state.values() for t in state.values())


def main() -> None:
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        make_patient(Path(folder))
        ways = {"slices": slice_step, "masked": masked_step}
        made = {name: way(load(folder, device="cpu")) for name, way in ways.items()}
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(STEPS):
            batch = torch.randint(VOCABULARY, (BATCH, LENGTH))
            for name, (step, _) in made.items():
                began = time.perf_counter()
                step(batch)
                seconds[name].append(time.perf_counter() - began)
    print(f"{LAYERS} layers × {HEADS} heads, {WIDTH} wide; {len(TARGETS)} targets; {BATCH}×{LENGTH} tokens a step")
    for name, (_, state) in made.items():
        middle = statistics.median(seconds[name][2:])
        print(f"{name:<8} {1000 * middle:7.1f} ms/step   gradients and optimizer state {state() / 1e6:6.2f} MB")


if __name__ == "__main__":
    main()
