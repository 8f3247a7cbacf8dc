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

from engine.anatomy import anatomy_of, read_config, recorded_anatomy, whole_groups
from engine.checkpoint import tensor_places
from engine.families import FAMILIES
from engine.files import sha256_of
from engine.generation import Prompt, Sampling
from engine.heads import Head
from engine.nn.attention import figures, pad
from engine.nn.generate import continue_batch
from engine.nn.load import Patient, load
from engine.nn.patch import Patch, apply_patches, undo_patches
from engine.nn.slices import Slices
from engine.nn.training import checkpointed, gradients
from engine.nn.vitals import ablated, ablation_loss, dormant_neurons, mean_loss, silence_each
from engine.plan import Plan
from engine.preflight import preflight
from tests.engine.nn.families import CONFIGS, IDS, make_family, own_attention, train

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
    parts = "qkvso" if a.sinks else "qkvo"
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
        for parts, expected in (("qo", [head]), ("ko", group), ("qkvo", group)):
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
    return whole_groups(patient.anatomy, named, "qkvo", take_along=True)


def parts_of(patient: Patient) -> str:
    return "qkvso" if patient.anatomy.sinks else "qkvo"


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
