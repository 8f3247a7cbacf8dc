"""The command that reads a text on and on: stream."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from engine.cli import Device, Dtype, Json, app
from engine.cli_vitals import Model, Patched, about, both, opened, print_found, progress
from engine.errors import InputError
from engine.streaming import Arm, ArmFigures, arms, default_window, read_anchors, stream_text, told


@app.command()
def stream(
    model: Model,
    text: Annotated[str, typer.Option(help="file, folder or hub name")] = "demo:heldout-austen.txt",
    window: Annotated[
        list[int] | None,
        typer.Option(min=2, help="tokens held, anchors among them; repeatable; a quarter of the context, at most 256"),
    ] = None,
    anchors: Annotated[str, typer.Option(help="first tokens that stay, each number one reading")] = "0,1,2,4,8",
    tokens: Annotated[int, typer.Option(min=3, help="of the text, from its beginning")] = 2048,
    patch: Patched = None,
    device: Device = "auto",
    dtype: Dtype = "auto",
    as_json: Json = False,
) -> None:
    """Read a long text through a window with and without anchors: perplexity, tokens per second."""
    from engine.nn.reading import running_text
    from engine.nn.streaming import arm, check_streams, long_ids, streaming_cache

    numbers = read_anchors(anchors)
    patient, patches = opened(model, [text], patch, device, dtype)
    windows = window or [default_window(patient.context)]
    check_streams(patient)
    for each in windows:
        streaming_cache(patient, max(numbers), each)  # takes no memory yet, and complains first
    ids = long_ids(patient, running_text(text), tokens)
    if len(ids) < max(windows) + 2:
        raise InputError(
            f"{text} gives {len(ids)} tokens, which a window of {max(windows)} holds whole; "
            f"give a longer text, more --tokens or a smaller --window"
        )

    def measured() -> list[dict[str, Any]]:
        return [told(each, {how: read(each, how) for how in arms(numbers, len(ids) - 1)}) for each in windows]

    def read(each: int, how: Arm) -> ArmFigures:
        for found in arm(patient, ids, each, how):
            match found:
                case int():
                    progress(f"window {each}, {how.name}: {found} of {len(ids) - 1 - each} tokens")
                case ArmFigures():
                    figures = found
        return figures

    stock, after = both(patient, patches, measured)
    shape = {"text": text, "tokens": len(ids) - 1, "context": patient.context}
    print_found({**about(patient, patch), **shape, "stock": stock, "after": after}, stream_text, as_json)
