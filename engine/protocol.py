"""A protocol: an experiment as one TOML file, with arms that are run one by one and compared.

    title = "Gradients only"
    question = "Does training alone wake a collapsed head?"
    seeds = [42, 43, 44]            # every arm once per seed

    [corpora]                       # names that the passes may use for sources
    own = ["allenai/c4:en"]

    [every_pass]                    # values that all passes share
    corpus = ["own"]

    [[arm]]
    name = "control"
    [[arm.pass]]
    targets = "sick & band"
    reinit = false

    [demo]                          # what is different on the demo patient
    corpora.own = ["demo:bible.txt"]

A file with ``[[pass]]`` tables alone is a protocol of one arm. ``{column}`` in a name or in targets is
the protocol's ``column``; an arm with ``each_column = true`` stands for one arm per head index.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine import demo
from engine.errors import InputError
from engine.plan import Plan, first_complaint, make_plan, over
from engine.sources import absolute, split_repeat

FOLDER = Path(__file__).parent / "protocols"
BUILT_IN = (
    "two-passes",
    "gradients-only",
    "two-corpora",
    "healthy-column",
    "treatments",
    "column-sweep",
    "corpus-ablation",
    "lasting",
    "relapse",
    "family",
    "paper",
)
"""Those that come with the program."""
SOURCES = {"corpus", "watch", "watch_heldout"}
"""Fields of a pass that name sources."""
COLUMN = "{column}"


class ArmTable(BaseModel):
    """One ``[[arm]]``; what it does not say is the protocol's."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    name: str = Field(min_length=1, max_length=40)
    model: str = ""
    dtype: str = ""
    texts: str = ""
    """File with texts to diagnose on."""
    each_column: bool = False
    passes: list[dict[str, Any]] = Field(default_factory=list, alias="pass")
    """None: the patient is only diagnosed."""


class Protocol(BaseModel):
    """The file as it is written."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    name: str
    """The file's, without its suffix."""
    folder: Path
    title: str = ""
    question: str = ""
    model: str = ""
    """The patient it is made for; empty: any."""
    dtype: str = ""
    texts: str = ""
    seeds: list[int] = Field(default_factory=list)
    column: int = Field(0, ge=0)
    corpora: dict[str, list[str]] = Field(default_factory=dict)
    every_pass: dict[str, Any] = Field(default_factory=dict)
    passes: list[dict[str, Any]] = Field(default_factory=list, alias="pass")
    arm: list[ArmTable] = Field(default_factory=list)

    @property
    def arms(self) -> list[ArmTable]:
        return self.arm or [ArmTable.model_validate({"name": self.name[:40], "pass": self.passes})]

    @property
    def single(self) -> bool:
        """Whether one session is all that comes of it."""
        return not self.arm and len(self.seeds) < 2

    def told(self, arm: ArmTable, written: str) -> str:
        """A name or targets of an arm as they are told: with the column, or n where it stands for each."""
        return written.replace(COLUMN, "n" if arm.each_column else str(self.column))


@dataclass(frozen=True)
class Run:
    """One arm with one seed: what becomes one session."""

    name: str
    """Of its folder."""
    arm: str
    seed: int
    model: str
    dtype: str
    texts: str
    plans: list[Plan]


def find_protocol(named: str) -> Path:
    """The file of a protocol: a path, or the name of a built-in one.

    Raises:
        InputError: there is neither.
    """
    path = Path(named).expanduser()
    if path.suffix == ".toml" or path.exists():
        return path
    if named in BUILT_IN:
        return FOLDER / f"{named}.toml"
    raise InputError(f"plan not found: {named}; name a TOML file, or one of {', '.join(BUILT_IN)}")


def read_protocol(path: Path, model: str = "") -> Protocol:
    """A protocol as its file says, with what it says for the demo patient where that is the patient.

    Raises:
        InputError: the file is missing, no TOML, or holds something wrong; names the first.
    """
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"plan not found: {path}") from error
    except OSError as error:
        raise InputError(f"cannot read the plan {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is not TOML: {error}") from error
    for_demo = data.pop("demo", {})
    if model == "demo" and isinstance(for_demo, dict):
        data = _merged(data, for_demo)
    passes, arms = data.get("pass"), data.get("arm")
    if bool(passes) == bool(arms):
        which = "both passes and arms" if passes else "no pass"
        raise InputError(
            f"{path} holds {which}; write a pass as a [[pass]] table with at least `targets`, or each arm as [[arm]]"
        )
    if passes and not (isinstance(passes, list) and all(isinstance(values, dict) for values in passes)):
        raise InputError(f"{path} holds no pass; write one as a [[pass]] table with at least `targets`")
    try:
        return Protocol.model_validate({"title": path.stem, **data, "name": path.stem, "folder": path.parent})
    except ValidationError as error:
        raise InputError(f"{path}: {first_complaint(error)}") from error


def _merged(data: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Tables joined key by key; any other value of ``over`` takes the place of the one before."""
    out = dict(data)
    for key, value in over.items():
        both = isinstance(value, dict) and isinstance(out.get(key), dict)
        out[key] = _merged(out[key], value) if both else value
    return out


def runs_of(
    protocol: Protocol,
    model: str = "",
    *,
    n_heads: int = 0,
    base: Mapping[str, Any] | None = None,
    given: Mapping[str, Any] | None = None,
    corpora: list[str] | None = None,
    dtype: str = "",
    texts: str = "",
) -> list[Run]:
    """Every session that a protocol asks for, all values filled in.

    Args:
        model: the patient, where the protocol names none
        n_heads: of the patient, needed where an arm stands for each column
        base: plan values where the protocol says nothing
        given: plan values that hold whatever the protocol says
        corpora: sources instead of the protocol's: ``own=text.txt``, or without a name for its first corpus

    Raises:
        InputError: a value is wrong, or one that is given would make arms the same that differ by it.
    """
    patient = model or protocol.model
    named, given = dict(protocol.corpora), dict(given or {})
    if corpora and named:
        named = _replaced(protocol, named, corpora)
    elif corpora:
        given["corpus"] = corpora
    seeds = protocol.seeds or [given.get("seed", 42)]
    if "seed" in given:
        seeds = [given["seed"]]
    _still_differ(protocol, given)
    runs = []
    for arm in protocol.arms:
        for column in range(n_heads) if arm.each_column else [protocol.column]:
            name = arm.name.replace(COLUMN, str(column))
            own = arm.model or patient
            for seed in seeds:
                plans = []
                for i, values in enumerate(arm.passes, 1):
                    written = {**protocol.every_pass, **values}
                    written["targets"] = str(written.get("targets", "")).replace(COLUMN, str(column))
                    written |= {
                        key: _sources(written[key], named, protocol.folder) for key in SOURCES if key in written
                    }
                    if protocol.seeds or "seed" not in written:
                        written["seed"] = seed
                    where = f"pass {i} of {protocol.name}" if protocol.single else f"pass {i} of the arm {name}"
                    plans.append(make_plan(over(demo.pass_defaults(own), base or {}, written, given), where))
                folder = f"{_slug(name)}-{seed}" if len(seeds) > 1 else _slug(name)
                dtype_ = arm.dtype or dtype or protocol.dtype or "auto"
                texts_ = _beside(texts or arm.texts or protocol.texts, protocol.folder)
                runs.append(Run(folder, name, seed, own, dtype_, texts_, plans))
    twice = {run.name for run in runs if [other.name for other in runs].count(run.name) > 1}
    if twice:
        raise InputError(f"{protocol.name}: two arms are named {sorted(twice)[0]}; give each a name of its own")
    return runs


def _still_differ(protocol: Protocol, given: Mapping[str, Any]) -> None:
    """Refuse a value for all passes that the protocol gives some passes, and not others, on purpose."""
    passes = [{**protocol.every_pass, **values} for arm in protocol.arms for values in arm.passes]
    for key in given:
        written = [values.get(key) for values in passes]
        if any(value != written[0] for value in written):
            raise InputError(
                f"{key} differs between the passes of {protocol.name}, so it cannot be set for all of them; "
                "change it in a copy of the plan (`headsurgeon plans NAME` prints a built-in one)"
            )


def _replaced(protocol: Protocol, named: dict[str, list[str]], corpora: list[str]) -> dict[str, list[str]]:
    out = dict(named)
    begun = set[str]()
    for written in corpora:
        name, equals, source = written.partition("=")
        if not equals or name not in named:
            name, source = next(iter(named)), written
        out[name] = [*(out[name] if name in begun else []), absolute(source)]
        begun.add(name)
    return out


def _sources(written: Any, named: Mapping[str, list[str]], folder: Path) -> Any:
    """Sources with names of corpora resolved, and paths taken from the plan's own folder."""
    if not isinstance(written, list):
        return written  # the plan will say what is wrong with it
    return [_beside(source, folder) for name in written for source in named.get(str(name), [str(name)])]


def _beside(source: str, folder: Path) -> str:
    """A source that a plan names: from the plan's folder where there is such a file, else as it is written."""
    if not source:
        return source
    name, _ = split_repeat(source)
    own = folder / name
    return str(own.resolve()) + source[len(name) :] if name != "demo" and own.exists() else absolute(source)


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9.]+", "-", name.lower()).strip("-.") or "arm"


def told_of(protocol: Protocol) -> Iterator[tuple[str, str]]:
    """What a list of protocols tells of one, as label and text."""
    arms = [protocol.told(arm, arm.name) + " for each column n" * arm.each_column for arm in protocol.arms]
    yield "question", " ".join(protocol.question.split())
    yield "arms", ", ".join(arms)
    if protocol.seeds:
        yield "seeds", ", ".join(map(str, protocol.seeds))
    if protocol.model:
        yield "patient", protocol.model
