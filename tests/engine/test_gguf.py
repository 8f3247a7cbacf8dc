"""The header of a GGUF file, spelled out byte by byte."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from engine.anatomy import anatomy_of, read_config
from engine.card import license_of
from engine.checkpoint import weights_sha256
from engine.errors import InputError
from engine.files import sha256_of
from engine.gguf import read_gguf
from tui.drylook import look, shape_line

LLAMA = {
    "general.architecture": "llama",
    "general.license": "apache-2.0",
    "llama.context_length": 64,
    "llama.block_count": 2,
    "llama.embedding_length": 32,
    "llama.feed_forward_length": 48,
    "llama.attention.head_count": 4,
    "llama.attention.head_count_kv": 2,
    "llama.rope.freq_base": 500.0,
    "llama.rope.dimension_count": 8,
    "tokenizer.ggml.tokens": ["a", "bc"],
    "tokenizer.ggml.token_type": [1, 3],
}
TENSORS = {"token_embd.weight": ((260, 32), 8), "blk.0.attn_q.weight": ((32, 32), 3), "output_norm.weight": ((32,), 0)}


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def spelled(value: Any) -> bytes:
    match value:
        case str():
            return struct.pack("<I", 8) + text(value)
        case float():
            return struct.pack("<If", 6, value)
        case int():
            return struct.pack("<II", 4, value)
        case [str(), *_]:
            return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))
    return struct.pack(f"<IIQ{len(value)}i", 9, 5, len(value), *value)


def write(path: Path, metadata: dict[str, Any], tensors: dict[str, tuple[tuple[int, ...], int]] = TENSORS) -> Path:
    data = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    data += b"".join(text(name) + spelled(value) for name, value in metadata.items())
    for name, (shape, kind) in tensors.items():
        data += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), kind, 0)
    path.write_bytes(data)
    return path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write(tmp_path / "tiny.gguf", LLAMA)


def test_metadata_shapes_and_kinds_are_read(file: Path) -> None:
    header = read_gguf(file)
    assert header.metadata == LLAMA
    assert header.shapes == {name: shape for name, (shape, _) in TENSORS.items()}
    assert header.stored == "dequantised from GGUF: Q8_0 (1 tensors), Q4_1 (1 tensors)"


def test_the_anatomy_follows_from_the_header(file: Path) -> None:
    a = anatomy_of(read_config(file), "tiny")
    assert (a.family, a.n_layers, a.n_heads, a.n_kv_heads, a.d_model, a.d_head) == ("llama", 2, 4, 2, 32, 8)
    layer = 32 * 32 + 2 * 16 * 32 + 32 * 32 + 3 * 32 * 48 + 2 * 32
    assert a.total_parameters == 260 * 32 + 2 * layer + 32  # no output.weight: tied
    untied = write(file.with_name("untied.gguf"), LLAMA, TENSORS | {"output.weight": ((260, 32), 8)})
    assert anatomy_of(read_config(untied), "untied").total_parameters == a.total_parameters + 260 * 32


def test_license_and_fingerprint_are_the_files_own(file: Path) -> None:
    assert license_of(file) == "apache-2.0"
    assert weights_sha256(file) == sha256_of(file)


def test_the_screen_knows_it_before_anything_is_loaded(file: Path) -> None:
    found = look(str(file))
    assert (found.trouble, found.remark, found.dtype) == ("", "", "float32")
    assert found.anatomy is not None and found.anatomy.n_heads == 4
    assert str(shape_line(found)).endswith("dequantised to float32")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"general.architecture": "qwen2"}, "holds a 'qwen2' model, and of GGUF files only 'llama' ones are read"),
        ({"llama.expert_count": 8}, "has experts or a scaled RoPE"),
        ({"llama.rope.scaling.type": "yarn"}, "has experts or a scaled RoPE"),
    ],
)
def test_what_would_load_as_something_else_is_refused(tmp_path: Path, change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read_config(write(tmp_path / "other.gguf", LLAMA | change))


def test_every_cut_of_a_header_is_one_sentence(file: Path) -> None:
    whole = file.read_bytes()
    for size in range(len(whole)):
        file.write_bytes(whole[:size])
        with pytest.raises(InputError, match=r"no GGUF file|damaged or cut short"):
            read_config(file)


def test_a_length_beyond_the_file_is_not_waited_for(file: Path) -> None:
    file.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1 << 60))
    with pytest.raises(InputError, match="a length of 1152921504606846976"):
        read_config(file)
