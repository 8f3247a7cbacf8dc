import json
from pathlib import Path

import pytest

from engine.errors import InputError
from tui.drylook import look, needs, shape_line
from tui.paths import cached_config, cached_models, candidates, complete_model, complete_path, config_of

CONFIG = {
    "model_type": "bloom",
    "hidden_size": 64,
    "n_head": 4,
    "n_layer": 2,
    "vocab_size": 100,
    "torch_dtype": "bfloat16",
}


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub cache with one model that has a config and one that has none."""
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    snapshot = tmp_path / "hub" / "models--some--tiny-model" / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    (snapshot / "config.json").write_text(json.dumps(CONFIG))
    (tmp_path / "hub" / "models--some--empty").mkdir()
    (tmp_path / "hub" / "datasets--some--texts").mkdir()
    return tmp_path


def test_folders_are_completed_as_far_as_one_way_leads_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("models-a", "models-b", ".hidden"):
        (tmp_path / name).mkdir()
    (tmp_path / "models-a" / "notes.txt").write_text("")
    typed = f"{tmp_path}/mo"
    assert candidates(typed) == [f"{tmp_path}/models-a/", f"{tmp_path}/models-b/"]
    assert complete_path(typed) == f"{tmp_path}/models-"
    assert complete_path(f"{tmp_path}/models-a") == f"{tmp_path}/models-a/"
    assert complete_path(f"{tmp_path}/models-a/n") == f"{tmp_path}/models-a/notes.txt"
    assert complete_path(f"{tmp_path}/nothing") == f"{tmp_path}/nothing"
    assert candidates(f"{tmp_path}/.h") == [f"{tmp_path}/.hidden/"]
    monkeypatch.chdir(tmp_path)
    assert complete_path("models-b") == "models-b/" and complete_path("./models-b") == "./models-b/"


def test_the_hub_s_cache_is_read_without_its_library(hub: Path) -> None:
    assert cached_models() == ["some/empty", "some/tiny-model"]
    assert cached_config("some/empty") is None
    assert complete_model("so") == "some/" and complete_model("some/t") == "some/tiny-model"
    assert complete_model("d") == "demo" and complete_model("") == ""
    assert config_of("some/tiny-model") == CONFIG and config_of("nobody/nothing") is None


@pytest.mark.parametrize(
    ("name", "value", "folder"),
    [("HF_HUB_CACHE", "a", "a"), ("HF_HOME", "b", "b/hub"), ("XDG_CACHE_HOME", "c", "c/huggingface/hub")],
)
def test_the_cache_is_where_its_library_would_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str, folder: str
) -> None:
    from tui.paths import hub_cache

    for variable in ("HF_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv(name, str(tmp_path / value))
    assert hub_cache() == tmp_path / folder


def test_a_dry_look_tells_shape_and_memory_from_the_config_alone(hub: Path) -> None:
    found = look("some/tiny-model")
    assert found.anatomy is not None and found.dtype == "bfloat16"
    words = shape_line(found).plain
    assert "2 layers × 4 heads, bloom, alibi, 64 wide" in words and "kept as bfloat16" in words
    in_half, in_full = needs(found, "bfloat16"), needs(found, "float32")
    assert in_full[0] - in_half[0] == 2 * found.anatomy.total_parameters  # four bytes each instead of two
    assert in_half[1] > in_half[0]
    assert look("demo").anatomy is not None


def test_what_cannot_be_a_model_is_said_before_anything_is_loaded(hub: Path) -> None:
    assert "type demo" in look("").trouble
    assert "folder not found" in look("./nowhere").trouble
    assert "hub names are written owner/model" in look("nowhere").trouble
    assert look("nobody/nothing").trouble == "" and "not in the local cache" in look("nobody/nothing").remark
    (hub / "other").mkdir()
    (hub / "other" / "config.json").write_text('{"model_type": "gpt5"}')
    assert "gpt5" in look(str(hub / "other")).trouble
    with pytest.raises(InputError, match="there is no config"):
        config_of(str(hub / "hub"))


def test_a_quantised_model_can_be_diagnosed_only_and_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({**CONFIG, "quantization_config": {"quant_method": "gptq"}}))
    found = look(str(tmp_path))
    assert found.anatomy is not None and "quantised (gptq)" in found.remark
