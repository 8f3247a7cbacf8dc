from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from engine import events
from engine.errors import Failure, InputError
from engine.files import sha256_of
from engine.heads import HeadMap
from engine.journal import to_dict
from engine.nn import training
from engine.nn.attention import measure
from engine.nn.load import Patient, load
from engine.nn.operate import operate
from engine.nn.patch import load_patch
from engine.nn.setting import Setting, prepare, require_memory
from engine.plan import Plan
from engine.preflight import memory_bytes
from engine.probes import Probe
from engine.targets import Model, resolve

PROBES = [Probe("a", "a few words to measure on"), Probe("b", "and some more of them, a little longer")]
TARGETS = "L0-H1 | L1 x H0-1 | L2-H3"


def make_plan(corpus: Path, **values: Any) -> Plan:
    defaults = {"steps": 12, "lr": 3e-3, "length": 16, "micro_batch": 2, "accumulate": 2, "check_every": 4}
    return Plan.model_validate({"targets": TARGETS, "corpus": [str(corpus)], **defaults, **values})


def set_up(patient: Patient, plan: Plan, folder: Path) -> Setting:
    stock = list(measure(patient, PROBES))[-1]
    assert isinstance(stock, HeadMap)
    return prepare(patient, plan, 1, folder / "pass-1", stock, stock, [], PROBES, {}, lambda tokens: None)


def nobody() -> list[dict[str, Any]]:
    return []


def asking(commands: dict[int, dict[str, Any]]) -> Callable[[], list[dict[str, Any]]]:
    """An inbox that has something at its n-th opening."""
    opened = iter(range(10**6))
    return lambda: [commands[n] for n in [next(opened)] if n in commands]


def run(folder: Path, plan: Plan, to: Path, inbox: Callable[[], list[dict[str, Any]]] = nobody) -> list[events.Event]:
    to.mkdir(exist_ok=True)
    return list(operate(set_up(load(str(folder), device="cpu"), plan, to), inbox))


def of_kind(found: list[events.Event], kind: type) -> list[Any]:
    return [event for event in found if isinstance(event, kind)]


def timeless(found: list[events.Event]) -> list[dict[str, Any]]:
    measured = ("seconds", "peak_memory_bytes")
    return [{k: v for k, v in to_dict(e).items() if k not in measured} for e in found]


def test_a_pass_tells_its_story_in_order(folder: Path, corpus: Path, tmp_path: Path) -> None:
    found = run(folder, make_plan(corpus), tmp_path / "s")
    kinds = [e.kind for e in found if e.kind != "progress"]
    third = ["step"] * 4 + ["check", "saved"]
    assert kinds == ["pass_started", "cut", "saved", *third, *third, *third, "saved", "diagnosed", "pass_ended"]
    started, ended = of_kind(found, events.PassStarted)[0], of_kind(found, events.PassEnded)[0]
    assert started.target_heads == ["L0-H1", "L1-H0", "L1-H1", "L2-H3"]
    assert (started.zone_layers, started.zone_heads) == ((0, 2), (0, 3))
    assert started.trained_parameters == 4 * (3 * 8 * 32 + 3 * 8 + 32 * 8)
    assert started.frozen_sha256_before == ended.frozen_sha256_after
    assert ended.outcome == "completed"
    assert ended.step == 12
    assert ended.patch_sha256 == sha256_of(tmp_path / "s" / "pass-1" / "best.safetensors")
    checks = of_kind(found, events.Check)
    assert ended.kept_step == min(checks, key=lambda c: c.heldout_perplexity).step
    assert ended.heldout_perplexity == pytest.approx(min(c.heldout_perplexity for c in checks))
    assert checks[-1].heldout_perplexity < of_kind(found, events.Cut)[0].heldout_perplexity


def test_right_after_the_cut_the_targets_are_silent(folder: Path, corpus: Path, tmp_path: Path) -> None:
    patient = load(str(folder), device="cpu")
    (tmp_path / "s").mkdir()
    setting = set_up(patient, make_plan(corpus), tmp_path / "s")
    story = operate(setting, nobody)
    started, cut = next(story), next(story)
    assert isinstance(started, events.PassStarted)
    assert isinstance(cut, events.Cut)
    with torch.no_grad():
        loss = torch.tensor(started.heldout_perplexity_stock).log().item() + started.ablation_loss_stock
    assert cut.heldout_perplexity == pytest.approx(torch.tensor(loss).exp().item(), rel=1e-4)


def test_the_same_seed_gives_the_same_story_and_another_another(folder: Path, corpus: Path, tmp_path: Path) -> None:
    one = run(folder, make_plan(corpus), tmp_path / "one")
    two = run(folder, make_plan(corpus), tmp_path / "two")
    assert timeless(one) == timeless(two)
    other = run(folder, make_plan(corpus, seed=43), tmp_path / "other")
    assert timeless(one) != timeless(other)


def until(story: Iterator[events.Event], count: int) -> list[events.Event]:
    return list(islice(story, count))


@pytest.mark.parametrize("reinit", [True, False])
@pytest.mark.parametrize("count", [3, 6, 8, 9, 17, 21, 22])
def test_stopped_anywhere_and_resumed_it_ends_with_the_same_bytes(
    folder: Path, corpus: Path, tmp_path: Path, count: int, reinit: bool
) -> None:
    plan = make_plan(corpus, reinit=reinit)
    whole = run(folder, plan, tmp_path / "whole")
    (tmp_path / "torn").mkdir()
    first = until(operate(set_up(load(str(folder), device="cpu"), plan, tmp_path / "torn"), nobody), count)
    cut = of_kind(first, events.Cut)[0]
    again = set_up(load(str(folder), device="cpu"), plan, tmp_path / "torn")
    second = list(operate(again, nobody, cut))
    assert second[0].kind == "resumed"
    resumed_at = of_kind(second, events.Resumed)[0].step
    assert resumed_at == max([s.step for s in of_kind(first, events.Saved)], default=0)
    patches = [load_patch(tmp_path / name / "pass-1" / "best.safetensors") for name in ("whole", "torn")]
    for side in ("values", "originals"):
        one, two = (getattr(p, side) for p in patches)
        assert all(torch.equal(one[k], two[k]) for k in one)
    assert timeless(whole)[-1] == timeless(second)[-1]


def test_the_control_starts_from_stock_and_trains(folder: Path, corpus: Path, tmp_path: Path) -> None:
    found = run(folder, make_plan(corpus, reinit=False), tmp_path / "s")
    started, cut = of_kind(found, events.PassStarted)[0], of_kind(found, events.Cut)[0]
    assert cut.heldout_perplexity == started.heldout_perplexity_stock
    assert cut.drift.outside.worst == cut.drift.in_band_frozen.worst == 0
    assert of_kind(found, events.PassEnded)[0].heldout_perplexity < started.heldout_perplexity_stock


def test_stop_keeps_the_best_or_the_last(folder: Path, corpus: Path, tmp_path: Path) -> None:
    for keep, outcome in (("best", "stopped"), ("last", "stopped_last")):
        inbox = asking({5: {"command": "stop", "keep": keep}})
        found = run(folder, make_plan(corpus, lr=0.3), tmp_path / keep, inbox)  # a rate that spoils the model
        ended, checks = of_kind(found, events.PassEnded)[0], of_kind(found, events.Check)
        assert (ended.outcome, ended.step) == (outcome, 6)
        assert [c.step for c in checks] == [4, 6]
        best = min(checks, key=lambda c: c.heldout_perplexity).step
        assert ended.kept_step == (best if keep == "best" else 6)
        kept = next(c for c in checks if c.step == ended.kept_step)
        assert ended.heldout_perplexity == pytest.approx(kept.heldout_perplexity)


def test_a_check_on_demand_does_not_disturb_the_training(folder: Path, corpus: Path, tmp_path: Path) -> None:
    quiet = run(folder, make_plan(corpus), tmp_path / "quiet")
    asked = run(folder, make_plan(corpus), tmp_path / "asked", asking({1: {"command": "check"}}))
    assert [c.step for c in of_kind(asked, events.Check)] == [2, 4, 8, 12]
    assert timeless(of_kind(asked, events.Step)) == timeless(of_kind(quiet, events.Step))


def test_pause_saves_waits_and_goes_on(folder: Path, corpus: Path, tmp_path: Path) -> None:
    inbox = asking({1: {"command": "pause"}, 4: {"command": "note", "text": "[b]tea"}, 6: {"command": "continue"}})
    found = run(folder, make_plan(corpus), tmp_path / "s", inbox)
    around = [e.kind for e in found[:9]]
    assert around == ["pass_started", "cut", "saved", "step", "step", "saved", "paused", "note", "continued"]
    assert of_kind(found, events.Note)[0].text == "[b]tea"
    assert of_kind(found, events.PassEnded)[0].outcome == "completed"


def test_patience_ends_a_pass_that_gets_worse(folder: Path, corpus: Path, tmp_path: Path) -> None:
    found = run(folder, make_plan(corpus, lr=1.0, steps=40, check_every=1, patience=2), tmp_path / "s")
    ended, checks = of_kind(found, events.PassEnded)[0], of_kind(found, events.Check)
    assert ended.outcome == "patience"
    assert ended.step < 40
    assert [c.best for c in checks[-2:]] == [False, False]
    assert ended.kept_step == checks[-3].step


def test_three_steps_without_a_number_end_the_pass_with_the_best(
    folder: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = training.token_losses, iter(range(10**6))

    def broken(patient: Patient, samples: torch.Tensor) -> torch.Tensor:
        loss = real(patient, samples)
        return loss * float("nan") if next(calls) in (4, *range(12, 100)) else loss  # two calls a step

    monkeypatch.setattr(training, "token_losses", broken)
    found = run(folder, make_plan(corpus), tmp_path / "s")
    ended = of_kind(found, events.PassEnded)[0]
    assert (ended.outcome, ended.step, ended.refused_steps, ended.kept_step) == ("diverged", 9, 4, 8)
    # the check at step 8 still saw finite weights: those of step 6
    refused = [s.step for s in of_kind(found, events.Step) if s.loss == -1]
    assert refused == [3, 7, 8, 9]


def test_epochs_count_the_corpus(folder: Path, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    setting = set_up(load(str(folder), device="cpu"), make_plan(corpus, steps=None, epochs=2), tmp_path / "s")
    assert setting.n_samples == 2 * len(setting.corpus.train)
    assert setting.n_steps == -(-setting.n_samples // 4)


def test_a_damaged_state_gets_a_sentence(folder: Path, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    plan = make_plan(corpus)
    first = until(operate(set_up(load(str(folder), device="cpu"), plan, tmp_path / "s"), nobody), 6)
    state = tmp_path / "s" / "pass-1" / "state.safetensors"
    state.write_bytes(state.read_bytes()[:50])
    again = set_up(load(str(folder), device="cpu"), plan, tmp_path / "s")
    with pytest.raises(InputError, match=r"state\.safetensors is damaged"):
        list(operate(again, nobody, of_kind(first, events.Cut)[0]))


def test_targets_that_select_nothing_are_refused(patient: Patient, corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="select no head"):
        set_up(patient, make_plan(corpus, targets="dead & !dead"), tmp_path)


def test_the_last_step_takes_what_is_left(folder: Path, corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    setting = set_up(load(str(folder), device="cpu"), make_plan(corpus, steps=None, epochs=1), tmp_path / "s")
    setting.n_samples = 10  # two steps of four samples, one of two
    found = list(operate(setting, nobody))
    assert [step.tokens for step in of_kind(found, events.Step)] == [64, 128, 160]
    assert of_kind(found, events.PassEnded)[0].trained_tokens == 160


def test_each_target_is_weighed_by_itself_at_every_stage(folder: Path, corpus: Path, tmp_path: Path) -> None:
    found = run(folder, make_plan(corpus), tmp_path / "s")
    started, cut, ended = (of_kind(found, k)[0] for k in (events.PassStarted, events.Cut, events.PassEnded))
    assert len(started.ablation_heads_stock) == len(ended.ablation_heads_after) == 4
    assert all(worth != 0 for worth in started.ablation_heads_stock + ended.ablation_heads_after)
    assert cut.ablation_heads == [0.0] * 4  # silent already
    assert cut.ablation_loss == 0
    assert started.ablation_tokens == 16 * 15
    assert list(started.heldout_sources_stock) == [str(corpus)]
    assert started.heldout_sources_stock[str(corpus)] == started.heldout_perplexity_stock
    control = of_kind(run(folder, make_plan(corpus, reinit=False), tmp_path / "control"), events.Cut)[0]
    assert control.ablation_heads == started.ablation_heads_stock


def test_perplexity_is_told_per_source_and_weighted_over_all(folder: Path, corpus: Path, tmp_path: Path) -> None:
    other = tmp_path / "songs.txt"
    other.write_text("\n\n".join(f"la la {i} tra la la" for i in range(150)))
    plan = make_plan(corpus, steps=1).model_copy(update={"corpus": [str(corpus), str(other)]})
    found = run(folder, plan, tmp_path / "s")
    started = of_kind(found, events.PassStarted)[0]
    both = started.heldout_sources_stock
    assert set(both) == {str(corpus), str(other)}
    assert min(both.values()) < started.heldout_perplexity_stock < max(both.values())


def out_of_room(monkeypatch: pytest.MonkeyPatch, at_call: int = 0) -> None:
    """From a call on, more than one sample at once asks for more memory than any machine has."""
    real, calls = training.token_losses, iter(range(10**6))

    def hungry(patient: Patient, samples: torch.Tensor) -> torch.Tensor:
        if next(calls) >= at_call and len(samples) > 1:
            torch.empty(2**55)
        return real(patient, samples)

    monkeypatch.setattr(training, "token_losses", hungry)


def test_out_of_memory_keeps_the_state_and_a_smaller_micro_batch_goes_on(
    folder: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = make_plan(corpus)
    whole = run(folder, plan, tmp_path / "whole")
    out_of_room(monkeypatch, at_call=12)  # in the seventh step, two micro-batches each
    patient = load(str(folder), device="cpu")
    (tmp_path / "torn").mkdir()
    before = {name: p.clone() for name, p in patient.model.named_parameters()}
    found: list[events.Event] = []
    with pytest.raises(Failure, match=r"out of memory in step 7 with micro-batch 2.*resume .*--micro-batch 1"):
        for event in operate(set_up(patient, plan, tmp_path / "torn"), nobody):
            found.append(event)
    assert all(torch.equal(p, before[name]) for name, p in patient.model.named_parameters())
    last = found[-1]
    assert isinstance(last, events.OutOfMemory)
    assert (last.step, last.offered_micro_batch, last.offered_accumulate) == (6, 1, 4)
    smaller = plan.model_copy(update={"micro_batch": 1, "accumulate": 4})
    setting = set_up(patient, smaller, tmp_path / "torn")
    rest = list(operate(setting, nobody, of_kind(found, events.Cut)[0]))
    assert of_kind(rest, events.Resumed)[0].step == 6
    assert [s.step for s in of_kind(rest, events.Step)] == [7, 8, 9, 10, 11, 12]
    one, two = of_kind(whole, events.PassEnded)[0], of_kind(rest, events.PassEnded)[0]
    assert two.heldout_perplexity == pytest.approx(one.heldout_perplexity, rel=1e-4)


def test_where_no_smaller_micro_batch_is_left_checkpointing_is_offered(
    folder: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training, "token_losses", lambda patient, samples: torch.empty(2**55))
    with pytest.raises(Failure, match="--checkpointing"):
        run(folder, make_plan(corpus, micro_batch=1), tmp_path / "s")


def test_options_of_a_running_pass_can_be_set_and_last(folder: Path, corpus: Path, tmp_path: Path) -> None:
    commands = {1: {"command": "set", "option": "check_every", "value": 3}}
    commands |= {2: {"command": "set", "option": "lr", "value": 1.0}}
    commands |= {3: {"command": "set", "option": "micro_batch", "value": 4}}
    found = run(folder, make_plan(corpus), tmp_path / "s", asking(commands))
    assert [c.step for c in of_kind(found, events.Check)] == [3, 6, 9, 12]
    assert [(c.step, c.values) for c in of_kind(found, events.Changed)] == [
        (2, {"check_every": 3}),
        (4, {"micro_batch": 4, "accumulate": 1}),
    ]
    assert "lr cannot be set while a pass runs" in of_kind(found, events.Refused)[0].message


def test_a_pass_with_checkpointing_ends_as_the_one_without(folder: Path, corpus: Path, tmp_path: Path) -> None:
    plain = of_kind(run(folder, make_plan(corpus), tmp_path / "plain"), events.PassEnded)[0]
    again = of_kind(run(folder, make_plan(corpus, checkpointing=True), tmp_path / "again"), events.PassEnded)[0]
    assert again.heldout_perplexity == pytest.approx(plain.heldout_perplexity, rel=1e-6)


def test_a_quantised_patient_is_measured_and_not_operated_on(patient: Patient, corpus: Path, tmp_path: Path) -> None:
    patient.untrainable = "its weights are quantised"
    with pytest.raises(InputError, match="can be diagnosed, not operated on: its weights are quantised"):
        set_up(patient, make_plan(corpus), tmp_path)


def test_a_pass_too_large_for_the_memory_is_refused_with_what_would_fit(patient: Patient) -> None:
    targets = resolve(TARGETS, Model(3, 4))
    plan = make_plan(Path("birds.txt"), length=4096, micro_batch=8, accumulate=1)
    whole, quarter = (
        memory_bytes(patient.anatomy, targets, plan.model_copy(update={"micro_batch": n}), "float32", 64)
        for n in (8, 2)
    )
    require_memory(patient, targets, plan, room=whole)
    require_memory(patient, targets, plan, room=int(whole / 1.2) + 1)  # within the estimate's tolerance
    with pytest.raises(InputError, match=r"would need about .* micro-batch 2 and accumulate 4 .* it would need"):
        require_memory(patient, targets, plan, room=quarter)
    with pytest.raises(InputError, match="choose fewer targets, or shorter samples"):
        require_memory(patient, targets, plan, room=1000)
