import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.anatomy import Slice, alibi_slopes, anatomy_of, context_of, read_config, untrainable
from engine.errors import InputError
from engine.heads import Head
from engine.targets import Model, resolve
from tests.engine.test_targets import PASS_1

BLOOM_1B7 = {"model_type": "bloom", "hidden_size": 2048, "n_head": 16, "n_layer": 24, "vocab_size": 250_880}
TINY = {"model_type": "bloom", "hidden_size": 32, "n_head": 4, "n_layer": 2, "vocab_size": 64}


def test_bloom_1b7_in_numbers():
    found = anatomy_of(BLOOM_1B7, "bloom-1b7")
    assert (found.n_layers, found.n_heads, found.d_head) == (24, 16, 128)
    assert found.total_parameters == 1_722_408_960
    # Q, K and V rows, their biases, output columns
    assert found.trained_parameters([Head(0, 0)]) == 786_432 + 384 + 262_144 == 1_048_960


def test_the_first_pass_on_bloom_1b7_in_numbers():
    found, targets = anatomy_of(BLOOM_1B7, "bloom-1b7"), resolve(PASS_1, Model(24, 16))
    assert found.trained_parameters(targets) == 108 * 1_048_960 == 113_287_680
    assert found.touched_tensor_parameters(targets) == 302_100_480
    assert f"{found.trained_parameters(targets) / found.total_parameters:.2%}" == "6.58%"
    assert f"{found.touched_tensor_parameters(targets) / found.total_parameters:.1%}" == "17.5%"


def test_untied_embeddings_count_twice():
    untied = anatomy_of({**TINY, "tie_word_embeddings": False}, "x")
    assert untied.total_parameters - anatomy_of(TINY, "x").total_parameters == 64 * 32


def test_a_head_of_the_fused_tensor():
    prefix = "transformer.h.1.self_attention."
    pieces = anatomy_of(TINY, "x").slices(Head(1, 2))
    assert [(p.part, p.tensor.removeprefix(prefix), p.dim, p.start, p.stop) for p in pieces] == [
        ("q", "query_key_value.weight", 0, 48, 56),
        ("q", "query_key_value.bias", 0, 48, 56),
        ("k", "query_key_value.weight", 0, 56, 64),
        ("k", "query_key_value.bias", 0, 56, 64),
        ("v", "query_key_value.weight", 0, 64, 72),
        ("v", "query_key_value.bias", 0, 64, 72),
        ("o", "dense.weight", 1, 16, 24),
    ]


def test_only_the_chosen_parts_and_always_the_output():
    found = anatomy_of(TINY, "x")
    assert {piece.part for piece in found.slices(Head(0, 0), "qko")} == {"q", "k", "o"}
    assert found.trained_parameters([Head(0, 0)], "qo") == 8 * 32 + 8 + 32 * 8


def test_shapes_of_slices():
    found = anatomy_of(TINY, "x")
    assert [found.slice_shape(piece) for piece in found.slices(Head(0, 1), "qo")] == [(8, 32), (8,), (32, 8)]


shapes = st.builds(
    lambda layers, heads, size: {**TINY, "n_layer": layers, "n_head": heads, "hidden_size": heads * size},
    st.integers(1, 4),
    st.integers(1, 12),
    st.integers(1, 16),
)


@given(shapes)
def test_slices_of_all_heads_cover_their_tensors_without_overlap(config):
    found = anatomy_of(config, "x")
    places: dict[str, list[tuple[int, int]]] = {}
    for head in Model(found.n_layers, found.n_heads).all:
        for piece in found.slices(head):
            places.setdefault(piece.tensor, []).append((piece.start, piece.stop))
    assert len(places) == 3 * found.n_layers  # fused weight, fused bias, output weight
    for tensor, pieces in places.items():
        at = 0
        for start, stop in sorted(pieces):
            assert start == at
            at = stop
        assert at == (found.d_model if "dense" in tensor else 3 * found.d_model)


@given(shapes)
def test_trained_parameters_of_all_heads_are_those_of_the_touched_tensors(config):
    found = anatomy_of(config, "x")
    everything = Model(found.n_layers, found.n_heads).all
    assert found.trained_parameters(everything) == found.touched_tensor_parameters(everything)


def test_a_slice_is_named_and_read_back():
    piece = Slice("k", "transformer.h.1.self_attention.dense.weight", 1, 16, 24)
    assert piece.key == "transformer.h.1.self_attention.dense.weight|1:16:24"
    assert Slice.parse(piece.key).key == piece.key


@pytest.mark.parametrize("key", ["", "name", "name|1:2", "name|a:b:c", "name|1:2:3:4"])
def test_other_names_are_refused(key):
    with pytest.raises(ValueError):
        Slice.parse(key)


def test_slopes_of_sixteen_heads():
    slopes = alibi_slopes(16)
    assert [round(slopes[h], 4) for h in (0, 4, 8, 12, 15)] == [0.7071, 0.1768, 0.0442, 0.0110, 0.0039]
    assert slopes == sorted(slopes, reverse=True)  # high indices are the gentle ones
    assert [round(-100 * slopes[h], 2) for h in (0, 15)] == [-70.71, -0.39]


def test_slopes_of_twelve_heads_interleave():
    # eight of the power below, then every second one of sixteen
    assert alibi_slopes(12) == [2.0**-h for h in range(1, 9)] + [2.0**-h for h in (0.5, 1.5, 2.5, 3.5)]


@given(st.integers(1, 200))
def test_there_is_one_positive_slope_per_head(n_heads):
    slopes = alibi_slopes(n_heads)
    assert len(set(slopes)) == n_heads
    assert all(0 < slope < 1 and math.isfinite(slope) for slope in slopes)


def test_bloom_may_spell_its_shape_otherwise():
    other = {"model_type": "bloom", "n_embed": 32, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 64}
    assert anatomy_of(other, "x") == anatomy_of(TINY, "x")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"model_type": "mamba"}, "is a 'mamba' model, and headsurgeon has adapters for"),
        ({"n_head": 5}, "5 heads do not divide a width of 32"),
        ({"n_head": 0}, "do not divide"),
        ({"vocab_size": None}, "does not describe a bloom model"),
        ({"n_layer": "many"}, "does not describe a bloom model"),
        ({"hidden_size": math.inf}, "does not describe a bloom model"),
        ({"slow_but_exact": True, "pretraining_tp": 2}, "set it to false"),
    ],
)
def test_other_configs_are_refused_in_words(change, says):
    with pytest.raises(InputError, match=says):
        anatomy_of({**TINY, **change}, "some/model")


def test_a_quantised_model_has_an_anatomy_and_a_reason_not_to_be_operated_on():
    config = {**TINY, "quantization_config": {"quant_method": "gptq", "bits": 4}}
    assert anatomy_of(config, "x") == anatomy_of(TINY, "x")
    assert "quantised (gptq) and cannot be trained" in untrainable(config)
    assert untrainable(TINY) == ""


def test_the_context_is_what_config_and_tokenizer_both_allow(tmp_path):
    assert context_of(tmp_path, {}) == 2048
    assert context_of(tmp_path, {"seq_length": 4096}) == 4096
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 256}', "utf-8")
    assert context_of(tmp_path, {"seq_length": 4096}) == 256
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 1e30}', "utf-8")
    assert context_of(tmp_path, {}) == 2048


def test_a_missing_key_is_named():
    with pytest.raises(InputError, match="'vocab_size'"):
        anatomy_of({k: v for k, v in TINY.items() if k != "vocab_size"}, "x")


def test_a_config_is_read_from_its_folder(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(TINY), "utf-8")
    assert read_config(tmp_path) == TINY


@pytest.mark.parametrize(("content", "says"), [(None, "holds no model"), ("{", "is damaged"), ("[]", "no JSON object")])
def test_a_folder_without_a_good_config_is_refused(tmp_path, content, says):
    if content is not None:
        (tmp_path / "config.json").write_text(content, "utf-8")
    with pytest.raises(InputError, match=says):
        read_config(tmp_path)


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(InputError, match="folder not found"):
        read_config(tmp_path / "nowhere")
