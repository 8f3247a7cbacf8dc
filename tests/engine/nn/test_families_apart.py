"""What single families bring: shared K and V, sink logits, windows, a bias that the library counts twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from engine import events, record
from engine.anatomy import anatomy_of, whole_groups
from engine.errors import InputError
from engine.heads import Head, HeadMap, uniform_bos_mass
from engine.journal import Reader
from engine.nn.attention import figures, head_weights, measure, statistics
from engine.nn.load import load
from engine.nn.pattern import pattern
from engine.nn.slices import Slices
from engine.nn.watching import Scored
from engine.nn.worker import Worker
from engine.plan import Plan
from engine.preflight import preflight
from engine.probes import Probe
from engine.session import create_session
from engine.verify import verify
from tests.engine.nn.families import IDS, WINDOW, make_family, one, own_attention, train
from tests.engine.nn.patients import write_corpus


def test_falcons_alibi_counts_once_as_in_the_librarys_fused_attention(tmp_path: Path) -> None:
    for name in ("falcon, alibi", "falcon, alibi, multi-query"):
        patient = load(str(make_family(tmp_path / name, name)), device="cpu")
        eager, fused = (
            AutoModelForCausalLM.from_pretrained(patient.folder, dtype=torch.float32, attn_implementation=kind)
            for kind in ("eager", "sdpa")
        )
        with torch.no_grad():
            ours, twice, once = (m(input_ids=IDS[None]).logits for m in (patient.model, eager, fused))
        assert (ours - once).abs().max() < 1e-5
        assert (ours - twice).abs().max() > 1e-3


def test_half_a_group_is_refused_or_taken_along(tmp_path: Path) -> None:
    a = one("llama", tmp_path).anatomy
    assert (a.n_heads, a.n_kv_heads) == (4, 2)
    assert a.sharing(Head(1, 3)) == [Head(1, 2), Head(1, 3)]
    with pytest.raises(InputError, match=r"L1-H3 shares its K and V with L1-H2.*--whole-groups.*--parts q"):
        whole_groups(a, [Head(0, 0), Head(0, 1), Head(1, 3)], "qkvo", take_along=False)
    assert whole_groups(a, [Head(1, 3)], "qo", take_along=False) == [Head(1, 3)]
    assert whole_groups(a, [Head(1, 3)], "qkvo", take_along=True) == [Head(1, 2), Head(1, 3)]
    both = [Head(1, 2), Head(1, 3)]
    assert whole_groups(a, both, "v", take_along=False) == both
    # two q and two o of 8 × 32, and one k and v of both
    assert a.trained_parameters(both) == (2 + 2 + 1 + 1) * 8 * 32


def test_a_groups_keys_are_drawn_alike_whichever_heads_are_named(tmp_path: Path) -> None:
    patient = one("llama", tmp_path)
    rows = patient.attention(0).get_parameter("k_proj.weight")
    slices = Slices(patient, [Head(0, 2), Head(0, 3)])
    slices.reinitialise("xavier_normal", 7)
    first = rows[8:16].clone()
    Slices(patient, [Head(0, 3)]).reinitialise("xavier_normal", 7)
    assert torch.equal(rows[8:16], first)


def test_the_worked_example_of_a_sink_logit() -> None:
    scores = torch.tensor([0.1, -0.2, 0.0, 0.2, -0.1, 0.0])
    k = torch.zeros(1, 6, 4)
    k[0, :, 0] = scores
    q = torch.zeros(1, 6, 4)
    q[..., 0] = 1
    weights, nothing = head_weights(Scored(q, k, 1.0), 0, 6)
    assert nothing is None and weights[0, -1].sum() == pytest.approx(1)
    weights, sink = head_weights(Scored(q, k, 1.0, sinks=torch.tensor([3.0])), 0, 6)
    assert sink is not None
    assert sink[0, -1].item() == pytest.approx(0.77, abs=0.005)
    assert torch.allclose(weights.sum(-1) + sink, torch.ones(1, 6))


def test_the_share_of_the_sink_is_its_own_figure(tmp_path: Path) -> None:
    patient = one("gpt_oss", tmp_path)
    *_, found = measure(patient, [Probe("a", "some words"), Probe("b", "and some others, more of them")])
    assert isinstance(found, HeadMap)
    assert len(found.sink_mass) == 2 and all(0.01 < mass < 0.99 for row in found.sink_mass for mass in row)
    patient.attention(0).get_parameter("sinks").data.fill_(-1e4)
    assert figures(patient, IDS[None], check=True)[2, 0, 0].max() == 0
    patient.attention(0).get_parameter("sinks").data.fill_(1e4)
    mass, entropy, sink = figures(patient, IDS[None], check=True)[:, 0, 0]
    assert (mass.max(), entropy.max(), sink.min()) == (0, 0, 1)


def test_where_a_head_looks_with_a_sink_logit_and_a_window(tmp_path: Path) -> None:
    patient = one("gpt_oss", tmp_path)
    weights = own_attention(patient, IDS)[0, 2]  # (T, T)
    found = pattern(patient, IDS, Head(0, 2))
    assert found.sink == pytest.approx((1 - weights.sum(-1)).tolist(), abs=1e-4)
    assert found.received == pytest.approx(weights.mean(0).tolist(), abs=1e-4)
    assert all(query - WINDOW < key <= query for query, keys in enumerate(found.top) for key, _ in keys)
    assert pattern(one("llama", tmp_path / "other"), IDS, Head(0, 2)).sink == []


def test_a_pass_on_a_model_with_sink_logits_leaves_a_record_that_holds(tmp_path: Path) -> None:
    patient = one("gpt_oss", tmp_path)
    (tmp_path / "texts.txt").write_text("some words to look at\nand a second line of them\n")
    request = events.Created(session="", model=str(patient.folder), device="cpu", texts=str(tmp_path / "texts.txt"))
    session, corpus = create_session(tmp_path / "sessions", request), write_corpus(tmp_path / "birds.txt")
    values = {"targets": "L1-H0", "corpus": [str(corpus)], "steps": 2, "length": 16, "accumulate": 1, "generate": False}
    half, whole = {**values, "parts": "qkvs"}, {**values, "parts": "qkvs", "whole_groups": True, "check_every": 2}
    worker = Worker(session)
    for plan in (half, whole):
        session.send("operate", plan=plan)
    session.send("quit")
    worker.open(worker.inbox)
    worker.serve()
    worker.close()
    refusals = [e.event.message for e in Reader(session.journal).entries() if isinstance(e.event, events.Refused)]
    assert len(refusals) == 1 and "L1-H0 shares its K and V with L1-H1" in refusals[0]
    (done,) = record.load(session).passes
    assert done.target_heads == ["L1-H0", "L1-H1"]
    assert done.sink_logits == "become 0 at the cut, then train"
    stock = record.load(session).diagnosis["stock"]
    assert stock.windows == [WINDOW, 0] and stock.sink_mass is not None and len(stock.sink_mass) == 2
    claims = {claim.name: claim for claim in verify(session)}
    assert [claim for claim in claims.values() if claim.holds is False] == []
    assert all(claims[name].holds for name in ("parameters", "shape", "target_heads", "trained_parameters", "patch"))


def test_the_sink_logit_stays_unless_it_is_named(tmp_path: Path) -> None:
    patient = one("gpt_oss", tmp_path)
    both, logits = [Head(1, 0), Head(1, 1)], patient.attention(1).get_parameter("sinks")
    stock = logits.clone()
    slices = Slices(patient, both)
    slices.reinitialise("xavier_normal", 0)
    train(slices)
    assert torch.equal(logits, stock)
    told = [
        preflight(patient.anatomy, both, Plan(targets="all", parts=p), "float32").sink_logits for p in ("qkv", "qkvs")
    ]
    assert told == ["stay as they are", "become 0 at the cut, then train"]
    slices = Slices(patient, both, "qkvso")
    slices.reinitialise("xavier_normal", 0)
    assert logits[:2].abs().max() == 0 and torch.equal(logits[2:], stock[2:])
    train(slices)
    assert (logits[:2] != 0).all() and torch.equal(logits[2:], stock[2:])


def test_a_sink_logit_that_is_not_there_is_not_cut(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="parts names s, the sink logit, and llama models have none"):
        whole_groups(one("llama", tmp_path).anatomy, [Head(0, 0)], "qso", take_along=False)


def test_position_0_out_of_a_windows_reach_is_not_counted_as_zero(tmp_path: Path) -> None:
    patient = one("qwen2, window", tmp_path)
    assert patient.anatomy.windows == (0, WINDOW)
    *_, found = measure(patient, [Probe("a", "x" * 19), Probe("b", "abc")])  # with <s>: 20 and 4 tokens
    assert isinstance(found, HeadMap)
    assert found.windows == [0, WINDOW]
    assert (found.reach(0), found.reach(1)) == (1, pytest.approx((WINDOW / 20 + 1) / 2))
    over_both = [(uniform_bos_mass(20) + uniform_bos_mass(4)) / 2, (uniform_bos_mass(WINDOW) + uniform_bos_mass(4)) / 2]
    assert [found.uniform(0), found.uniform(1)] == pytest.approx(over_both)
    assert found.uniform() == found.uniform(0)
    weights = own_attention(patient, patient.ids("x" * 19))[1]  # (n_heads, T, T)
    assert weights[:, WINDOW:, 0].abs().max() == 0
    mass = statistics(patient, patient.ids("x" * 19)[None])[0][0, 1]
    assert torch.allclose(mass, weights[:, :WINDOW, 0].mean(-1), atol=1e-5)


def test_a_family_without_an_adapter_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(InputError, match=r"'mamba' model.*adapters for bloom, falcon, gemma.*qwen3 only.*WRITING\.md"):
        anatomy_of({"model_type": "mamba"}, "some/model")
    assert (Path(__file__).parents[3] / "engine" / "families" / "WRITING.md").is_file()


LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "vocab_size": 64,
}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"num_key_value_heads": 3}, "with 3 for K and V are none"),
        ({"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "RoPE is of the kind 'dynamic', and there are default"),
        ({"rope_parameters": {"full_attention": {"rope_type": "longrope"}}}, "kind 'longrope'"),
        ({"model_type": "qwen2", "layer_types": ["full_attention"]}, "1 layer_types for 2 layers"),
        ({"model_type": "qwen2", "layer_types": ["full_attention", "linear"]}, "layers of linear"),
        ({"model_type": "gemma", "use_bidirectional_attention": True}, "attends to the future"),
        ({"model_type": "mpt", "d_model": 32, "n_heads": 4, "attn_config": {"alibi": False}}, "has ALiBi only"),
        ({"model_type": "mpt", "d_model": 32, "n_heads": 4, "attn_config": {"qk_ln": True}}, "no qk_ln"),
        ({"model_type": "gpt2", "add_cross_attention": True}, "attends to an encoder"),
        ({"model_type": "gpt_oss"}, "num_local_experts"),
    ],
)
def test_what_an_adapter_cannot_describe_is_refused_in_words(change: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        anatomy_of({**LLAMA, **change}, "x")
