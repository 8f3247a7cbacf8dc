"""A tiny random Llama written as GGUF, loaded, operated on and written as safetensors."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from engine.errors import InputError
from engine.heads import Head
from engine.nn.load import dequantised, load
from engine.nn.patch import Patch, apply_patches
from engine.nn.tokens import start_ids
from tests.engine.nn.patients import SPECIAL, tokenizer
from tests.engine.test_gguf import LLAMA, write

NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def in_pairs(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """Q and K as GGUF keeps them: the two halves of each head that RoPE turns together, row beside row."""
    rows, width = weight.shape
    return weight.view(heads, 2, rows // heads // 2, width).transpose(1, 2).reshape(rows, width)


@pytest.fixture(scope="module")
def original() -> LlamaForCausalLM:
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64,
        vocab_size=260, max_position_embeddings=64, tie_word_embeddings=True, initializer_range=0.2,
    )  # fmt: skip
    return LlamaForCausalLM(config).eval()


def packed(original: LlamaForCausalLM, path: Path, begins: bool = False) -> Path:
    """All matrices in fp32 but those of the MLP, which are quantised to Q8_0.

    Args:
        begins: the first token stands before every text
    """
    import gguf

    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_block_count(2)
    writer.add_embedding_length(32)
    writer.add_feed_forward_length(64)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_rope_dimension_count(8)
    writer.add_layer_norm_rms_eps(1e-6)
    words = tokenizer().convert_ids_to_tokens(range(258))
    merged = [(words[4], words[5]), (words[6], words[7])]  # transformers 5.0 cannot read a list of one
    words += [one + other for one, other in merged]
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(words)
    writer.add_token_types([3 if word in SPECIAL else 1 for word in words])
    writer.add_token_merges([" ".join(pair) for pair in merged])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(begins)
    for name, weight in original.state_dict().items():
        if name == "lm_head.weight":
            continue
        there = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight"}.get(name)
        if there is None:
            _, _, layer, rest = name.split(".", 3)
            there = f"blk.{layer}.{NAMES[rest.removesuffix('.weight')]}.weight"
        heads = 4 if "q_proj" in name else 2 if "k_proj" in name else 0
        data = (in_pairs(weight, heads) if heads else weight).numpy()
        if "mlp" in name:
            kind = gguf.GGMLQuantizationType.Q8_0
            writer.add_tensor(there, gguf.quants.quantize(data, kind), raw_dtype=kind)
        else:
            writer.add_tensor(there, data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture(scope="module")
def file(original: LlamaForCausalLM, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return packed(original, tmp_path_factory.mktemp("gguf") / "tiny.gguf")


def test_it_is_the_model_that_was_written(file: Path, original: LlamaForCausalLM) -> None:
    patient = load(str(file), device="cpu")
    told = patient.loaded()
    assert (told.dtype, told.parameters) == ("float32", sum(p.numel() for p in original.parameters()))
    assert "Q8_0 (6 tensors)" in told.stored and told.stored.startswith("dequantised from GGUF")
    assert patient.untrainable == ""
    for name, weight in original.named_parameters():
        loaded = patient.model.get_parameter(name)
        if "mlp" in name:  # 127 steps from 0 to the largest of 32 values
            assert 0 < (loaded - weight).abs().max() <= weight.abs().max() / 127
        else:
            assert torch.equal(loaded, weight), name


@pytest.mark.parametrize("begins", [True, False])
def test_the_first_token_stands_before_texts_where_the_file_says_so(
    original: LlamaForCausalLM, tmp_path: Path, begins: bool
) -> None:
    patient = load(str(packed(original, tmp_path / "tiny.gguf", begins)), device="cpu")
    assert start_ids(patient.tokenizer) == ([1] if begins else [])
    with dequantised(tmp_path / "tiny.gguf", "float32", tmp_path / "out") as folder:  # what `apply` writes from
        assert AutoTokenizer.from_pretrained(folder)("a text")["input_ids"] == patient.ids("a text").tolist()


def test_a_patch_on_it_is_written_as_safetensors(file: Path, tmp_path: Path) -> None:
    patient = load(str(file), device="cpu")
    pieces = patient.anatomy.slices(Head(1, 2), "qkvo")
    originals = {p.key: patient.model.get_parameter(p.tensor).narrow(p.dim, p.start, p.stop - p.start) for p in pieces}
    values = {key: torch.full_like(tensor, 0.5) for key, tensor in originals.items()}
    about = {"number": 1, "weights_sha256": patient.weights_sha256}
    apply_patches([Patch(values, originals, about)], file, tmp_path / "out")
    again = AutoModelForCausalLM.from_pretrained(tmp_path / "out", use_safetensors=True)
    assert not getattr(again.config, "quantization_config", None)
    for name, weight in patient.model.named_parameters():
        expected = weight.clone()
        for piece in pieces:
            if piece.tensor == name:
                expected.narrow(piece.dim, piece.start, piece.stop - piece.start).fill_(0.5)
        assert torch.equal(again.get_parameter(name), expected), name
    words = "a text"
    assert AutoTokenizer.from_pretrained(tmp_path / "out")(words)["input_ids"] == patient.ids(words).tolist()
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_without_the_packages_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install headsurgeon\[real\]"):
        load(str(write(tmp_path / "tiny.gguf", LLAMA)), device="cpu")


def test_a_file_cut_short_is_one_sentence(file: Path, tmp_path: Path) -> None:
    short = tmp_path / "short.gguf"
    short.write_bytes(file.read_bytes()[:-5000])
    with pytest.raises(InputError, match=r"short\.gguf cannot be loaded: .+"):
        load(str(short), device="cpu")
