"""What a model is, by its config alone, before anything is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from engine.anatomy import Anatomy, anatomy_of, stored_dtype, untrainable
from engine.demo import pass_defaults
from engine.errors import InputError
from engine.gguf import is_gguf
from engine.heads import Head
from engine.printable import size
from tui.devices import Device
from tui.figures import QUIET, STRONG, WARM, Line, amount, line
from tui.palette import plain
from tui.paths import config_of

DTYPES = ("auto", "bfloat16", "float32")


@dataclass(frozen=True)
class DryLook:
    """A model's shape, or why it cannot be told."""

    model: str
    anatomy: Anatomy | None = None
    dtype: str = ""
    """As the config names it; empty where it does not."""
    trouble: str = ""
    """One sentence; the model cannot be taken."""
    remark: str = ""
    """What the operator should know of it."""


def look(model: str) -> DryLook:
    """What ``demo``, a folder or a hub name is, as far as this machine knows without loading anything."""
    if not model:
        return DryLook(model, trouble="type demo, a local folder, a .gguf file or a hub name")
    try:
        config = config_of(model)
        if config is None:
            if "/" not in model:
                return DryLook(model, trouble=f"there is no folder {plain(model)}; hub names are written owner/model")
            return DryLook(model, remark="not in the local cache: the worker asks the hub for it")
        anatomy = anatomy_of(config, plain(model))
    except InputError as error:
        return DryLook(model, trouble=str(error))
    return DryLook(model, anatomy, stored_dtype(config), remark=untrainable(config))


def needs(found: DryLook, dtype: str) -> tuple[int, int]:
    """Bytes to hold the patient, and at most for a pass: on every head, with the plan's first values."""
    from engine.plan import make_plan
    from engine.preflight import BYTES, LIBRARIES, memory_bytes

    a = found.anatomy
    assert a is not None
    plan = make_plan({**pass_defaults(found.model), "targets": "all"})
    heads = [Head(layer, index) for layer in range(a.n_layers) for index in range(a.n_heads)]
    return a.total_parameters * BYTES.get(dtype, 4) + LIBRARIES, memory_bytes(a, heads, plan, dtype)


def shape_line(found: DryLook) -> Line:
    """Family, shape, encoding, size."""
    a = found.anatomy
    if a is None:
        return line((f" {plain(found.trouble or found.remark, 400)}", WARM if found.trouble else QUIET))
    kept = "dequantised to" if is_gguf(Path(found.model).expanduser()) else "kept as"
    return line(
        (f" {a.n_layers} layers × {a.n_heads} heads", STRONG),
        f", {a.family}, {a.position_encoding}, {a.d_model} wide, ",
        f"{amount(a.total_parameters)} parameters", (f", {kept} {found.dtype}" if found.dtype else "", QUIET),
    )  # fmt: skip


def memory_line(found: DryLook, dtype: str) -> Line:
    """What a dtype takes."""
    held, most = needs(found, dtype)
    most_words = f" to diagnose, up to {size(most)} to operate on every head"
    return line((f" {dtype:<9}", QUIET), (size(held), STRONG), most_words)


def free_line(known: list[Device]) -> Line:
    """The devices and their free memory, as many as fit a line."""
    if not known:
        return line((" looking for devices …", QUIET))
    shown = "   ".join(f"{device.name} {size(device.free)} free" for device in known[:4])
    more = f"   and {len(known) - 4} more" if len(known) > 4 else ""
    return line((" memory   ", QUIET), shown, (more, QUIET))
