from __future__ import annotations

import pytest
import torch

from engine.errors import InputError
from engine.heads import Head
from engine.nn.attention import statistics
from engine.nn.load import Patient
from engine.nn.pattern import SHOWN, TOP, pattern


def test_a_pattern_is_the_models_own_matrix_in_few_figures(patient: Patient) -> None:
    ids = patient.ids("where does it look")
    with torch.no_grad():
        weights = patient.model(input_ids=ids[None], output_attentions=True).attentions[2][0, 3]  # (T, T)
    found = pattern(patient, ids, Head(2, 3))
    assert found.tokens == ["<s>", *"where does it look"]
    assert found.received == pytest.approx(weights.mean(0).tolist(), abs=1e-4)
    for query, keys in enumerate(found.top):
        assert [weight for _, weight in keys] == sorted((weight for _, weight in keys), reverse=True)
        assert len(keys) <= min(TOP, query + 1)
        for key, weight in keys:
            assert weight == pytest.approx(weights[query, int(key)].item(), abs=6e-4)
        left = sorted(set(range(query + 1)) - {int(key) for key, _ in keys})
        assert all(weights[query, key] <= keys[-1][1] + 6e-4 for key in left) or not left
    assert found.top[0] == [[0, 1.0]]


def test_what_the_first_token_receives_is_the_heads_mass(patient: Patient) -> None:
    ids = patient.ids("some words")
    mass = statistics(patient, ids[None])[0][0]
    for head in (Head(0, 0), Head(1, 2)):
        assert pattern(patient, ids, head).received[0] == pytest.approx(mass[head].item(), abs=1e-4)


def test_a_long_text_is_shown_by_its_first_tokens(patient: Patient) -> None:
    ids = torch.arange(4, 4 + SHOWN + 30)
    found = pattern(patient, ids, Head(1, 1))
    assert len(found.tokens) == len(found.top) == len(found.received) == SHOWN
    assert found == pattern(patient, ids[:SHOWN], Head(1, 1))


def test_one_token_sees_itself(patient: Patient) -> None:
    found = pattern(patient, torch.tensor([40]), Head(0, 1))
    assert (found.top, found.received) == ([[[0, 1.0]]], [1.0])


@pytest.mark.parametrize("head", [Head(3, 0), Head(0, 4)])
def test_a_head_that_is_not_there_is_refused(patient: Patient, head: Head) -> None:
    with pytest.raises(InputError, match=f"has no head {head}; its heads go up to L2-H3"):
        pattern(patient, torch.tensor([40, 41]), head)
