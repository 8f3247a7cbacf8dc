from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.nn.tensorfile import read_tensors, write_tensors

TENSORS = {
    "half": torch.arange(6).to(torch.bfloat16).view(2, 3),
    "turned": torch.arange(6, dtype=torch.float32).view(2, 3).T,
    "single": torch.tensor(7.5),
    "none": torch.empty(0, 4),
    "ä|0:1": torch.tensor([1.0, -2.0], dtype=torch.float16),
}


def test_the_library_reads_what_we_write(tmp_path: Path) -> None:
    size = write_tensors(tmp_path / "t.safetensors", TENSORS, {"about": '"x" \n'}, "a file")
    assert size == (tmp_path / "t.safetensors").stat().st_size
    found = load_file(tmp_path / "t.safetensors")
    assert found.keys() == TENSORS.keys()
    assert all(torch.equal(found[name], TENSORS[name]) for name in TENSORS)
    assert all(found[name].dtype == TENSORS[name].dtype for name in TENSORS)
    assert read_tensors(tmp_path / "t.safetensors")[1] == {"about": '"x" \n'}


def test_we_read_what_the_library_writes(tmp_path: Path) -> None:
    save_file({name: tensor.contiguous() for name, tensor in TENSORS.items()}, tmp_path / "t.safetensors")
    found, about = read_tensors(tmp_path / "t.safetensors")
    assert all(torch.equal(found[name], TENSORS[name]) for name in TENSORS)
    assert about == {}


def test_the_same_tensors_give_the_same_bytes_in_whatever_order(tmp_path: Path) -> None:
    write_tensors(tmp_path / "one", TENSORS, {"a": "b"}, "a file")
    write_tensors(tmp_path / "two", dict(reversed(TENSORS.items())), {"a": "b"}, "a file")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_the_file_is_one_that_others_may_read(tmp_path: Path) -> None:
    write_tensors(tmp_path / "t.safetensors", TENSORS, {}, "a file")
    (tmp_path / "plain").write_text("as any other")
    assert (tmp_path / "t.safetensors").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_tensor_of_another_kind_is_a_mistake_of_ours(tmp_path: Path) -> None:
    with pytest.raises(KeyError):
        write_tensors(tmp_path / "t.safetensors", {"n": torch.tensor([1])}, {}, "a file")
