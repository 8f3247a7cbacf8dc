from __future__ import annotations

import pytest
import torch
from torch import Tensor

from engine.errors import InputError
from engine.generation import Continuation, Prompt, Sampling
from engine.nn.generate import continue_batch, generate, sample
from engine.nn.load import Patient
from engine.nn.seeds import generator

PROMPTS = [
    Prompt("fox", "A fox"),
    Prompt("pear", "A pear tree in the yard"),
    Prompt("two", "It"),
    Prompt("rain", "Rain,"),
]
FEW = Sampling(new_tokens=12)
END = 2


def texts(patient: Patient, prompts: list[Prompt], sampling: Sampling = FEW) -> list[Continuation]:
    *_, found = generate(patient, prompts, sampling)
    assert isinstance(found, list)
    return found


def plain(patient: Patient, prompt: Prompt, sampling: Sampling) -> list[int]:
    """The same as written down in the paper: no cache, no batch, no sorting; one token at a time."""
    ids = patient.ids(prompt.text)
    draw = generator(f"generate/{prompt.name}", sampling.seed)
    written: list[int] = []
    for u in torch.rand(sampling.new_tokens, dtype=torch.float64, generator=draw).tolist():
        with torch.no_grad():
            p = (patient.model(input_ids=ids[None]).logits[0, -1] / sampling.temperature).softmax(-1).tolist()
        likeliest, kept, mass = sorted(range(len(p)), key=lambda i: -p[i]), [], 0.0
        for token in likeliest:
            if mass >= sampling.top_p:
                break
            kept.append(token)
            mass += p[token]
        reached = 0.0
        for token in kept:
            reached += p[token]
            if reached > u * mass:
                break
        if token == END:
            return written
        written.append(token)
        ids = torch.cat([ids, torch.tensor([token])])
    return written


def test_it_is_what_a_plain_loop_writes(patient: Patient) -> None:
    found = continue_batch(patient, PROMPTS, FEW)
    assert found == [plain(patient, prompt, FEW) for prompt in PROMPTS]
    assert len({tuple(ids) for ids in found}) == 4


def test_neither_batch_nor_order_nor_length_changes_a_text(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    together = texts(patient, PROMPTS)
    assert texts(patient, PROMPTS[::-1]) == together[::-1]
    monkeypatch.setattr("engine.nn.generate.AT_ONCE", 1)
    assert texts(patient, PROMPTS) == together
    one, three = (continue_batch(patient, PROMPTS, Sampling(new_tokens=n)) for n in (4, 12))
    assert one == [ids[:4] for ids in three]


def test_the_seed_and_the_name_choose_the_text(patient: Patient) -> None:
    first = texts(patient, PROMPTS[:1])
    assert texts(patient, PROMPTS[:1]) == first
    assert texts(patient, PROMPTS[:1], Sampling(new_tokens=12, seed=43)) != first
    assert texts(patient, [Prompt("another name", "A fox")])[0].text != first[0].text


def test_progress_comes_first_and_the_texts_last(patient: Patient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.nn.generate.AT_ONCE", 3)
    *done, found = generate(patient, PROMPTS, FEW)
    assert done == [3, 4]
    assert isinstance(found, list)
    assert [c.prompt for c in found] == ["fox", "pear", "two", "rain"]
    assert found[1].prompt_text == "A pear tree in the yard" and found[1].tokens == 12


def test_a_text_stops_where_the_model_ends_it(patient: Patient) -> None:
    told = continue_batch(patient, PROMPTS, FEW)
    patient.tokenizer.eos_token = patient.tokenizer.convert_ids_to_tokens(told[1][5])  # a token that it will write
    stopped = continue_batch(patient, PROMPTS, FEW)
    assert stopped[1] == told[1][: told[1].index(told[1][5])]
    assert all(ids == whole[: len(ids)] for ids, whole in zip(stopped, told, strict=True))


def test_nothing_exceeds_the_context(patient: Patient) -> None:
    seen: list[int] = []

    def watch(module: object, args: object, options: dict[str, Tensor]) -> None:
        seen.append(options["attention_mask"].shape[1])

    handle = patient.model.base_model.register_forward_pre_hook(watch, with_kwargs=True)  # type: ignore[arg-type]
    (written,) = continue_batch(patient, [Prompt("long", "word " * 40)], Sampling(new_tokens=500))
    handle.remove()
    assert max(seen) < patient.context == 64
    assert seen[0] == 32 and len(written) <= 32  # half for the prompt, half for what is new


def test_stock_and_after_draw_alike(patient: Patient) -> None:
    stock = texts(patient, PROMPTS)
    weight = patient.attention(1).get_submodule("dense").weight.data
    before = weight.clone()
    weight.mul_(3.0)
    after = texts(patient, PROMPTS)
    weight.copy_(before)
    assert after != stock and texts(patient, PROMPTS) == stock


@pytest.mark.parametrize(("u", "token"), [(0.0, 2), (0.55, 2), (0.56, 0), (0.88, 0), (0.9, 3), (0.999999, 3)])
def test_top_p_by_hand(u: float, token: int) -> None:
    # 0.5, 0.3 and 0.1 are kept (0.8 has not reached 0.85, 0.9 has): drawn as 5/9, 3/9 and 1/9
    logits = torch.tensor([[0.3, 0.06, 0.5, 0.1, 0.04]]).log()
    assert sample(logits, torch.tensor([u]), Sampling(temperature=1.0, top_p=0.85)).tolist() == [token]


def test_a_low_temperature_takes_the_likeliest_token() -> None:
    logits = torch.tensor([[1.0, 3.0, 2.9], [5.0, 1.0, 1.0]])
    assert sample(logits, torch.tensor([0.99, 0.99]), Sampling(temperature=0.01)).tolist() == [1, 0]


def test_all_tokens_can_be_drawn_at_top_p_one() -> None:
    logits = torch.zeros(1000, 4)
    draws = torch.rand(1000, generator=generator("draws")).double()
    counts = sample(logits, draws, Sampling(temperature=1.0, top_p=1.0)).bincount(minlength=4)
    assert counts.min() > 200


def test_figures_that_are_not_finite_are_refused(patient: Patient) -> None:
    with pytest.raises(InputError, match="not finite"):
        sample(torch.full((1, 4), float("nan")), torch.tensor([0.5]), FEW)
    patient.model.get_parameter("transformer.ln_f.weight").data.fill_(float("inf"))
    with pytest.raises(InputError, match="not finite"):
        texts(patient, PROMPTS)


def test_a_prompt_without_tokens_is_refused(patient: Patient) -> None:
    with pytest.raises(InputError, match="no tokens"):
        texts(patient, [Prompt("mute", "")])


def test_the_model_is_left_as_it_was(patient: Patient) -> None:
    ids = patient.ids("A fox")
    before = patient.model(input_ids=ids[None]).logits
    texts(patient, PROMPTS)
    assert torch.equal(patient.model(input_ids=ids[None]).logits, before)
