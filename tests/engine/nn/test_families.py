"""Every family with an adapter, held against the library's own models: the same checks for all."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tomli_w
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from engine import events, record
from engine.anatomy import anatomy_of, read_config, recorded_anatomy, whole_groups
from engine.checkpoint import tensor_places
from engine.errors import InputError
from engine.families import FAMILIES
from engine.files import sha256_of
from engine.generation import Prompt, Sampling
from engine.heads import Head, HeadMap, uniform_bos_mass
from engine.journal import Reader
from engine.nn.attention import figures, head_weights, measure, pad, statistics
from engine.nn.generate import continue_batch
from engine.nn.load import Patient, load
from engine.nn.patch import Patch, apply_patches, undo_patches
from engine.nn.pattern import pattern
from engine.nn.slices import Slices
from engine.nn.training import checkpointed, gradients
from engine.nn.vitals import ablated, ablation_loss, dormant_neurons, mean_loss, silence_each
from engine.nn.watching import Scored
from engine.nn.worker import Worker
from engine.plan import Plan
from engine.preflight import preflight
from engine.probes import Probe
from engine.session import create_session
from engine.verify import verify
from tests.engine.nn.families import CONFIGS, WINDOW, make_family
from tests.engine.nn.patients import write_corpus

IDS = torch.randint(4, 260, (24,), generator=torch.Generator().manual_seed(1))
LENGTHS = (24, 1, 4, 13)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Patient]:
    """A patient by name, made and loaded once."""
    root = tmp_path_factory.mktemp("families")

    @cache
    def of(name: str) -> Patient:
        return load(str(make_family(root / name, name)), device="cpu")

    return of


@pytest.fixture(params=CONFIGS)
def patient(request: pytest.FixtureRequest, loaded: Callable[[str], Patient]) -> Patient:
    return another(loaded(request.param))


def another(patient: Patient) -> Patient:
    """The same patient, of which anything may be changed."""
    return replace(patient, model=deepcopy(patient.model))


def one(name: str, folder: Path) -> Patient:
    return load(str(make_family(folder / "one", name)), device="cpu")


def own_attention(patient: Patient, ids: Tensor) -> Tensor:
    """What the model itself returns  # (n_layers, n_heads, T, T)"""
    with torch.no_grad():
        found = patient.model(input_ids=ids[None], output_attentions=True, use_cache=False).attentions
    return torch.stack(found)[:, 0]


def own_figures(patient: Patient, ids: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Mass, entropy and sink mass from these weights, by their definitions."""
    weights = own_attention(patient, ids)
    sink = 1 - weights.sum(-1)  # (n_layers, n_heads, T); 0 but where there is a sink logit
    entropy = -(weights * weights.clamp_min(1e-30).log()).sum(-1) - sink * sink.clamp_min(1e-30).log()
    mass = torch.zeros(weights.shape[:2])
    for layer, its in enumerate(weights):
        reached = min(len(ids), patient.anatomy.window(layer) or len(ids))
        assert reached == len(ids) or its[:, reached:, 0].abs().max() == 0
        mass[layer] = its[:, :reached, 0].mean(-1)
    return mass, entropy.mean(-1), sink.mean(-1)


def test_every_family_has_a_model_here() -> None:
    assert {config().model_type for config in CONFIGS.values()} == set(FAMILIES)


def test_shape_and_size_are_the_models(patient: Patient) -> None:
    a = patient.anatomy
    assert a.total_parameters == sum(p.numel() for p in patient.model.parameters())
    heads = [Head(layer, head) for layer in range(a.n_layers) for head in range(a.n_heads)]
    parts = "qkvs" if a.sinks else "qkv"
    for piece in a.slices_of(heads, parts):
        tensor = patient.model.get_parameter(piece.tensor)
        assert piece.stop <= tensor.shape[piece.dim]
        assert a.slice_shape(piece) == tuple(tensor.narrow(piece.dim, piece.start, piece.stop - piece.start).shape)
    touched = {piece.tensor for piece in a.slices_of(heads, parts)}
    sizes = sum(patient.model.get_parameter(name).numel() for name in touched)  # all heads: whole tensors
    assert sizes == a.touched_tensor_parameters(heads, parts) == a.trained_parameters(heads, parts)


def test_the_head_map_is_that_of_the_models_own_attention(patient: Patient) -> None:
    found = figures(patient, IDS[None], check=True)[:, 0]
    for ours, theirs, name in zip(found, own_figures(patient, IDS), ("mass", "entropy", "sink"), strict=True):
        assert (ours - theirs).abs().max() < 1e-5, name
    spread = found[0].max() - found[0].min()
    assert spread > 0.01  # no two sides agreeing on nothing


def test_padding_on_either_side_moves_nothing(patient: Patient) -> None:
    texts = [IDS[:length] for length in LENGTHS]
    alone = torch.cat([figures(patient, text[None]) for text in texts], 1)
    for left in (2, 100):  # some on both sides, all on the left
        ids, mask = torch.full((len(texts), 27), 7), torch.zeros(len(texts), 27, dtype=torch.long)
        for row, text in enumerate(texts):
            start = min(left, 27 - len(text))
            ids[row, start : start + len(text)] = text
            mask[row, start : start + len(text)] = 1
        assert (figures(patient, ids, mask, check=True) - alone).abs().max() < 1e-5
    assert (figures(patient, *pad(texts), check=True) - alone).abs().max() < 1e-5


def test_half_precision_is_measured_and_holds_against_the_model(patient: Patient) -> None:
    full = figures(patient, IDS[None])
    patient.model.to(torch.bfloat16)  # type: ignore[call-overload]
    half = figures(patient, IDS[None], check=True)
    assert half.dtype == torch.float32 and bool(half.isfinite().all())
    assert (half - full)[0].abs().max() < 0.05


def test_one_head_cut_changes_only_its_own_attention(patient: Patient) -> None:
    a = patient.anatomy
    for head in (Head(1, index) for index in range(a.n_heads)):
        group = a.sharing(head)
        for parts, expected in (("q", [head]), ("k", group), ("qkv", group)):
            slices = Slices(patient, [head], parts)
            stock, before = slices.values(), own_attention(patient, IDS)
            slices.reinitialise("xavier_normal", 0)
            moved = (own_attention(patient, IDS) - before).abs().amax((-1, -2)) > 1e-6  # (n_layers, n_heads)
            assert moved.nonzero().tolist() == [[1, other.head] for other in expected], parts
            slices.put(stock)


def test_zeroed_output_columns_are_a_head_without_output(patient: Patient) -> None:
    a = patient.anatomy
    for head in (Head(0, 0), Head(0, 3), Head(1, 2)):
        with silent_input(patient, head), torch.no_grad():
            silent = patient.model(input_ids=IDS[None]).logits
        with ablated(patient, [head]), torch.no_grad():
            zeroed = patient.model(input_ids=IDS[None]).logits
        with torch.no_grad():
            plain = patient.model(input_ids=IDS[None]).logits
        assert (silent - zeroed).abs().max() < 1e-5
        assert (silent - plain).abs().max() > 1e-4
    assert a.n_heads >= 4


@contextmanager
def silent_input(patient: Patient, head: Head) -> Iterator[None]:
    """While open, the output projection is handed zeros for one head: heads come one after the other there."""
    d = patient.anatomy.d_head

    def silence(module: Any, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        x = args[0].clone()
        x[..., head.head * d : (head.head + 1) * d] = 0
        return (x,)

    projection = patient.attention(head.layer).get_submodule(patient.anatomy.o.module)
    hook = projection.register_forward_pre_hook(silence)
    try:
        yield
    finally:
        hook.remove()


def test_silencing_each_in_turn_is_silencing_each_alone(patient: Patient) -> None:
    samples, a = IDS.view(2, 12), patient.anatomy
    heads = [Head(layer, head) for layer in range(a.n_layers) for head in range(a.n_heads)]
    loss = mean_loss(patient, samples)
    *_, found = silence_each(patient, heads, samples, loss)
    assert isinstance(found, list)
    for head, worth in zip(heads, found, strict=True):
        assert worth == pytest.approx(ablation_loss(patient, [head], samples, loss), abs=3e-6)


def targets_of(patient: Patient) -> list[Head]:
    """Heads of both layers, whole groups."""
    named = [Head(0, patient.anatomy.n_heads - 1), Head(1, 0)]
    return whole_groups(patient.anatomy, named, "qkv", take_along=True)


def parts_of(patient: Patient) -> str:
    return "qkvs" if patient.anatomy.sinks else "qkv"


def test_gradients_are_those_of_the_whole_model(patient: Patient) -> None:
    ours, theirs = patient, another(patient)
    samples, targets, parts = IDS.view(2, 12), targets_of(ours), parts_of(ours)
    slices = Slices(ours, targets, parts)
    with torch.no_grad():
        plain = ours.model(input_ids=samples).logits
    with slices.training():
        with torch.no_grad():
            assert torch.equal(ours.model(input_ids=samples).logits, plain)  # to the bit
        loss = gradients(ours, samples, 1)
        found = [master.grad for master in slices.masters().values()]
        for master in slices.masters().values():
            master.grad = None
        with checkpointed(ours, 0):
            gradients(ours, samples, 1)
    for grad, master in zip(found, slices.masters().values(), strict=True):
        assert grad is not None and master.grad is not None and torch.equal(grad, master.grad)
    assert all(p.grad is None and not p.requires_grad for p in ours.model.parameters())
    theirs.model.requires_grad_(True)
    theirs_loss = theirs.model(input_ids=samples, labels=samples, use_cache=False).loss
    theirs_loss.backward()
    assert loss == pytest.approx(theirs_loss.item(), abs=1e-5)
    compared = 0
    for layer in slices.layers.values():
        for trained in layer.projections.values():
            name = next(n for n, m in ours.model.named_modules() if m is trained.module)
            weight = theirs.model.get_parameter(f"{name}.weight").grad
            assert weight is not None and trained.weight.grad is not None
            assert (trained.weight.grad - weight.index_select(trained.dim, trained.places)).abs().max() < 1e-6
            assert weight.abs().max() > 1e-5
            if trained.bias is not None:
                bias = theirs.model.get_parameter(f"{name}.bias").grad
                assert bias is not None and trained.bias.grad is not None
                bias, live = bias[trained.places], trained.live == 1
                assert (trained.bias.grad - bias).abs().max() < 1e-6
                assert (trained.bias.grad[~live] == 0).all()
                assert (bias[live].abs() > 1e-7).float().mean() > 0.9  # what is left out is noise, the rest is not
            compared += trained.weight.numel()
    if ours.anatomy.sinks:
        for number, layer in slices.layers.items():
            logits = theirs.attention(number).get_parameter("sinks").grad
            assert layer.sinks is not None and layer.sinks.weight.grad is not None and logits is not None
            assert (layer.sinks.weight.grad - logits[layer.sinks.places]).abs().max() < 1e-6
            assert logits.abs().max() > 1e-6
    assert compared == sum(master.numel() for master in slices.masters().values() if master.ndim == 2)


def train(slices: Slices, steps: int = 3) -> None:
    optimizer = torch.optim.AdamW(slices.masters().values(), lr=1e-3, weight_decay=0.0)
    with slices.training():
        for _ in range(steps):
            optimizer.zero_grad()
            gradients(slices.patient, IDS.view(2, 12), 2)
            optimizer.step()
            slices.write_back()


def test_slices_train_and_everything_else_keeps_its_bytes(patient: Patient) -> None:
    targets, parts = targets_of(patient), parts_of(patient)
    slices = Slices(patient, targets, parts)
    stock = {name: p.detach().clone() for name, p in patient.model.named_parameters()}
    frozen = slices.frozen_sha256()
    slices.reinitialise("xavier_normal", 3)
    assert all(values.abs().max() == 0 for key, values in slices.values().items() if ".weight|" not in key)
    cut = slices.values()
    idle = {piece.key for piece in slices.pieces if piece.part == "k" and piece.tensor.endswith("bias")}
    train(slices)
    trained = slices.values()
    assert slices.frozen_sha256() == frozen
    for name, parameter in patient.model.named_parameters():
        mine = torch.zeros_like(parameter, dtype=torch.bool)
        for piece in slices.pieces:
            if piece.tensor == name:
                mine.narrow(piece.dim, piece.start, piece.stop - piece.start).fill_(True)
        assert torch.equal(parameter[~mine], stock[name][~mine]), name
    for key, values in trained.items():
        moved = (values != cut[key]).float().mean()
        assert moved > 0.9 or key in idle, key
    assert sum(v.numel() for v in trained.values()) == patient.anatomy.trained_parameters(targets, parts)


def test_a_patch_is_applied_and_taken_off_again(patient: Patient, tmp_path: Path) -> None:
    targets, parts = targets_of(patient), parts_of(patient)
    slices = Slices(patient, targets, parts)
    originals = slices.values()
    slices.reinitialise("xavier_uniform", 1)
    train(slices, 1)
    patch = Patch(slices.values(), originals, {"number": 1, "weights_sha256": patient.weights_sha256})
    apply_patches([patch], patient.folder, tmp_path / "patched")
    patched = AutoModelForCausalLM.from_pretrained(tmp_path / "patched", dtype=torch.float32)
    for (name, theirs), ours in zip(patched.named_parameters(), patient.model.parameters(), strict=True):
        assert torch.equal(theirs, ours), name
    undo_patches([patch], tmp_path / "patched", tmp_path / "stock")
    for file in patient.folder.glob("*.safetensors"):
        assert sha256_of(tmp_path / "stock" / file.name) == sha256_of(file)


def test_what_it_writes_is_what_it_would_write_alone_without_a_cache(patient: Patient) -> None:
    prompts = [Prompt("a", "a longer prompt"), Prompt("b", "short")]
    coldest = Sampling(temperature=1e-4, new_tokens=5)  # the likeliest token, whatever is drawn
    for prompt, written in zip(prompts, continue_batch(patient, prompts, coldest), strict=True):
        ids = patient.ids(prompt.text)
        for token in written:
            with torch.no_grad():
                assert patient.model(input_ids=ids[None], use_cache=False).logits[0, -1].argmax() == token
            ids = torch.cat([ids, torch.tensor([token])])
    assert any(continue_batch(patient, prompts, coldest))


def test_the_mlps_neurons_are_found(patient: Patient) -> None:
    a = patient.anatomy
    if not a.mlp[0]:
        assert dormant_neurons(patient) == []
        return
    (asleep, neurons), second = dormant_neurons(patient)
    assert neurons == a.d_ff
    down = patient.block(1).get_parameter(f"{a.mlp[1]}.weight").detach()
    (down.T if not a.transposed else down)[3] = 0
    assert dormant_neurons(patient) == [(asleep, neurons), (second[0] + 1, neurons)]


def test_what_was_written_down_makes_the_same_anatomy(patient: Patient) -> None:
    told = patient.loaded()
    assert recorded_anatomy(told) == patient.anatomy
    assert tomllib.loads(tomli_w.dumps({"config": told.config})) == {"config": told.config}
    assert json.loads(json.dumps(told.config)) == told.config


def test_preflight_needs_the_config_alone(patient: Patient) -> None:
    a = anatomy_of(read_config(patient.folder), "x")
    assert a == patient.anatomy
    targets = targets_of(patient)
    found = preflight(a, targets, Plan(targets="all"), "float32")
    masters = Slices(patient, targets).masters()
    assert found.trained_parameters == sum(master.numel() for master in masters.values())


@pytest.mark.parametrize("name", ["gpt2", "llama", "gpt_neox", "mpt"])
def test_a_checkpoint_of_the_bare_model_has_the_same_tensors(
    name: str, loaded: Callable[[str], Patient], tmp_path: Path
) -> None:
    patient = loaded(name)
    patient.model.base_model.save_pretrained(tmp_path / "bare")
    places = tensor_places(tmp_path / "bare")
    for piece in patient.anatomy.slices_of([Head(0, 1), Head(1, 3)]):
        assert places[piece.tensor].shape == tuple(patient.model.get_parameter(piece.tensor).shape)


# --- what single families bring ----------------------------------------------------------------------


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
        whole_groups(a, [Head(0, 0), Head(0, 1), Head(1, 3)], "qkv", take_along=False)
    assert whole_groups(a, [Head(1, 3)], "q", take_along=False) == [Head(1, 3)]
    assert whole_groups(a, [Head(1, 3)], "qkv", take_along=True) == [Head(1, 2), Head(1, 3)]
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
    slices = Slices(patient, both, "qkvs")
    slices.reinitialise("xavier_normal", 0)
    assert logits[:2].abs().max() == 0 and torch.equal(logits[2:], stock[2:])
    train(slices)
    assert (logits[:2] != 0).all() and torch.equal(logits[2:], stock[2:])


def test_a_sink_logit_that_is_not_there_is_not_cut(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="parts names s, the sink logit, and llama models have none"):
        whole_groups(one("llama", tmp_path).anatomy, [Head(0, 0)], "qs", take_along=False)


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
