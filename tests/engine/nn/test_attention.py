from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM
from transformers.models.bloom.modeling_bloom import build_alibi_tensor

from engine import demo
from engine.anatomy import alibi_slopes
from engine.errors import InputError
from engine.heads import Head, HeadMap, uniform_bos_mass
from engine.nn import attention
from engine.nn.attention import bootstrap, check_attention, head_statistics, measure, statistics, tokenized
from engine.nn.load import Patient, load
from engine.nn.watching import Scored
from engine.probes import Probe, read_probes
from tests.engine.nn.patients import make_patient


def their_statistics(folder: Path, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """BOS mass and entropy from the attention weights that Hugging Face's eager model returns."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        weights = torch.stack(model(input_ids=ids[None], output_attentions=True).attentions)[:, 0]
    entropy = -(weights * weights.clamp_min(1e-30).log()).sum(-1).mean(-1)
    return weights[..., 0].mean(-1), entropy


def whole_map(patient: Patient, probes: list[Probe]) -> HeadMap:
    found = list(measure(patient, probes))[-1]
    assert isinstance(found, HeadMap)
    return found


@pytest.mark.parametrize("length", [1, 2, 17, 64, attention.QUERY_BLOCK + 44])
def test_agrees_with_eager_attentions_on_a_random_model(patient: Patient, length: int) -> None:
    ids = torch.randint(4, 260, (length,), generator=torch.Generator().manual_seed(length))
    mass, entropy = statistics(patient, ids[None], check=True)
    their_mass, their_entropy = their_statistics(patient.folder, ids)
    assert (mass[0] - their_mass).abs().max() < 1e-5
    assert (entropy[0] - their_entropy).abs().max() < 1e-4


def test_agrees_with_eager_attentions_on_the_demo() -> None:
    patient = load("demo", device="cpu")
    longest = torch.cat([patient.ids(probe.text) for probe in read_probes()[:3]])
    for length in (1, 2, 55, patient.context, attention.QUERY_BLOCK + 100):
        ids = longest[:length]
        assert len(ids) == length
        mass, entropy = statistics(patient, ids[None])
        their_mass, their_entropy = their_statistics(demo.FOLDER, ids)
        assert (mass[0] - their_mass).abs().max() < 1e-5
        assert (entropy[0] - their_entropy).abs().max() < 1e-4


@pytest.mark.parametrize("n_heads", [12, 16, 32, 112])
def test_slopes_are_those_of_the_library(n_heads: int) -> None:
    theirs = build_alibi_tensor(torch.ones(1, 3, dtype=torch.long), n_heads, torch.float32)  # (n_heads, 1, 3)
    assert alibi_slopes(n_heads) == pytest.approx(theirs[:, 0, 1].tolist(), rel=1e-5)
    assert [2 * slope for slope in alibi_slopes(n_heads)] == pytest.approx(theirs[:, 0, 2].tolist(), rel=1e-5)


def test_the_block_of_query_rows_does_not_matter(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = torch.arange(4, 60)
    whole = statistics(patient, ids[None])
    monkeypatch.setattr(attention, "QUERY_BLOCK", 7)
    parts = statistics(patient, ids[None])
    assert torch.allclose(whole[0], parts[0], atol=1e-6)
    assert torch.allclose(whole[1], parts[1], atol=1e-6)


@pytest.mark.parametrize("n_tokens", [1, 16, 64])
def test_queries_of_zero_attend_uniformly(n_tokens: int) -> None:
    nothing = torch.zeros(2, n_tokens, 8)
    mass, entropy, _ = head_statistics(Scored(nothing, torch.randn(2, n_tokens, 8), 8**-0.5))
    assert mass.tolist() == pytest.approx([uniform_bos_mass(n_tokens)] * 2, abs=1e-6)
    by_hand = sum(torch.log(torch.tensor(t + 1.0)).item() for t in range(n_tokens)) / n_tokens
    assert entropy.tolist() == pytest.approx([by_hand] * 2, abs=1e-5)


def test_a_head_fixed_on_the_first_token_has_mass_one_and_entropy_zero() -> None:
    q = torch.ones(1, 10, 4)
    k = torch.cat([torch.full((1, 1, 4), 100.0), torch.zeros(1, 9, 4)], dim=1)
    mass, entropy, _ = head_statistics(Scored(q, k, 0.5, torch.zeros(1, 1, 10)))
    assert mass.item() == pytest.approx(1.0)
    assert entropy.item() == 0.0  # no NaN from 0·log 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_gives_finite_fp32_figures(tmp_path: Path, dtype: torch.dtype) -> None:
    folder = make_patient(tmp_path / "half", dtype)
    half = load(str(folder), device="cpu")
    mass, entropy = statistics(half, torch.arange(4, 60)[None], check=True)
    assert mass.dtype == entropy.dtype == torch.float32
    fp32 = statistics(load(str(folder), device="cpu", dtype="float32"), torch.arange(4, 60)[None])
    assert (mass - fp32[0]).abs().max() < 0.02
    assert (entropy - fp32[1]).abs().max() < 0.1


def test_a_weight_that_half_precision_makes_zero_adds_no_nan() -> None:
    q = torch.full((1, 5, 4), 60.0, dtype=torch.float16)
    k = torch.full((1, 5, 4), -60.0, dtype=torch.float16)
    k[:, 0] = 60.0  # scores 7200 and -7200: all weight on the first
    mass, entropy, _ = head_statistics(Scored(q, k, 0.5, torch.zeros(1, 1, 5, dtype=torch.float16)))
    assert (mass.item(), entropy.item()) == (1.0, 0.0)


def matrices_alive(patient: Patient, run: Any) -> list[int]:
    """How many attention matrices of earlier layers are alive when each layer's attention begins."""
    made: list[Any] = []
    alive: list[int] = []
    hooks = []
    for layer in range(patient.anatomy.n_layers):
        module = patient.attention(layer)
        hooks.append(module.register_forward_hook(lambda m, args, out: made.append(weakref.ref(out[1]))))
        hooks.append(module.register_forward_pre_hook(lambda m, args: alive.append(sum(r() is not None for r in made))))
    run()
    for hook in hooks:
        hook.remove()
    assert len(made) == patient.anatomy.n_layers
    return alive


def test_no_layers_attention_matrix_outlives_its_layer(patient: Patient) -> None:
    ids = torch.arange(4, 60)[None]
    assert matrices_alive(patient, lambda: statistics(patient, ids, check=True)) == [0, 0, 0]
    with torch.no_grad():
        kept = matrices_alive(patient, lambda: patient.model(input_ids=ids))
    assert kept == [0, 1, 1]  # the library by itself holds one on into the next layer


def test_a_model_that_sees_the_future_is_not_measured() -> None:
    weights = torch.full((1, 3, 3), 1 / 3)
    with pytest.raises(ArithmeticError, match="layer 7 attends to the future"):
        check_attention(weights, torch.full((1,), 1 / 3), 7)


def test_rows_that_do_not_sum_to_one_are_not_measured() -> None:
    with pytest.raises(ArithmeticError, match="do not sum to 1"):
        check_attention(torch.eye(3)[None] * 0.9, torch.zeros(1), 0)


def test_the_map_is_the_mean_over_texts_and_remembers_each(patient: Patient) -> None:
    probes = [Probe("a", "some words"), Probe("b", "quite another text, longer than the first")]
    *counts, found = measure(patient, probes)
    assert counts == [2]  # together in one batch
    assert isinstance(found, HeadMap)
    assert [t.tokens for t in found.texts] == [11, 42]
    assert found.texts[0].first_token == "<s>"
    for layer in range(3):
        for head in range(4):
            each = [found.by_text[i][layer][head] for i in (0, 1)]
            assert found.bos_mass[layer][head] == pytest.approx(sum(each) / 2, abs=1e-4)
            assert found.bos_low[layer][head] <= found.bos_mass[layer][head] <= found.bos_high[layer][head]
            assert found.entropy_low[layer][head] <= found.entropy[layer][head] <= found.entropy_high[layer][head]


def test_order_of_texts_moves_neither_figures_nor_intervals(patient: Patient) -> None:
    probes = [Probe("a", "some words"), Probe("b", "another text"), Probe("c", "x"), Probe("d", "four more words")]
    one, other = whole_map(patient, probes), whole_map(patient, [probes[i] for i in (2, 0, 3, 1)])
    for rows in ("bos_mass", "bos_low", "bos_high", "entropy", "entropy_low", "entropy_high"):
        assert torch.tensor(getattr(one, rows)).allclose(torch.tensor(getattr(other, rows)), rtol=0, atol=1e-6), rows
    assert [text.name for text in other.texts] == ["c", "a", "d", "b"]
    assert one.by_text == [other.by_text[i] for i in (1, 3, 0, 2)]


def test_measured_twice_is_measured_alike(patient: Patient) -> None:
    probes = [Probe("a", "some words"), Probe("b", "another text")]
    assert whole_map(patient, probes) == whole_map(patient, probes)


def test_bootstrap_of_one_text_has_no_width_and_of_two_spans_both() -> None:
    low, high = bootstrap(torch.full((1, 1, 1), 0.3))
    assert low.item() == high.item() == pytest.approx(0.3)
    low, high = bootstrap(torch.tensor([[[0.2]], [[0.6]]]))
    assert (low.item(), high.item()) == pytest.approx((0.2, 0.6))  # both twice: a quarter of the resamples each


def test_one_text_alone_is_the_papers_diagnosis(patient: Patient) -> None:
    found = whole_map(patient, [Probe("prompt", "one prompt alone")])
    mass, entropy = statistics(patient, patient.ids("one prompt alone")[None])
    for head in found.heads():
        at = found.mass(head)
        assert at == pytest.approx(mass[0, head.layer, head.head].item(), abs=1e-6)
        assert found.entropy[head.layer][head.head] == pytest.approx(entropy[0, head.layer, head.head].item(), abs=1e-6)
        assert found.interval(head) == (at, at)
        assert found.entropy_interval(head) == (found.entropy[head.layer][head.head],) * 2
        assert not found.is_borderline(head)
    assert len(found.texts) == 1


def test_a_text_of_one_token_has_mass_one_and_entropy_zero(tmp_path: Path) -> None:
    bare = load(str(make_patient(tmp_path / "bare", bos=False)), device="cpu")  # a tokenizer like BLOOM's own
    found = whole_map(bare, [Probe("a", "x")])
    assert found.tokens == 1 and found.texts[0].first_token == "x"
    assert all(found.mass(head) == 1.0 and found.entropy[head.layer][head.head] == 0.0 for head in found.heads())
    assert found.interval(Head(0, 0)) == (1.0, 1.0)


@pytest.mark.parametrize("text", ["", "<s>", "<s></s><pad>"])
def test_a_text_without_a_word_is_refused(patient: Patient, text: str) -> None:
    with pytest.raises(InputError, match=r"no tokens to measure.*only special tokens; write words"):
        list(measure(patient, [Probe("a", "words"), Probe("b", text)]))


def test_texts_are_cut_to_the_context_or_to_what_they_ask_for(patient: Patient) -> None:
    assert len(patient.ids("x" * 500)) == patient.context == 64
    found = whole_map(patient, [Probe("a", "x" * 500), Probe("b", "y" * 500, 10), Probe("c", "z" * 500, 900)])
    assert [text.tokens for text in found.texts] == [64, 10, 64]
    mass = statistics(patient, patient.ids("y" * 9)[None])[0][0]  # <s> and nine more
    assert torch.tensor(found.by_text[1]).allclose(mass, rtol=0, atol=1e-4)


def test_long_texts_of_one_beginning_count_once_in_a_short_context(patient: Patient) -> None:
    probes = [Probe("a", "x" * 100), Probe("b", "x" * 80 + "y"), Probe("c", "z"), Probe("d", "x" * 100, 30)]
    assert [text.name for text in tokenized(patient, probes)] == ["a", "c", "d"]
    *counts, found = measure(patient, probes)
    assert counts[-1] == len(probes)
    assert isinstance(found, HeadMap)
    assert [text.tokens for text in found.texts] == [64, 2, 30]


def test_the_built_in_texts_diagnose_the_demo() -> None:
    found = whole_map(load("demo", device="cpu"), read_probes())
    lengths = [text.tokens for text in found.texts]
    assert len(found.texts) == len(read_probes())
    assert (min(lengths), max(lengths)) == (32, 256)
    assert found.band() == (4, 7)
    assert found.counts()["healthy"] == 29
    outside = [str(head) for head in found.heads() if found.is_sick(head) and head.head < 4]
    assert outside == ["L4-H3", "L5-H2"]
