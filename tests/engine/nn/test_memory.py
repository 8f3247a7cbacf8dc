"""The estimate of a pass's memory against what the kernel says that it took."""

from __future__ import annotations

import pytest
import torch

from benchmarks import memory as benchmark
from engine.nn.memory import forget_peak, is_out_of_memory, peak_bytes, room_bytes


def test_the_estimate_is_within_a_fifth_of_what_a_pass_takes() -> None:
    shape = benchmark.LEAST.shape
    assert shape["vocab_size"] * shape["hidden_size"] + 12 * shape["n_layer"] * shape["hidden_size"] ** 2 > 100e6
    found = benchmark.run(benchmark.LEAST)
    assert 0.8 < found["estimated"] / found["measured"] < 1.2, found


def test_what_torch_raises_on_the_cpu_is_known_as_out_of_memory() -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**55)
    assert is_out_of_memory(raised.value)
    assert is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory"))
    assert not is_out_of_memory(RuntimeError("shapes do not match"))


def test_a_peak_that_is_over_can_be_forgotten() -> None:
    cpu, size = torch.device("cpu"), 400_000_000
    kept = torch.ones(size // 4)
    peak = peak_bytes(cpu)
    del kept
    forget_peak(cpu)
    assert peak_bytes(cpu) < peak - size / 2


def test_the_peak_is_part_of_the_room() -> None:
    cpu = torch.device("cpu")
    assert 50_000_000 < peak_bytes(cpu) < room_bytes(cpu)
