"""Batches, padding and order never move a figure."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import BloomConfig, BloomForCausalLM

from engine.anatomy import anatomy_of
from engine.nn import attention
from engine.nn.attention import in_batches, pad, rest_rows, statistics
from engine.nn.load import Patient
from tests.engine.nn.patients import tokenizer

LENGTHS = (1, 2, 9, 30, 30, 61)


def random_patient(n_heads: int) -> Patient:
    torch.manual_seed(n_heads)
    config = BloomConfig(vocab_size=260, hidden_size=6 * n_heads, n_layer=2, n_head=n_heads, initializer_range=0.3)
    model = BloomForCausalLM(config).eval().requires_grad_(False)
    model.set_attn_implementation("eager")
    return Patient("tiny", Path(), "", "", model, tokenizer(), anatomy_of(config.to_dict(), "tiny"), 64)


@pytest.fixture(params=[4, 6], ids=["4 heads", "6 heads"])
def tiny(request: pytest.FixtureRequest) -> Patient:
    """Of 6 heads too: not a power of two, so the slopes interleave."""
    return random_patient(request.param)


@pytest.fixture
def texts() -> list[Tensor]:
    draw = torch.Generator().manual_seed(1)
    return [torch.randint(4, 260, (length,), generator=draw) for length in LENGTHS]


@pytest.fixture
def alone(tiny: Patient, texts: list[Tensor]) -> tuple[Tensor, Tensor]:
    """Each text by itself, nothing padded."""
    each = [statistics(tiny, text[None]) for text in texts]
    return torch.cat([mass for mass, _ in each]), torch.cat([entropy for _, entropy in each])


def same(found: tuple[Tensor, Tensor], expected: tuple[Tensor, Tensor]) -> bool:
    return all((f - e).abs().max() < 1e-5 for f, e in zip(found, expected, strict=True))


@pytest.mark.parametrize("left", [0, 3, 100], ids=["right", "both", "left"])
def test_padding_on_either_side_moves_nothing(
    tiny: Patient, texts: list[Tensor], alone: tuple[Tensor, Tensor], left: int
) -> None:
    width = max(LENGTHS) + 4
    ids, mask = torch.full((len(texts), width), 7), torch.zeros(len(texts), width, dtype=torch.long)
    for row, text in enumerate(texts):
        start = min(left, width - len(text))
        ids[row, start : start + len(text)] = text
        mask[row, start : start + len(text)] = 1
    found = statistics(tiny, ids, mask, check=True)
    assert same(found, alone)
    naive = statistics(tiny, ids)[0]  # the pads read as text
    assert (naive - alone[0]).abs().max() > 1e-2


@pytest.mark.parametrize("at_once", [1, 60, 61, 100, 10_000])
def test_the_size_of_a_batch_moves_nothing(
    tiny: Patient, texts: list[Tensor], alone: tuple[Tensor, Tensor], at_once: int
) -> None:
    for batch in in_batches(texts, at_once):
        found = statistics(tiny, *pad([texts[i] for i in batch]))
        assert same(found, (alone[0][batch], alone[1][batch]))


def test_order_and_batches_do_not_move_the_check_of_a_pass(
    tiny: Patient, texts: list[Tensor], alone: tuple[Tensor, Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    for at_once in (1, 64, 4096):
        monkeypatch.setitem(attention.TOKENS_AT_ONCE, "cpu", at_once)
        for given in (texts, texts[::-1], texts[3:] + texts[:3]):
            assert torch.tensor(rest_rows(tiny, given)[0]).allclose(alone[0].mean(0), rtol=0, atol=1e-5)


def test_a_batch_holds_no_more_than_its_share_longest_first() -> None:
    texts = [torch.ones(length, dtype=torch.long) for length in (5, 50, 20, 3, 19)]
    assert list(in_batches(texts, 40)) == [[1], [2, 4], [0, 3]]
    assert list(in_batches(texts, 1)) == [[1], [2], [4], [0], [3]]
    assert list(in_batches([], 40)) == []


def test_texts_of_one_length_need_no_mask() -> None:
    ids, mask = pad([torch.tensor([1, 2]), torch.tensor([3, 4])])
    assert ids.tolist() == [[1, 2], [3, 4]] and mask is None
    ids, mask = pad([torch.tensor([1, 2]), torch.tensor([3])])
    assert ids.shape == (2, 2) and mask is not None and mask.tolist() == [[1, 1], [1, 0]]


def test_a_row_of_padding_alone_is_refused(tiny: Patient) -> None:
    with pytest.raises(ValueError, match="no real token"):
        statistics(tiny, torch.ones(2, 3, dtype=torch.long), torch.tensor([[1, 1, 0], [0, 0, 0]]))
