"""Commands that take a model's vitals: perplexity, dormancy, ablate, generate.

With ``--patch`` each of them says the same of the stock model and of the model with the patch on it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from engine.cli import Device, Dtype, Json, Seed, Targets, app
from engine.errors import InputError

if TYPE_CHECKING:
    from torch import Tensor

    from engine.generation import Continuation
    from engine.heads import Head, HeadMap
    from engine.nn.load import Patient
    from engine.nn.patch import Patch

Model = Annotated[str, typer.Argument(help="`demo`, a local folder, a .gguf file or a hub name")]
Text = Annotated[list[str], typer.Option("--text", help="file, folder or hub name; repeatable")]
Length = Annotated[int | None, typer.Option(min=2, help="tokens per window; 512 or the model's context where shorter")]
Samples = Annotated[int | None, typer.Option(min=1, help="only so many windows of each text, from its beginning")]
Patched = Annotated[Path | None, typer.Option("--patch", help="a session's folder, or a patch file: stock and after")]
LENGTH = 512
AT_ONCE = 128
"""Windows between two lines of progress."""
PROMPT = ("prompt", "category", "language", "prompt_text")
"""What a continuation says of its prompt, and stock and after have in common."""
T = TypeVar("T")


@app.command()
def perplexity(
    model: Model,
    text: Text,
    length: Length = None,
    samples: Samples = None,
    patch: Patched = None,
    device: Device = "auto",
    dtype: Dtype = "auto",
    as_json: Json = False,
) -> None:
    """Perplexity per text, and of all texts weighted by predicted tokens."""
    from engine.nn.vitals import TextLoss, pooled, text_losses
    from engine.show_vitals import perplexity_text

    patient, patches = opened(model, text, patch, device, dtype)
    length = _length(patient, length)
    packed = {source: _windows(patient, source, length, samples) for source in text}

    def measured() -> dict[str, Any]:
        losses = text_losses(patient, {source: watched(source, parts) for source, parts in packed.items()})
        return {"sources": {name: told(loss) for name, loss in losses.items()}, "pooled": told(pooled(losses.values()))}

    def watched(source: str, parts: list[Tensor]) -> Iterator[Tensor]:
        done, windows = 0, sum(len(part) for part in parts)
        for few in (few for part in parts for few in part.split(AT_ONCE)):
            yield few
            done += len(few)
            progress(f"{source}: {done} of {windows} windows")

    def told(loss: TextLoss) -> dict[str, Any]:
        return {"tokens": loss.tokens, "perplexity": loss.perplexity}

    stock, after = both(patient, patches, measured)
    print_found({**about(patient, patch), "length": length, "stock": stock, "after": after}, perplexity_text, as_json)


@app.command()
def dormancy(model: Model, device: Device = "auto", dtype: Dtype = "auto", as_json: Json = False) -> None:
    """Share of MLP neurons that sleep: their weights are next to nothing."""
    from engine.nn.load import load
    from engine.nn.vitals import DORMANT, dormant_neurons, overall_dormancy
    from engine.show_vitals import dormancy_text

    layers = dormant_neurons(load(model, device, dtype))
    if not layers:
        raise InputError(f"the layers of {model} hold experts, and only the neurons of a plain MLP are counted")
    found = {
        "model": model,
        "threshold": DORMANT,
        "layers": [round(asleep / neurons, 6) for asleep, neurons in layers],
        "overall": overall_dormancy(layers),
        "dormant": sum(asleep for asleep, _ in layers),
        "neurons": sum(neurons for _, neurons in layers),
    }
    print_found(found, dormancy_text, as_json)


@app.command()
def ablate(
    model: Model,
    targets: Targets,
    text: Text,
    length: Length = None,
    samples: Samples = None,
    patch: Patched = None,
    device: Device = "auto",
    dtype: Dtype = "auto",
    as_json: Json = False,
) -> None:
    """What the loss on a text gains when heads fall silent, together and each by itself."""
    import torch

    from engine.nn.vitals import ablation_loss, ablation_losses, mean_loss
    from engine.show_vitals import ablate_text

    patient, patches = opened(model, text, patch, device, dtype)
    heads = _heads(patient, targets)
    length = _length(patient, length)
    parts = [part for source in text for part in _windows(patient, source, length, samples) if part.shape[1] == length]
    if not parts:
        raise InputError(f"{', '.join(text)} is shorter than a window of {length} tokens; give a smaller --length")
    whole = torch.cat(parts)  # (N, length); a shorter last window would weigh in the loss otherwise

    def measured() -> dict[str, Any]:
        loss = mean_loss(patient, whole)
        group = ablation_loss(patient, heads, whole, loss)
        each = ablation_losses(patient, heads, whole, loss, lambda n: progress(f"silenced {n} of {len(heads)} heads"))
        named = {str(head): worth for head, worth in zip(heads, each, strict=True)}
        return {"loss": round(loss, 6), "group": group, "heads": named}

    stock, after = both(patient, patches, measured)
    found = {
        **about(patient, patch),
        "targets": targets,
        "target_heads": [str(head) for head in heads],
        "length": length,
        "tokens": whole.shape[0] * (length - 1),
        "stock": stock,
        "after": after,
    }
    print_found(found, ablate_text, as_json)


@app.command()
def generate(
    model: Model,
    patch: Patched = None,
    prompts: Annotated[str, typer.Option(help="file of prompts: one a line, or JSONL with `text`")] = "",
    tokens: Annotated[int, typer.Option(min=1, help="new tokens per prompt")] = 100,
    seed: Seed = 42,
    device: Device = "auto",
    dtype: Dtype = "auto",
    as_json: Json = False,
) -> None:
    """Let the model continue prompts, and count what is degenerate in the texts."""
    from engine.generation import Sampling, averages, by_category, read_prompts
    from engine.nn.generate import generate as write
    from engine.show_vitals import generate_text

    read, sampling = read_prompts(prompts), Sampling(new_tokens=tokens, seed=seed)
    patient, patches = opened(model, [], patch, device, dtype)

    def measured() -> list[Continuation]:
        texts: list[Continuation] = []
        for found in write(patient, read, sampling):
            match found:
                case int():
                    progress(f"continued {found} of {len(read)} prompts")
                case list():
                    texts = found
        return texts

    stock, after = both(patient, patches, measured)
    pairs = []
    for index, written in enumerate(stock):
        other = _written(after[index]) if after else None
        pairs.append({**_prompt(written), "stock": _written(written), "after": other})
    figures = {
        stage: {"all": averages(texts), "category": by_category(texts)} if texts else None
        for stage, texts in {"stock": stock, "after": after}.items()
    }
    found = {**about(patient, patch), **asdict(sampling), "figures": figures, "texts": pairs}
    print_found(found, generate_text, as_json)


def _prompt(continuation: Continuation) -> dict[str, Any]:
    return {name: getattr(continuation, name) for name in PROMPT}


def _written(continuation: Continuation) -> dict[str, Any]:
    return {name: value for name, value in asdict(continuation).items() if name not in PROMPT}


def opened(model: str, texts: list[str], patch: Path | None, device: str, dtype: str) -> tuple[Patient, list[Patch]]:
    """The stock model, and the patches to put on it; complains about everything first."""
    from engine.nn.reading import running_text
    from engine.nn.worker import load_with

    for source in texts:
        if next(iter(running_text(source)), None) is None:
            raise InputError(f"{source} holds no text")
    progress(f"loading {model}")
    return load_with(model, patch, device, dtype)


def both(patient: Patient, patches: list[Patch], measured: Callable[[], T]) -> tuple[T, T | None]:
    """A measure of the stock model, and of the model with the patches on it where there are any."""
    from engine.nn.patch import put_on

    stock = measured()
    if not patches:
        return stock, None
    for patch in patches:
        put_on(patient, patch)
    progress("the same with the patch on it")
    return stock, measured()


def _length(patient: Patient, length: int | None) -> int:
    if length is not None and length > patient.context:
        raise InputError(f"windows of {length} tokens are longer than the patient's context of {patient.context}")
    return length or min(LENGTH, patient.context)


def _windows(patient: Patient, source: str, length: int, samples: int | None) -> list[Tensor]:
    from engine.nn.reading import running_text
    from engine.nn.vitals import windows

    return windows(patient, running_text(source), length, samples)


def _heads(patient: Patient, targets: str) -> list[Head]:
    """The heads that an expression names; where it names classes, the model is diagnosed first."""
    from engine.targets import Model, needs_head_map, resolve

    head_map = _diagnosis(patient) if needs_head_map(targets) else None
    return resolve(targets, Model(patient.anatomy.n_layers, patient.anatomy.n_heads, head_map))


def _diagnosis(patient: Patient) -> HeadMap:
    from engine.nn.attention import measure
    from engine.probes import read_probes

    progress("diagnosing, since the targets name classes")
    *_, head_map = measure(patient, read_probes())
    assert not isinstance(head_map, int)
    return head_map


def about(patient: Patient, patch: Path | None) -> dict[str, Any]:
    return {
        "model": patient.source,
        "weights_sha256": patient.weights_sha256,
        "dtype": patient.dtype,
        "patch": str(patch) if patch else None,
    }


def print_found(found: dict[str, Any], text: Callable[[dict[str, Any]], str], as_json: bool) -> None:
    typer.echo(json.dumps(found, allow_nan=False) if as_json else text(found))


def progress(what: str) -> None:
    from engine.printable import printable

    typer.echo(printable(what), err=True)
