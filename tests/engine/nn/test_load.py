from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from engine.errors import InputError
from engine.nn.attention import statistics
from engine.nn.load import Patient, find, load
from tests.engine.nn.patients import make_patient


def test_a_mistyped_folder_is_called_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    for name in ("no-such-folder", "./models/blom", "models/blom", "/models/blom", "a/b/c"):
        with pytest.raises(InputError, match=f"^folder not found: {name}"):
            find(name)


def test_a_hub_name_that_cannot_be_fetched_says_so_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(
        InputError, match=r"^folder not found: owner/no-such-model, and the hub did not give it"
    ) as caught:
        find("owner/no-such-model")
    assert "\n" not in str(caught.value)


def test_a_hub_name_in_the_cache_is_loaded_without_asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    repo = tmp_path / "models--owner--tiny"
    make_patient(repo / "snapshots" / commit)
    (repo / "refs").mkdir()
    (repo / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    patient = load("owner/tiny", device="cpu")
    assert (patient.source, patient.revision) == ("owner/tiny", commit)


def test_what_is_no_model_gets_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"holds no model: there is no config\.json"):
        load(str(tmp_path / "empty"))
    (tmp_path / "gpt").mkdir()
    (tmp_path / "gpt" / "config.json").write_text('{"model_type": "mamba"}')
    with pytest.raises(InputError, match="'mamba' model, and headsurgeon has adapters for bloom, falcon, gemma"):
        load(str(tmp_path / "gpt"))
    with pytest.raises(InputError, match="is a file"):
        load(str(tmp_path / "gpt" / "config.json"))


def test_pickled_weights_are_not_read(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(InputError, match="holds no safetensors weights"):
        load(str(folder))


def test_a_checkpoint_that_lacks_tensors_is_refused(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "n_layer": 4}))
    with pytest.raises(InputError, match=r"the weights of .* lack transformer\.h\.3"):
        load(str(folder))


def test_wrong_devices_and_dtypes_are_refused(folder: Path) -> None:
    with pytest.raises(InputError, match="unknown device 'gpu'"):
        load(str(folder), device="gpu")
    with pytest.raises(InputError, match="device cuda:99 is not there"):
        load(str(folder), device="cuda:99")
    with pytest.raises(InputError, match="unknown dtype 'int8'"):
        load(str(folder), dtype="int8")


def test_auto_takes_the_checkpoints_own_dtype(tmp_path: Path) -> None:
    half = load(str(make_patient(tmp_path / "half", torch.bfloat16)), device="cpu")
    assert half.dtype == "bfloat16"
    assert half.loaded().dtype == "bfloat16"
    assert load(str(tmp_path / "half"), device="cpu", dtype="float32").dtype == "float32"


def test_a_quantised_checkpoint_whose_library_is_missing_gets_a_sentence(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "bitsandbytes", "load_in_8bit": True}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"cannot be loaded: .*bitsandbytes"):
        load(str(folder), device="cpu")


class Int8(torch.nn.Module):
    """A linear layer of eight-bit weights, as quantisers put them in the place of the plain one."""

    def __init__(self, plain: torch.nn.Linear) -> None:
        super().__init__()
        self.scale = plain.weight.abs().amax(1, keepdim=True) / 127
        self.weight = torch.nn.Parameter((plain.weight / self.scale).round().to(torch.int8), requires_grad=False)
        self.bias = plain.bias

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, self.weight * self.scale, self.bias)


def test_quantised_heads_are_measured_by_what_their_layers_put_out(patient: Patient) -> None:
    ids = torch.arange(4, 40)[None]
    plain, _ = statistics(patient, ids)
    for layer in range(3):
        attention = patient.attention(layer)
        attention.query_key_value = Int8(attention.get_submodule("query_key_value"))  # type: ignore[arg-type,assignment]
    quantised, _ = statistics(patient, ids, check=True)
    assert not torch.equal(quantised, plain)
    assert torch.allclose(quantised, plain, atol=0.02)
