from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from engine.checkpoint import read_header, tensor_places
from engine.errors import InputError
from engine.files import sha256_of
from engine.heads import Head
from engine.nn.load import Patient, load
from engine.nn.patch import Patch, apply_patches, load_patch, save_patch, undo_patches
from engine.nn.slices import Slices
from tests.engine.nn.patients import make_patient

IDS = torch.arange(4, 24)[None]


def cut(patient: Patient, heads: list[Head], number: int, seed: int = 0) -> Patch:
    """A patch of freshly cut heads, with output columns that do something."""
    slices = Slices(patient, heads)
    originals = slices.values()
    slices.reinitialise("xavier_normal", seed)
    values = {k: v + 0.01 if k.split("|")[0].endswith("dense.weight") else v for k, v in slices.values().items()}
    slices.put(values)
    about = {"number": number, "weights_sha256": patient.weights_sha256, "source": patient.source}
    return Patch(values, originals, about)


def hashes(folder: Path) -> dict[str, str]:
    return {f.name: sha256_of(f) for f in sorted(folder.iterdir())}


def test_a_patch_comes_back_as_it_was_saved(patient: Patient, tmp_path: Path) -> None:
    patch = cut(patient, [Head(0, 1)], 1)
    size = save_patch(tmp_path / "p.safetensors", patch)
    back = load_patch(tmp_path / "p.safetensors")
    assert size == (tmp_path / "p.safetensors").stat().st_size
    assert back.about == patch.about
    for ours, theirs in ((patch.values, back.values), (patch.originals, back.originals)):
        assert all(torch.equal(ours[k], theirs[k]) for k in ours)
    assert sum(t.numel() for t in back.values.values()) == 3 * 8 * 32 + 3 * 8 + 32 * 8


def test_a_patch_holds_the_slices_twice_in_the_patients_dtype_and_nothing_else(tmp_path: Path) -> None:
    patient = load(str(make_patient(tmp_path / "bf16", torch.bfloat16)), device="cpu")
    heads = [Head(layer, 1) for layer in range(3)]
    save_patch(tmp_path / "p.safetensors", cut(patient, heads, 1))
    header, begins = read_header(tmp_path / "p.safetensors")
    assert {t["dtype"] for name, t in header.items() if name != "__metadata__"} == {"BF16"}
    data = (tmp_path / "p.safetensors").stat().st_size - begins
    assert data == 2 * 2 * patient.anatomy.trained_parameters(heads)


def test_apply_gives_a_plain_checkpoint_and_undo_the_stock_files(patient: Patient, tmp_path: Path) -> None:
    patch = cut(patient, [Head(0, 1), Head(2, 3)], 1)
    apply_patches([patch], patient.folder, tmp_path / "repaired")
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "repaired")
    assert torch.equal(plain(input_ids=IDS).logits, patient.model(input_ids=IDS).logits)
    assert plain.config.tie_word_embeddings
    assert plain.lm_head.weight.data_ptr() == plain.transformer.word_embeddings.weight.data_ptr()
    assert AutoTokenizer.from_pretrained(tmp_path / "repaired")("a")["input_ids"][0] == 1
    kept = [name for name in hashes(patient.folder) if name != "model.safetensors"]
    assert {"config.json", "generation_config.json", "tokenizer.json"} <= set(kept)
    assert all(hashes(tmp_path / "repaired")[name] == hashes(patient.folder)[name] for name in kept)
    undo_patches([patch], tmp_path / "repaired", tmp_path / "stock")
    assert hashes(tmp_path / "stock") == hashes(patient.folder)
    assert hashes(tmp_path / "repaired") != hashes(patient.folder)


def test_passes_stack_and_come_off_in_order(patient: Patient, tmp_path: Path) -> None:
    first = cut(patient, [Head(0, 1), Head(1, 1)], 1)
    second = cut(patient, [Head(1, 1), Head(2, 0)], 2, seed=9)  # one head is cut twice
    apply_patches([first, second], patient.folder, tmp_path / "both")
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "both")
    assert torch.equal(plain(input_ids=IDS).logits, patient.model(input_ids=IDS).logits)
    with pytest.raises(InputError, match="does not carry this patch"):
        undo_patches([first], tmp_path / "both", tmp_path / "wrong")
    undo_patches([first, second], tmp_path / "both", tmp_path / "stock")
    assert hashes(tmp_path / "stock") == hashes(patient.folder)
    assert not (tmp_path / "wrong").exists()


def test_another_model_is_refused_by_its_fingerprint(patient: Patient, tmp_path: Path) -> None:
    other = make_patient(tmp_path / "other", seed=1)
    with pytest.raises(InputError, match="another model"):
        apply_patches([cut(patient, [Head(0, 0)], 1)], other, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_later_patch_alone_is_refused_on_stock(patient: Patient, tmp_path: Path) -> None:
    cut(patient, [Head(0, 0)], 1)
    second = cut(patient, [Head(0, 0)], 2, seed=4)
    with pytest.raises(InputError, match="lacks an earlier patch"):
        apply_patches([second], patient.folder, tmp_path / "out")


def test_an_occupied_folder_is_left_alone(patient: Patient, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("precious")
    with pytest.raises(InputError, match="not empty"):
        apply_patches([cut(patient, [Head(0, 0)], 1)], patient.folder, tmp_path / "out")
    assert [f.name for f in (tmp_path / "out").iterdir()] == ["mine"]


def test_a_patient_loaded_wider_comes_back_exactly_and_narrower_is_refused(tmp_path: Path) -> None:
    half = make_patient(tmp_path / "half", torch.bfloat16)
    wide = load(str(half), device="cpu", dtype="float32")
    patch = cut(wide, [Head(1, 1)], 1)
    apply_patches([patch], half, tmp_path / "patched")
    undo_patches([patch], tmp_path / "patched", tmp_path / "stock")
    assert hashes(tmp_path / "stock") == hashes(half)
    full = make_patient(tmp_path / "full")
    narrow = load(str(full), device="cpu", dtype="bfloat16")
    with pytest.raises(InputError, match="would not come back exactly"):
        undo_patches([cut(narrow, [Head(1, 1)], 1)], full, tmp_path / "no")


def test_a_checkpoint_without_the_transformer_prefix_is_patched_too(patient: Patient, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    patient.model.base_model.save_pretrained(bare)
    names = [n for n in read_header(bare / "model.safetensors")[0] if n != "__metadata__"]
    assert not any(n.startswith("transformer.") for n in names)
    assert "transformer.h.0.self_attention.dense.weight" in tensor_places(bare)


def test_damaged_files_get_a_sentence(folder: Path, tmp_path: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(InputError, match="truncated"):
        load(str(folder))
    (tmp_path / "x.safetensors").write_bytes(b"no such thing")
    with pytest.raises(InputError, match="damaged"):
        load_patch(tmp_path / "x.safetensors")
    with pytest.raises(InputError, match="patch not found"):
        load_patch(tmp_path / "y.safetensors")
