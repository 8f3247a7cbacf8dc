"""Trials carried out: the program's own protocols in short form on the demo patient, and what kills leave."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine import events, record
from engine.chart import read_chart
from engine.errors import InputError
from engine.files import sha256_of
from engine.heads import Thresholds
from engine.journal import Entry, Reader
from engine.nn.trials import carry_out, check_runs
from engine.protocol import Run, find_protocol, read_protocol, runs_of
from engine.tables import PassTable, Record
from engine.trial import Trial, create_trial, open_trial, state_of
from engine.verify import verify

FEW = {
    "steps": 2,
    "length": 24,
    "micro_batch": 2,
    "check_every": 1,
    "heldout_samples": 4,
    "generate": False,
    "watch": [],
}
TEXT = "It is a truth universally acknowledged, that a single man must be in want of a wife.\nAnd so on.\n"


def short(tmp_path: Path, name: str) -> Trial:
    """A built-in protocol on the demo patient, cut to two steps a pass and one seed."""
    (tmp_path / "texts.txt").write_text(TEXT, "utf-8")
    protocol = read_protocol(find_protocol(name), "demo")
    runs = runs_of(protocol, "demo", n_heads=8, given={"seed": 42}, texts=str(tmp_path / "texts.txt"))
    runs = [replace(run, plans=[plan.model_copy(update=FEW) for plan in run.plans]) for run in runs]
    check_runs(runs)
    return create_trial(tmp_path / "sessions", protocol, runs)


def carried_out(trial: Trial) -> dict[str, Record]:
    """The records of a trial that is done, by arm, each of whose claims holds."""
    assert carry_out(trial) == {}
    assert [state_of(run, read_chart(trial.session(run))) for run in trial.runs] == ["done"] * len(trial.runs)
    for _, session in trial.begun():
        assert [claim for claim in verify(session) if claim.holds is False] == []
    return {run.arm: record.load(session) for run, session in trial.begun()}


def last(found: Record) -> PassTable:
    return found.passes[-1]


def test_two_passes(tmp_path: Path) -> None:
    (found,) = carried_out(short(tmp_path, "two-passes")).values()
    first, second = found.passes
    stock = record.head_map(found.diagnosis["stock"], Thresholds(**found.thresholds))
    band = stock.band()
    assert band
    sick = {str(head) for head in stock.heads() if stock.is_sick(head)}
    assert set(first.target_heads) == {name for name in sick if band[0] <= int(name[-1]) <= band[1]}
    assert second.target_heads
    assert not set(second.target_heads) & set(first.target_heads)  # two steps leave what was cut awake
    for pass_, operated in ((first, len(first.target_heads)), (second, len(sick))):
        assert pass_.drift and pass_.drift.outside.heads + pass_.drift.in_band_frozen.heads == 48 - operated


def test_gradients_only(tmp_path: Path) -> None:
    arms = carried_out(short(tmp_path, "gradients-only"))
    cut, control = last(arms["reinitialised"]), last(arms["gradients only"])
    assert cut.target_heads == control.target_heads
    assert (cut.reinit, control.reinit) == (True, False)
    assert cut.woken_at_cut == len(cut.target_heads)
    assert control.woken_at_cut == 0
    assert cut.ablation_loss_cut == pytest.approx(0, abs=1e-6)  # what was cut adds nothing
    assert control.ablation_loss_cut == pytest.approx(control.ablation_loss_stock)
    assert cut.corpus == control.corpus
    assert cut.heldout_perplexity_stock == control.heldout_perplexity_stock


def test_two_corpora(tmp_path: Path) -> None:
    arms = carried_out(short(tmp_path, "two-corpora"))
    a, b = last(arms["corpus a"]), last(arms["corpus b"])
    of_a, of_b = "demo:bible.txt (held out)", "demo:devil.txt (held out)"
    assert list(a.perplexity_stock) == [of_b]
    assert a.perplexity_stock[of_b] == pytest.approx(b.heldout_perplexity_stock)
    assert b.perplexity_stock[of_a] == pytest.approx(a.heldout_perplexity_stock)
    assert a.perplexity_after and a.perplexity_after[of_b] != pytest.approx(b.heldout_perplexity)


def test_a_healthy_column(tmp_path: Path) -> None:
    arms = carried_out(short(tmp_path, "healthy-column"))
    band, more = last(arms["band"]), last(arms["band and H3"])
    assert set(more.target_heads) - set(band.target_heads) == {f"L{layer}-H3" for layer in range(6)}
    assert [check.step for check in more.check] == [1, 2]
    assert "H3" in band.check[0].columns
    assert "H3" not in more.check[0].columns  # none of it was left alone


def test_relapse(tmp_path: Path) -> None:
    arms = carried_out(short(tmp_path, "relapse"))
    for found in arms.values():
        first, second = found.passes
        assert second.target_heads == first.target_heads
        assert (second.classes, second.reinit) == ("stock", False)
        assert second.woken_at_cut == first.woken  # it begins where the first pass ended
        assert second.heldout_perplexity_stock > 0
    same, other = (last(found).corpus[0].source for found in arms.values())
    assert same != other


def test_a_family_is_diagnosed(tmp_path: Path) -> None:
    arms = carried_out(short(tmp_path, "family"))
    assert [found.patient and found.patient.dtype for found in arms.values()] == ["float32", "bfloat16"]
    assert [(list(found.diagnosis), found.passes) for found in arms.values()] == [(["stock"], [])] * 2


PLAN = """
[every_pass]
corpus = ["birds.txt"]
steps = 3
length = 16
check_every = 1
lr = 1e-2
generate = false
[[arm]]
name = "one"
[[arm.pass]]
targets = "L1-H0"
[[arm]]
name = "none"
[[arm.pass]]
targets = "L1 & L2"
[[arm]]
name = "two"
[[arm.pass]]
targets = "L2-H3"
"""


@pytest.fixture
def trial(tmp_path: Path, folder: Path, corpus: Path) -> Trial:
    """Three arms on a tiny patient, the second of which selects no head."""
    (tmp_path / "texts.txt").write_text(TEXT, "utf-8")
    (tmp_path / "plan.toml").write_text(PLAN, "utf-8")
    protocol = read_protocol(tmp_path / "plan.toml")
    runs = runs_of(protocol, str(folder), texts="texts.txt")
    return create_trial(tmp_path / "sessions", protocol, runs, "cpu")


def patches(trial: Trial) -> list[str]:
    return [sha256_of(session.patch(1)) for _, session in trial.begun() if session.patch(1).exists()]


def test_an_arm_that_fails_does_not_keep_the_others(trial: Trial) -> None:
    wrong = carry_out(trial)
    assert list(wrong) == ["none"]
    assert "select no head" in wrong["none"]
    assert [state_of(run, read_chart(trial.session(run))) for run in trial.runs] == ["done", "failed", "done"]
    assert "select no head" in read_chart(trial.session(trial.runs[1])).message


def test_an_interrupted_trial_goes_on_where_it_was(trial: Trial, tmp_path: Path) -> None:
    seen = []

    def interrupt(run: Run, entry: Entry) -> None:
        seen.append(run.name)
        if run.name == "two" and isinstance(entry.event, events.Check):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        carry_out(trial, interrupt)
    assert trial.own.holder() is None
    before = len(story_of(trial, "one"))
    assert list(carry_out(open_trial(trial.folder))) == ["none"]
    assert len(story_of(trial, "one")) == before  # what was done is not done again
    assert "resumed" in story_of(trial, "two")
    whole = create_trial(tmp_path / "again", read_protocol(tmp_path / "plan.toml"), trial.runs, "cpu")
    carry_out(whole)
    assert patches(trial) == patches(whole)


def story_of(trial: Trial, name: str) -> list[str]:
    return [entry.event.kind for entry in Reader(trial.folder / name / "journal.jsonl").entries()]


def test_a_trial_has_one_holder(trial: Trial) -> None:
    with trial.held(), pytest.raises(InputError, match="is held by a live worker"):
        carry_out(trial)


def test_what_is_missing_is_named_before_anything_is_done(trial: Trial) -> None:
    run = trial.runs[0]
    with pytest.raises(InputError, match=r"corpus not found: no\.txt"):
        check_runs([replace(run, plans=[run.plans[0].model_copy(update={"corpus": ["no.txt"]})])])
    with pytest.raises(InputError, match=r"no\.txt"):
        check_runs([replace(run, texts="no.txt")])
    with pytest.raises(InputError, match="nobody"):
        check_runs([replace(run, model="./nobody")])
