"""A plan as a form: names, what they mean, and values as text. Pydantic is only imported when asked to judge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.chart import Chart
from engine.demo import pass_defaults
from engine.errors import InputError

if TYPE_CHECKING:
    from engine.plan import Plan

Values = dict[str, Any]


@dataclass(frozen=True)
class Field:
    """One line of the form."""

    name: str
    hint: str
    kind: type[int] | type[float] | type[bool] | type[str] | type[list[str]]


FIELDS = (
    Field("corpus", "files, folders or hub names, separated by ;", list[str]),
    Field("steps", "optimizer steps; empty: count by epochs", int),
    Field("epochs", "times through the corpus, where no steps are given", int),
    Field("lr", "peak learning rate", float),
    Field("length", "tokens per sample", int),
    Field("micro_batch", "samples at once", int),
    Field("accumulate", "micro-batches per step", int),
    Field("check_every", "steps between two checks", int),
    Field("patience", "checks without a better one until it stops; 0: never", int),
    Field("treatment", "reinitialise, sink_logit, placeholder, prune or nothing", str),
    Field("init", "xavier_normal or xavier_uniform", str),
    Field("parts", "which of q, k, v get fresh weights and are trained", str),
    Field("whole_groups", "yes: heads that share K and V with a target become targets too", bool),
    Field("reinit", "yes, or no: the control that trains without cutting", bool),
    Field("checkpointing", "yes: less memory, more time, the same gradients", bool),
    Field("watch", "other texts whose perplexity is told before and after, separated by ;", list[str]),
    Field("strict", "yes: a broken line in the corpus ends the pass before it begins; no: it is left out", bool),
    Field("generate", "yes: let the model go on with the prompts before and after", bool),
    Field("clip", "largest gradient norm", float),
    Field("seed", "of every random draw", int),
)


def first_values(chart: Chart) -> Values:
    """Where a form begins: the pass before, or what suits the patient."""
    if chart.passes:
        return {name: value for name, value in chart.passes[-1].started.plan.items() if name != "targets"}
    return patient_values(chart)


def patient_values(chart: Chart) -> Values:
    """What suits the patient."""
    return pass_defaults(chart.created.model) if chart.created else {}


def as_plan(values: Mapping[str, Any], targets: str) -> Plan:
    """The plan of a form.

    Raises:
        InputError: a value is out of range; one sentence.
    """
    from engine.plan import make_plan

    return make_plan({**values, "targets": targets})


def repaced(values: Values, before: Mapping[str, Any], own: Mapping[str, Any]) -> Values:
    """A form's values, with the learning rate that suits another treatment where the operator has chosen one and
    left the rate as it was.

    Args:
        before: what the form began with
        own: what suits the patient
    """
    from engine.plan import over

    was = as_plan(before, "all")
    if values.get("treatment", was.treatment) == was.treatment or values.get("lr") != was.lr:
        return values
    suited = over(own, {"treatment": values["treatment"]})
    return {name: value for name, value in {**values, "lr": suited.get("lr")}.items() if value is not None}


def plans_of(path: Path, values: Mapping[str, Any]) -> list[Plan]:
    """The passes of a plan file; ``values`` stand where it names none.

    Raises:
        InputError: the file is missing or wrong, or holds several arms; one sentence.
    """
    from engine.protocol import read_protocol, runs_of

    protocol = read_protocol(path)
    if not protocol.single:
        raise InputError(f"{path} holds several arms, each a session of its own; run it from step 1, Load")
    base = {name: value for name, value in values.items() if name != "targets"}
    return runs_of(protocol, base=base)[0].plans


def written(plan: Plan) -> dict[str, str]:
    """Every field of the form as text."""
    return {field.name: write(getattr(plan, field.name)) for field in FIELDS}


def write(value: Any) -> str:
    """One value as a person writes it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return " ; ".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)


def read(texts: Mapping[str, str]) -> Values:
    """Plan values from a form's texts; an empty one is left to its default.

    Raises:
        InputError: a text is no number, or no yes or no; names the field.
    """
    return {field.name: value for field in FIELDS if (value := read_one(field, texts[field.name].strip())) is not None}


def read_one(field: Field, text: str) -> Any:
    """One value; None for an empty text."""
    if not text:
        return None
    if field.kind is bool:
        if text.lower() not in ("yes", "no"):
            raise InputError(f"{field.name}: write yes or no, not {text!r}")
        return text.lower() == "yes"
    if field.kind in (int, float):
        try:
            return int(text) if field.kind is int else float(text)
        except ValueError:
            what = "a whole number" if field.kind is int else "a number like 5e-5"
            raise InputError(f"{field.name}: {text!r} is not {what}") from None
    if field.kind is str:
        return text
    return [absolute(part.strip()) for part in text.split(";") if part.strip()]


def absolute(source: str) -> str:
    """A path that stays right from elsewhere; a hub name, or what does not exist, as it is."""
    path = Path(source).expanduser()
    return str(path.resolve()) if source and source != "demo" and path.exists() else source
