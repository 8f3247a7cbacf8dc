"""The process that owns a patient: it carries out a session and writes the journal and the record.

The screen's worker and the headless commands are this one class; they differ in who asks and who
listens.
"""

from __future__ import annotations

import os
import platform
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import torch
import transformers

from engine import __version__, demo, events, record
from engine.chart import Chart, read_chart
from engine.errors import Failure, InputError
from engine.heads import Head, HeadMap
from engine.journal import Entry, Tail, Writer
from engine.nn.attention import measure
from engine.nn.load import Patient, find, load
from engine.nn.looking import LENGTH, SAMPLES, attention, contributed, first_samples, read_on, watched, written
from engine.nn.memory import is_out_of_memory
from engine.nn.operate import STATE, operate
from engine.nn.patch import Patch, load_patch, put_on, take_off, taken_off
from engine.nn.setting import prepare
from engine.nn.vitals import dormancy
from engine.plan import Plan, changes, make_plan
from engine.probes import read_probes
from engine.session import Session, open_session

IDLE_SECONDS = 1800.0
"""A worker that has nothing to do and is asked nothing leaves after so long."""
BETWEEN = 0.5
"""Seconds between two words on how far a reading is."""
_MILESTONES = (
    events.Diagnosed,
    events.PassStarted,
    events.Cut,
    events.Check,
    events.Paused,
    events.PassEnded,
    events.Changed,
    events.OutOfMemory,
    events.Queued,
    events.Generated,
    events.Contributed,
    events.Streamed,
    events.StreamEnded,
    events.Undone,
    events.Accepted,
    events.Note,
    events.Failed,
    events.Closed,
)


def no_commands() -> list[dict[str, Any]]:
    """The inbox of a pass that nobody watches."""
    return []


class Worker:
    """A session being carried out. Make one only while holding the session's lock."""

    def __init__(self, session: Session, show: Callable[[Entry], None] = lambda entry: None) -> None:
        self.session = session
        self.show = show
        self.chart: Chart = read_chart(session)
        if self.chart.created is None:
            raise InputError(f"the journal of {session.id} has no beginning; the session cannot be taken up")
        if session.record.exists():
            record.load(session)  # refuses a damaged or newer one before anything is written
        for left in session.folder.rglob(".*.tmp"):  # by a kill in mid-write
            left.unlink()
        self.writer = Writer(session.journal)
        self.commands = Tail(session.commands, session.commands.stat().st_size if session.commands.exists() else 0)
        self.leaving = False
        self.postponed: list[dict[str, Any]] = []
        """What was asked while a long text was read; it is done afterwards."""
        self.probes = read_probes(self.chart.created.texts)
        self.patient: Patient

    @property
    def created(self) -> events.Created:
        assert self.chart.created is not None
        return self.chart.created

    def emit(self, event: events.Event) -> None:
        """Write an event down, take it into the chart, and renew the record where it matters."""
        milestone = isinstance(event, _MILESTONES)
        entry = self.writer.append(event, durable=milestone)
        self.chart.add(entry)
        if milestone:
            record.save(self.session, self.chart)
        self.show(entry)

    def inbox(self) -> list[dict[str, Any]]:
        """What was asked since the last look. ``quit`` is kept until nothing runs any more."""
        asked, self.postponed = [*self.postponed, *self.commands.lines()], []
        self.leaving = self.leaving or any(command.get("command") == "quit" for command in asked)
        return [command for command in asked if command.get("command") != "quit"]

    def open(
        self,
        inbox: Callable[[], list[dict[str, Any]]] = no_commands,
        values: dict[str, Any] | None = None,
        attended: bool = False,
    ) -> None:
        """Load the patient, diagnose it if that was not done, and finish what was begun.

        Args:
            values: of the plan of the pass that did not end, set anew
            attended: a pass that stands still for want of memory waits for the operator's word

        Raises:
            InputError: the patient cannot be loaded, or is not the one that the session began with.
        """
        self.emit(events.WorkerStarted(pid=os.getpid(), versions=versions()))
        self.emit(events.Progress(what=f"loading {self.created.model}"))
        self.patient = load(self.created.model, self.created.device, self.created.dtype)
        before = self.chart.loaded
        if before and before.weights_sha256 != self.patient.weights_sha256:
            raise InputError(
                f"{self.created.model} has changed since session {self.session.id} began (weights "
                f"{self.patient.weights_sha256[:12]}…, then {before.weights_sha256[:12]}…); put the old one back"
            )
        self.emit(self.patient.loaded())
        if self.chart.stock is None:
            self._diagnose("stock")
        for done in self.chart.standing:
            put_on(self.patient, load_patch(self.session.patch(done.number)))
        if self.chart.running and self.chart.running.out_of_memory and attended:
            return
        if self.chart.running:
            self.go_on(values or {}, inbox)
        self._write_after()
        for plan in self.created.plans[len(self.chart.passes) :]:
            self.run_pass(make_plan(plan), inbox)
        self._work_off(inbox)

    def _work_off(self, inbox: Callable[[], list[dict[str, Any]]]) -> None:
        """Run the passes that wait for their turn; one that cannot be run takes the others with it."""
        while self.chart.queue:
            try:
                self.run_pass(make_plan(self.chart.queue[0]), inbox)
            except InputError:
                self.emit(events.Queued(plans=[]))
                raise

    def _diagnose(self, stage: str) -> None:
        for found in measure(self.patient, self.probes):
            if isinstance(found, HeadMap):
                self.emit(events.Diagnosed(stage=stage, head_map=found, mlp_dormancy=dormancy(self.patient)))
            else:
                self.emit(events.Progress(what="diagnosing", done=found, total=len(self.probes)))

    def go_on(self, values: dict[str, Any], inbox: Callable[[], list[dict[str, Any]]] = no_commands) -> None:
        """Take up the pass that was begun and did not end, with ``values`` of its plan set anew.

        Raises:
            InputError: there is none, or a value cannot be set.
            Failure: it runs out of memory again.
        """
        pass_ = self.chart.running
        if pass_ is None:
            raise InputError("no pass is waiting to go on")
        found = changes(make_plan(pass_.plan), values)
        if found:
            self.emit(events.Changed(number=pass_.number, step=pass_.saved_step, values=found))
        saved = (self.session.pass_folder(pass_.number) / STATE).exists()
        self._run(make_plan(pass_.plan), pass_.number, pass_.targets, pass_.cut if saved else None, inbox)
        self._write_after()

    def run_pass(self, plan: Plan, inbox: Callable[[], list[dict[str, Any]]] = no_commands) -> None:
        """Operate by ``plan`` on the model as it stands.

        Raises:
            InputError: its targets or corpus do not serve, or the disk or the memory is too small.
            Failure: out of memory in mid-pass; its state is kept.
        """
        self._run(plan, len(self.chart.passes) + 1, None, None, inbox)
        self._write_after()

    def _run(
        self,
        plan: Plan,
        number: int,
        targets: list[Head] | None,
        cut: events.Cut | None,
        inbox: Callable[[], list[dict[str, Any]]],
    ) -> None:
        assert self.chart.stock is not None
        assert self.chart.head_map is not None

        def reading(tokens: int) -> None:
            self.emit(events.Progress(what="reading the corpus", done=tokens))

        reading(0)
        earlier = [load_patch(self.session.patch(done.number)) for done in self.chart.standing]
        setting = prepare(
            self.patient,
            plan,
            number,
            self.session.pass_folder(number),
            self.chart.stock,
            self.chart.head_map,
            earlier,
            self.probes,
            watched(self.patient, plan, reading),
            reading,
            targets,
        )
        if plan.generate and "stock" not in self.chart.generated:
            with taken_off(self.patient, earlier):
                self._emit_all(written(self.patient, "stock", plan.seed))
        self.emit(events.Progress(what="measuring stock" if number == 1 else "measuring before the pass"))
        self._emit_all(operate(setting, inbox, cut, self._look))

    def _write_after(self) -> None:
        """Let the model go on with the prompts after a pass that asked for it; also where a kill came between."""
        if not self.chart.standing:
            return
        last = self.chart.standing[-1]
        if last.plan.get("generate") and f"pass-{last.number}" not in self.chart.generated:
            self._emit_all(written(self.patient, f"pass-{last.number}", last.plan["seed"]))

    def _emit_all(self, found: Iterator[events.Event]) -> None:
        for event in found:
            self.emit(event)

    @property
    def stage(self) -> str:
        """The state of the model now."""
        running = self.chart.running
        if running:
            return f"pass-{running.number}-step-{running.step}"
        return f"pass-{self.chart.standing[-1].number}" if self.chart.standing else "stock"

    def _look(self, command: dict[str, Any]) -> Iterator[events.Event]:
        """Carry out a command that only looks at the model; a wrong one is refused."""
        try:
            match command.get("command"):
                case "attention":
                    head = Head(int(command.get("layer", 0)), int(command.get("head", 0)))
                    yield from attention(self.patient, self.stage, head, self.probes, int(command.get("text", 0)))
                case "generate":
                    yield from written(self.patient, self.stage, self.created.seed)
                case "contributions":
                    yield from self._contributions(str(command.get("text") or ""))
                case "stream":
                    raise InputError("a pass is running: a long text can be read once it has ended")
                case other:
                    raise InputError(f"unknown command {other!r}")
        except (InputError, TypeError, ValueError) as error:
            yield events.Refused(message=str(error))

    def _contributions(self, source: str) -> Iterator[events.Event]:
        """What each head is worth on a text; without one, on what the last pass was trained on."""
        if not source:
            plans = [p.plan for p in self.chart.passes] or [demo.pass_defaults(self.created.model)]
            source = next(iter(plans[-1].get("corpus", [])), "")
        if not source:
            raise InputError("name a text to measure on: a file, a folder or a hub name")
        yield from contributed(self.patient, self.stage, source, first_samples(self.patient, source, LENGTH, SAMPLES))

    def stream(self, source: str, window: int, tokens: int) -> None:
        """Read a long text through windows with and without anchors, stock and as the model stands, until it is
        done, or somebody says stop. What was read stands either way.

        Raises:
            InputError: a pass is not over, or the text cannot be read so.
            Failure: out of memory.
        """
        if self.chart.running:
            raise InputError("a pass is not over: a long text can be read once it has ended")
        patches = [load_patch(self.session.patch(done.number)) for done in self.chart.standing]
        states = {"stock": patches, self.stage: []}
        said, failed = 0.0, False
        with closing(read_on(self.patient, states, source, window, tokens, self.chart.streams)) as reading:
            try:
                for event in reading:
                    now = time.monotonic()
                    if not isinstance(event, events.Progress) or now - said > BETWEEN:
                        self.emit(event)
                        said = now
                    if self._is_to_end() and not isinstance(event, events.StreamEnded):
                        self.emit(events.StreamEnded(outcome="stopped"))
                        return
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                failed = True
        if failed:
            self.emit(events.StreamEnded(outcome="out_of_memory"))
            raise Failure("out of memory while reading: fewer tokens or a smaller window take less")

    def _is_to_end(self) -> bool:
        """Whether to stop reading; what else was asked waits until then."""
        asked = self.inbox()
        self.postponed = [command for command in asked if command.get("command") != "stop"]
        return self.leaving or len(self.postponed) < len(asked)

    def undo(self) -> None:
        """Give the slices of the last standing pass their originals back, or give up one that did not end.

        Raises:
            InputError: no pass stands.
        """
        if self.chart.running:  # it stands still, and its slices hold their originals
            self.emit(events.Undone(number=self.chart.running.number))
            return
        if not self.chart.standing:
            raise InputError("there is no pass to undo")
        last = self.chart.standing[-1].number
        take_off(self.patient, load_patch(self.session.patch(last)))
        self.emit(events.Undone(number=last))

    def accept(self) -> None:
        """Mark the last standing pass as kept by the operator."""
        if not self.chart.standing:
            raise InputError("there is no pass to accept")
        self.emit(events.Accepted(number=self.chart.standing[-1].number))

    def close(self) -> None:
        """Leave in order."""
        self.emit(events.Closed())
        self.writer.close()

    def serve(self) -> None:
        """Do what the screen asks until it says quit, or says nothing for long."""
        idle_since = time.monotonic()
        while time.monotonic() - idle_since < IDLE_SECONDS:
            for command in self.inbox():
                try:
                    self._obey(command)
                except (InputError, Failure) as error:
                    self.emit(events.Refused(message=str(error)))
                idle_since = time.monotonic()
            if self.leaving:
                return
            time.sleep(0.1)

    def _obey(self, command: dict[str, Any]) -> None:
        match command.get("command"):
            case "operate":
                plans = [make_plan(dict(plan)) for plan in (command.get("plan", {}), *command.get("then", []))]
                if self.chart.running:
                    raise InputError(f"pass {self.chart.running.number} is not over: let it go on, or undo it")
                self.emit(events.Queued(plans=[plan.model_dump() for plan in plans]))
                self._work_off(self.inbox)
            case "undo":
                self.undo()
            case "accept":
                self.accept()
            case "stream":
                self.stream(str(command.get("text", "")), *(_count(command, n) for n in ("window", "tokens")))
            case "note":
                self.emit(events.Note(text=str(command.get("text", ""))))
            case "continue" if self.chart.running:
                self.go_on({k: v for k, v in command.items() if k not in ("command", "time")}, self.inbox)
                self._work_off(self.inbox)
            case "pause" | "continue" | "check" | "stop" | "set":
                raise InputError("no pass is running")
            case _:
                self._emit_all(self._look(command))


def _count(command: dict[str, Any], name: str) -> int:
    """Raises InputError: no whole number of that name is given."""
    value = command.get(name)
    if not isinstance(value, int) or value < 0:
        raise InputError(f"{name} is {value!r}; it must be a whole number")
    return value


def carry_out(
    session: Session, show: Callable[[Entry], None] = lambda entry: None, values: dict[str, Any] | None = None
) -> None:
    """Hold a session, do what is left of it, and leave; nobody asks, ``show`` listens.

    Args:
        values: of the plan of the pass that did not end, set anew

    Raises:
        InputError: it is held by another worker, or cannot be opened.
        Failure: out of memory in mid-pass.
    """
    with session.held():
        worker = Worker(session, show)
        worker.open(values=values or {})
        worker.close()


def work(session: Session) -> None:
    """``headsurgeon worker``: hold the session, open it and serve the screen.

    Raises:
        InputError: the session is held by another worker, or it cannot be opened; the journal says so too.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with session.held():
        worker = Worker(session)
        try:
            try:
                worker.open(worker.inbox, attended=True)
            except Failure as error:  # the operator may choose how to go on
                worker.emit(events.Refused(message=str(error)))
            worker.serve()
            worker.close()
        except Exception as error:
            known = isinstance(error, InputError)
            message = str(error) if known else f"{type(error).__name__}: {error} (worker.log holds the details)"
            with suppress(InputError):  # on a full disk not even this can be written
                worker.emit(events.Failed(message=message))
            raise


def versions() -> dict[str, str]:
    """What the record's environment says."""
    return {
        "headsurgeon": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "platform": f"{platform.system()} {platform.machine()}",
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else "",
    }


def session_patches(session: Session) -> tuple[list[Path], str]:
    """The patches of a session's standing passes, in order, and the model they belong to.

    Raises:
        InputError: no pass stands.
    """
    chart = read_chart(session)
    if not chart.standing or chart.created is None:
        raise InputError(
            f"session {session.id} has no finished pass; `headsurgeon resume {session.folder}` may finish one"
        )
    return [session.patch(done.number) for done in chart.standing], chart.created.model


def load_with(model: str, patch: Path | None, device: str, dtype: str) -> tuple[Patient, list[Patch]]:
    """The stock model, and the patches of a session's folder or a patch file to be put on it; nothing is put on yet.

    Raises:
        InputError: either cannot be loaded, or the patch was made for other weights.
    """
    paths: list[Path] = []
    if patch is not None:
        paths = session_patches(open_session(patch))[0] if patch.is_dir() else [patch]
    patches = [load_patch(path) for path in paths]
    find(model)
    patient = load(model, device, dtype)
    for made in patches:
        if made.about.get("weights_sha256") != patient.weights_sha256:
            raise InputError(
                f"{patch} was made for other weights than those of {model} "
                f"({str(made.about.get('weights_sha256'))[:12]}…, here {patient.weights_sha256[:12]}…); "
                f"name the model that it was made for"
            )
    return patient, patches
