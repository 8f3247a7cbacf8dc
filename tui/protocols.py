"""Plans of several arms, as the screen tells and begins them. Imported when they are first shown: the engine's
protocols bring pydantic."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from engine.anatomy import anatomy_of
from engine.errors import InputError
from engine.plan import Plan
from engine.protocol import BUILT_IN, FOLDER, ArmTable, Protocol, Run, read_protocol, runs_of
from engine.trial import check_named, check_targets, made_whole
from tui.drylook import DTYPES, look
from tui.figures import QUIET, STRONG, WARM, Line, line, paragraph, row, wrapped
from tui.palette import plain
from tui.paths import config_of
from tui.plans import write

REASON = 160
"""Columns that the reason may take why a plan cannot be run."""
OWN = "corpus"
"""What the corpus of a plan is called that names none."""


def built_in() -> list[Path]:
    """The files of the plans that come with the program."""
    return [FOLDER / f"{name}.toml" for name in BUILT_IN]


def usual_patient(path: Path) -> str:
    """Whom a plan is for where nobody chose: empty where it names one itself, else the demo."""
    try:
        return "" if read_protocol(path).model else "demo"
    except InputError:
        return "demo"


def shape_of(model: str) -> tuple[int, int] | None:
    """(n_layers, n_heads) by the config alone; None where it is not on this machine.

    Raises:
        InputError: there is no such patient, or none of a known family.
    """
    found = look(model)
    if found.trouble:
        raise InputError(found.trouble)
    config = config_of(model)
    if config is None:
        return None
    anatomy = anatomy_of(config, model)
    return anatomy.n_layers, anatomy.n_heads


def expanded(
    protocol: Protocol, model: str, *, corpora: list[str] | None = None, dtype: str = "", texts: str = ""
) -> list[Run]:
    """Every run of a protocol on a patient, held against what is known before any weight is read.

    Raises:
        InputError: no patient, targets that it cannot have, or a path that is not there.
    """
    patient = model or protocol.model
    if not patient and not all(arm.model for arm in protocol.arms):
        raise InputError("the plan names no patient: name one")
    n_heads = 0
    if any(arm.each_column for arm in protocol.arms):
        shape = shape_of(patient)
        if shape is None:
            raise InputError(f"{patient} is not on this machine, and how many columns it has is needed first")
        n_heads = shape[1]
    runs = runs_of(protocol, model, n_heads=n_heads, corpora=corpora, dtype=dtype, texts=texts)
    shapes = {name: shape_of(name) for name in dict.fromkeys(run.model for run in runs)}
    check_targets(runs, {name: shape for name, shape in shapes.items() if shape})
    check_named(runs)
    return [made_whole(run) for run in runs]


def fields_of(protocol: Protocol) -> dict[str, str]:
    """The corpora that the operator may give sources for, with those that the plan has."""
    if not any(arm.passes for arm in protocol.arms):
        return {}
    return {name: " ; ".join(sources) for name, sources in protocol.corpora.items()} or {OWN: ""}


def given_corpora(protocol: Protocol, texts: dict[str, str]) -> list[str]:
    """What ``--corpus`` would say, for those that differ from the plan's.

    Raises:
        InputError: a corpus has no source.
    """
    out = []
    for name, before in fields_of(protocol).items():
        text = texts.get(name, before).strip()
        if text == before:
            continue
        sources = [part.strip() for part in text.split(";") if part.strip()]
        if not sources:
            raise InputError(f"{name}: name a file, a folder or a hub name")
        out += [f"{name}={source}" if protocol.corpora else source for source in sources]
    return out


def checked_device(text: str) -> str:
    """A device as ``--device`` takes it.

    Raises:
        InputError: it is none.
    """
    if not re.fullmatch(r"auto|cpu|cuda(:\d{1,3})?", text):
        raise InputError(f"device: write auto, cpu or cuda:N, not {text!r}")
    return text


def checked_dtype(text: str) -> str:
    """A dtype as ``--dtype`` takes it; empty for ``auto``, which leaves it to the plan.

    Raises:
        InputError: it is none.
    """
    if text not in DTYPES:
        raise InputError(f"dtype: write {', '.join(DTYPES)}, not {text!r}")
    return "" if text == "auto" else text


def lines_of(path: Path, model: str, width: int) -> list[Line]:
    """What a plan asks and would run on a patient, or what is wrong with it."""
    try:
        protocol = read_protocol(path, model)
    except InputError as error:
        return paragraph(str(error), width, WARM)
    lines = [line((f" {plain(protocol.title, width - 1)}", STRONG))]
    lines += paragraph(protocol.question, width)
    lines.append(line(" "))
    try:
        runs = expanded(protocol, model)
    except InputError as error:
        runs = []
        lines += wrapped("not now", plain(str(error), REASON), width, WARM)
    seeds = f", seeds {', '.join(map(str, protocol.seeds))}" if protocol.seeds else ""
    if runs:
        arms = len({run.arm for run in runs})
        count = f"{len(runs)}: {arms} arm{'s' * (arms != 1)}{seeds}" if len(runs) > 1 else "one"
        lines += wrapped("runs", count, width, STRONG)
    lines += wrapped("patient", _patient(protocol, model), width, "")
    for name, text in fields_of(protocol).items():
        if protocol.corpora:
            lines += wrapped(f"{name}:", text, width, "")
    steps = _shared([plan for run in runs for plan in run.plans])
    if steps:
        lines += wrapped("passes", steps, width, "")
    for arm in protocol.arms:
        lines += _arm_lines(arm, protocol, width)
    return lines


def _patient(protocol: Protocol, model: str) -> str:
    made_for = f"; the plan names {protocol.model}" if protocol.model and model and model != protocol.model else ""
    if not model:
        return protocol.model or "each arm its own"
    return f"{model}{made_for}"


def _shared(plans: list[Plan]) -> str:
    """What all passes have in common."""
    parts = []
    for name, words in (("steps", "{} steps"), ("lr", "lr {}"), ("length", "{} tokens a sample")):
        values = {getattr(plan, name) for plan in plans}
        if len(values) == 1 and (value := values.pop()) is not None:
            parts.append(words.format(write(value)))
    if plans and all(plan.steps is None for plan in plans) and len({plan.epochs for plan in plans}) == 1:
        parts.insert(0, f"{plans[0].epochs} epochs")
    return ", ".join(parts)


def _arm_lines(arm: ArmTable, protocol: Protocol, width: int) -> list[Line]:
    """An arm: its targets, and what it says that the others need not."""
    name = plain(protocol.told(arm, arm.name), width - 12)
    lines = [row("arm", (name, STRONG), (" for each column n" * arm.each_column, QUIET))]
    own = [word for word in (arm.model, arm.dtype, arm.texts) if word]
    if not arm.passes:
        own.append("diagnosed only")
    if own:
        lines += wrapped("", ", ".join(own), width, "")
    for values in arm.passes:
        both: dict[str, Any] = {**protocol.every_pass, **values}
        targets = protocol.told(arm, " ".join(str(both.get("targets", "")).split()))
        said = [f"{key} {_value(value)}" for key, value in values.items() if key != "targets"]
        lines += wrapped("", ", ".join([targets, *said]), width, "")
    return lines


def _value(value: Any) -> str:
    return write(value) if isinstance(value, bool | int | float | str | list) else "…"
