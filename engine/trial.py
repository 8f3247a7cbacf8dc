"""A trial: a protocol as it is carried out. One folder that holds the plan and one session per arm and seed.

sessions/2026-12-01-gradients-only-demo-a1f3/
  protocol.toml        every run with all its values, so that it stays what it was begun as
  reinitialised-42/    a session like any other
  gradients-only-42/
  worker.lock, worker.log
"""

from __future__ import annotations

import secrets
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import tomli_w
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from engine import demo, events
from engine.chart import Chart, read_chart
from engine.errors import InputError
from engine.files import write_text
from engine.plan import Plan, first_complaint
from engine.probes import read_probes
from engine.protocol import SOURCES, Protocol, Run
from engine.session import PROTOCOL, Session, begin, is_trial, made_name, open_session
from engine.sources import absolute, hub_name, split_repeat, whole_path
from engine.targets import check

SCHEMA = 1


class _RunTable(BaseModel):
    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")  # so that no path leads out of the folder
    arm: str
    seed: int
    model: str
    dtype: str
    texts: str
    plans: list[Plan] = Field(default_factory=list, alias="pass")


class _TrialTable(BaseModel):
    model_config = ConfigDict(extra="ignore", populate_by_name=True)

    schema_: int = Field(alias="schema")
    protocol: str
    title: str
    question: str
    device: str
    run: list[_RunTable]


@dataclass(frozen=True)
class Trial:
    """A trial's folder and what it was begun as."""

    folder: Path
    protocol: str
    """Name of the plan file."""
    title: str
    question: str
    device: str
    runs: list[Run]

    @property
    def id(self) -> str:
        return self.folder.name

    @property
    def own(self) -> Session:
        """The lock, the log and the worker of the trial itself, as a session has them."""
        return Session(self.folder)

    def session(self, run: Run) -> Session:
        """Where a run's session is, or will be."""
        return Session(self.folder / run.name)

    def begun(self) -> list[tuple[Run, Session]]:
        """The runs whose sessions there are."""
        pairs = [(run, self.session(run)) for run in self.runs]
        return [(run, session) for run, session in pairs if session.journal.exists() or session.record.exists()]

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the trial: one process carries it out.

        Raises:
            InputError: another live process holds it.
        """
        with self.own.held():
            yield

    def begin(self, run: Run) -> Session:
        """The session of a run, begun if it was not; a kill in mid-beginning leaves nothing in the way."""
        session = self.session(run)
        if read_chart(session).created is None:
            begin(session, replace(request(run, self.device), protocol=self.title, arm=run.arm))
        return session


def request(run: Run, device: str) -> events.Created:
    """What a run's session is begun with, where it is no arm of a trial."""
    return events.Created(
        session="", model=run.model, device=device, dtype=run.dtype, texts=run.texts, seed=run.seed,
        plans=[plan.model_dump() for plan in run.plans],
    )  # fmt: skip


def anywhere(plan: Plan) -> Plan:
    """A plan whose sources stay right when the session is resumed from elsewhere."""
    return plan.model_copy(update={name: [absolute(source) for source in getattr(plan, name)] for name in SOURCES})


def made_whole(run: Run) -> Run:
    """A run whose patient, texts and sources stay right from elsewhere."""
    model = run.model if run.model == "demo" else whole_path(run.model)
    return replace(run, model=model, texts=whole_path(run.texts), plans=[anywhere(plan) for plan in run.plans])


def check_targets(runs: list[Run], shapes: Mapping[str, tuple[int, int]]) -> None:
    """Complain about targets that a patient cannot have, before a weight is read.

    Args:
        shapes: (n_layers, n_heads) by patient; one that is not there is not asked about.

    Raises:
        InputError: an expression cannot be read, or names a layer or head that the patient lacks.
    """
    for run in runs:
        for plan in run.plans:
            if run.model in shapes:
                check(plan.targets, *shapes[run.model])


def check_named(runs: list[Run]) -> None:
    """Complain about a text or a corpus that is not named, or is a path that is not there. A corpus is not
    opened here: its kinds of file need other libraries.

    Raises:
        InputError: names the first.
    """
    for texts in dict.fromkeys(run.texts for run in runs):
        read_probes(texts)
    for run in runs:
        for number, plan in enumerate(run.plans, 1):
            if not plan.corpus:
                raise InputError(f"pass {number} of the arm {run.arm} names no corpus to train on")
            for source in (*plan.corpus, *plan.watch, *plan.watch_heldout):
                name, _ = split_repeat(source)
                if not demo.corpus_path(name).exists():
                    hub_name(name)


def create_trial(root: Path, protocol: Protocol, runs: list[Run], device: str = "auto") -> Trial:
    """Begin a trial in ``root``.

    Raises:
        InputError: no folder can be made there.
    """
    models = list(dict.fromkeys(run.model for run in runs))
    of = models[0] if len(models) == 1 else f"{len(models)}-patients"
    name = f"{date.today().isoformat()}-{made_name(protocol.name)}-{made_name(of)}-{secrets.token_hex(2)}"
    trial = Trial(root / name, protocol.name, protocol.title, " ".join(protocol.question.split()), device, runs)
    try:
        trial.folder.mkdir(parents=True)
    except OSError as error:
        raise InputError(
            f"cannot make a trial in {root}: {error.strerror}; choose another place with --sessions"
        ) from error
    data: dict[str, Any] = {
        "schema": SCHEMA,
        **{key: getattr(trial, key) for key in ("protocol", "title", "question", "device")},
        "run": [
            {**{k: v for k, v in asdict(run).items() if k != "plans"}, "pass": [_written(plan) for plan in run.plans]}
            for run in runs
        ],
    }
    write_text(trial.folder / PROTOCOL, tomli_w.dumps(data))
    return trial


def _written(plan: Plan) -> dict[str, Any]:
    return plan.model_dump(exclude_none=True)


def open_trial(folder: Path) -> Trial:
    """An existing trial.

    Raises:
        InputError: the folder is missing or holds none, or its plan is damaged or of a newer schema.
    """
    path = folder / PROTOCOL
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError as error:
        raise InputError(f"{folder} is no trial: it holds no {PROTOCOL}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} is damaged ({error}); put a good copy back") from error
    schema = data.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise InputError(
            f"{path} has schema {schema} and this headsurgeon reads up to {SCHEMA}; install a newer headsurgeon"
        )
    try:
        table = _TrialTable.model_validate(data)
    except ValidationError as error:
        raise InputError(f"{path} is damaged ({first_complaint(error)}); put a good copy back") from error
    runs = [Run(**{key: getattr(run, key) for key in Run.__dataclass_fields__}) for run in table.run]
    about = {key: getattr(table, key) for key in ("protocol", "title", "question", "device")}
    return Trial(folder.resolve(), **about, runs=runs)


def list_trials(root: Path) -> list[Path]:
    """The folders of all trials in ``root``, newest first by name."""
    if not root.is_dir():
        return []
    return sorted((f.resolve() for f in root.iterdir() if is_trial(f)), key=lambda f: f.name, reverse=True)


def done(run: Run, chart: Chart) -> bool:
    """Whether a run's session has come to its end."""
    through = len(chart.passes) >= len(run.plans) and not chart.running and chart.stock is not None
    return through and chart.closed and not chart.failed


def state_of(run: Run, chart: Chart) -> str:
    """waiting, done, or the session's own state."""
    if chart.created is None:
        return "waiting"
    return "done" if done(run, chart) else chart.state


def sessions_in(folder: Path) -> list[Session]:
    """The sessions that a folder stands for: those of a trial which were begun, or the one that it is.

    Raises:
        InputError: it holds neither, or a trial without a session.
    """
    if not is_trial(folder):
        return [open_session(folder)]
    found = [session for _, session in open_trial(folder).begun()]
    if not found:
        raise InputError(f"{folder} holds no session yet; `headsurgeon resume {folder}` carries the protocol out")
    return found


def recorded(folder: Path) -> list[Session]:
    """The sessions that a folder stands for which have a record; of a trial under way, the newest may have none yet.

    Raises:
        InputError: it holds no session.
    """
    found = sessions_in(folder)
    return [session for session in found if session.record.exists()] or found[:1]
