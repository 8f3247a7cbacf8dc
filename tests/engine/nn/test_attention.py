from __future__ import annotations

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from engine import demo
from engine.heads import HeadMap, uniform_bos_mass
from engine.nn import attention
from engine.nn.attention import bootstrap, check_attention, head_statistics, measure, statistics
from engine.nn.load import Patient, load
from engine.probes import Probe, read_probes
from tests.engine.nn.patients import make_patient


def their_statistics(folder: Path, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """BOS mass and entropy from the attention weights that Hugging Face's eager model returns."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")
    with torch.no_grad():
        weights = torch.stack(model(input_ids=ids[None], output_attentions=True).attentions)[:, 0]
    entropy = -(weights * weights.clamp_min(1e-30).log()).sum(-1).mean(-1)
    return weights[..., 0].mean(-1), entropy


@pytest.mark.parametrize("length", [1, 2, 17, 64])
def test_agrees_with_eager_attentions_on_a_random_model(patient: Patient, length: int) -> None:
    ids = torch.arange(4, 4 + length)
    mass, entropy = statistics(patient, ids, check=True)
    their_mass, their_entropy = their_statistics(patient.folder, ids)
    assert (mass - their_mass).abs().max() < 1e-5
    assert (entropy - their_entropy).abs().max() < 1e-4


def test_agrees_with_eager_attentions_on_the_demo() -> None:
    patient = load("demo", device="cpu")
    for probe in read_probes()[:3]:
        ids = patient.ids(probe.text)
        mass, entropy = statistics(patient, ids)
        their_mass, their_entropy = their_statistics(demo.FOLDER, ids)
        assert (mass - their_mass).abs().max() < 1e-5
        assert (entropy - their_entropy).abs().max() < 1e-4


def test_the_block_of_query_rows_does_not_matter(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = torch.arange(4, 60)
    whole = statistics(patient, ids)
    monkeypatch.setattr(attention, "QUERY_BLOCK", 7)
    parts = statistics(patient, ids)
    assert torch.allclose(whole[0], parts[0], atol=1e-6)
    assert torch.allclose(whole[1], parts[1], atol=1e-6)


@pytest.mark.parametrize("n_tokens", [1, 16, 64])
def test_queries_of_zero_attend_uniformly(n_tokens: int) -> None:
    nothing = torch.zeros(2, n_tokens, 8)
    mass, entropy = head_statistics(nothing, torch.randn(2, n_tokens, 8), torch.zeros(2, 1, n_tokens))
    assert mass.tolist() == pytest.approx([uniform_bos_mass(n_tokens)] * 2, abs=1e-6)
    by_hand = sum(torch.log(torch.tensor(t + 1.0)).item() for t in range(n_tokens)) / n_tokens
    assert entropy.tolist() == pytest.approx([by_hand] * 2, abs=1e-5)


def test_a_head_fixed_on_the_first_token_has_mass_one_and_entropy_zero() -> None:
    q = torch.ones(1, 10, 4)
    k = torch.cat([torch.full((1, 1, 4), 100.0), torch.zeros(1, 9, 4)], dim=1)
    mass, entropy = head_statistics(q, k, torch.zeros(1, 1, 10))
    assert mass.item() == pytest.approx(1.0)
    assert entropy.item() == 0.0  # no NaN from 0·log 0


def test_half_precision_gives_finite_fp32_figures(tmp_path: Path) -> None:
    patient = load(str(make_patient(tmp_path / "half", torch.bfloat16)), device="cpu")
    mass, entropy = statistics(patient, torch.arange(4, 60), check=True)
    assert mass.dtype == entropy.dtype == torch.float32
    assert torch.isfinite(mass).all()
    assert torch.isfinite(entropy).all()


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
    assert counts == [1, 2]
    assert isinstance(found, HeadMap)
    assert [t.tokens for t in found.texts] == [11, 42]
    assert found.texts[0].first_token == "<s>"
    for layer in range(3):
        for head in range(4):
            each = [found.by_text[i][layer][head] for i in (0, 1)]
            assert found.bos_mass[layer][head] == pytest.approx(sum(each) / 2, abs=1e-4)
            assert found.bos_low[layer][head] <= found.bos_mass[layer][head] <= found.bos_high[layer][head]


def test_order_of_texts_does_not_move_a_number(patient: Patient) -> None:
    probes = [Probe("a", "some words"), Probe("b", "another text"), Probe("c", "x")]
    one, other = list(measure(patient, probes))[-1], list(measure(patient, probes[::-1]))[-1]
    assert isinstance(one, HeadMap)
    assert isinstance(other, HeadMap)
    assert torch.allclose(torch.tensor(one.bos_mass), torch.tensor(other.bos_mass), atol=2e-6)


def test_bootstrap_of_one_text_has_no_width_and_of_two_spans_both() -> None:
    low, high = bootstrap(torch.full((1, 1, 1), 0.3))
    assert low.item() == high.item() == pytest.approx(0.3)
    low, high = bootstrap(torch.tensor([[[0.2]], [[0.6]]]))
    assert (low.item(), high.item()) == pytest.approx((0.2, 0.6))  # both twice: a quarter of the resamples each


def test_texts_longer_than_the_context_are_cut_and_empty_ones_refused(patient: Patient) -> None:
    assert len(patient.ids("x" * 500)) == 64
    with pytest.raises(Exception, match="no tokens to measure"):
        patient.ids("")
