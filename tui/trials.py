"""A trial as the screen follows it: one row per run, from the runs' journals. No widget here."""

from __future__ import annotations

import shlex
import signal
import time
from dataclasses import dataclass
from datetime import datetime

from engine.chart import Chart
from engine.journal import Reader
from engine.protocol import Run
from engine.trial import Trial, state_of
from tui.live import Process, find_worker, signal_worker
from tui.pace import Pace, duration

BUDGET = 0.05
"""Seconds that one look may read on: many long journals are taken in over several looks."""
SETTLED = ("done", "failed")


@dataclass(frozen=True)
class RunRow:
    """What is told of a run."""

    state: str = "waiting"
    """waiting, done, or the session's own state."""
    doing: str = ""
    """What goes on in it, in a word or two."""
    message: str = ""
    """Why it failed."""
    heads: int = 0
    healthy_before: int | None = None
    healthy_after: int | None = None
    targets: int = 0
    woken: int | None = None
    perplexity_stock: float | None = None
    perplexity: float | None = None
    drift: float | None = None
    """Largest change of BOS mass outside the zone of the pass."""
    seconds: float = 0.0
    """By the journal's clock, from its beginning to its newest entry."""


def row_of(run: Run, chart: Chart) -> RunRow:
    """A run as far as its chart tells; figures are those of its last pass."""
    before, after = chart.stock, chart.head_map
    pass_ = chart.passes[-1] if chart.passes else None
    found = RunRow(
        state=state_of(run, chart),
        doing=_doing(chart),
        message=chart.message if chart.failed else "",
        heads=before.n_layers * before.n_heads if before else 0,
        healthy_before=before.counts()["healthy"] if before else None,
        healthy_after=after.counts()["healthy"] if after and after is not before else None,
        seconds=_seconds(chart),
    )
    if pass_ is None:
        return found
    check = pass_.checks[-1] if pass_.checks else None
    latest = pass_.ended or check
    moved = latest.drift if latest else pass_.cut.drift if pass_.cut else None
    return RunRow(
        **{
            **vars(found),
            "targets": len(pass_.started.target_heads),
            "woken": latest.woken if latest else pass_.cut.woken if pass_.cut else None,
            "perplexity_stock": pass_.started.heldout_perplexity_stock,
            "perplexity": latest.heldout_perplexity if latest else None,
            "drift": moved.outside.worst if moved and moved.outside.heads else None,
        }
    )


def _doing(chart: Chart) -> str:
    progress, pass_ = chart.progress, chart.running
    if progress is not None:
        return f"{progress.what} {progress.done}/{progress.total}" if progress.total else progress.what
    if pass_ is None:
        return chart.state if chart.created else ""
    where = f"pass {pass_.number} step {pass_.step}/{pass_.started.steps}"
    return where if pass_.outcome == "running" else f"{pass_.outcome.replace('_', ' ')}, step {pass_.step}"


def _seconds(chart: Chart) -> float:
    if not chart.time_created or not chart.time_updated:
        return 0.0
    taken = datetime.fromisoformat(chart.time_updated) - datetime.fromisoformat(chart.time_created)
    return max(0.0, taken.total_seconds())


@dataclass
class _Reading:
    """A journal that is being followed."""

    reader: Reader
    chart: Chart
    pace: Pace


class TrialLive:
    """Follows the journals of a trial's runs. Of a run that has come to rest only its row is kept."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.rows = [RunRow() for _ in trial.runs]
        self.sizes = [-1] * len(trial.runs)
        self.readings: dict[int, _Reading] = {}
        self.process: Process | None = None
        self.alive = False
        """A worker holds the trial, or was started and is on its way."""
        self.held: set[int] = set()
        """Runs whose own sessions somebody holds."""
        self.stopping = False
        self.chosen = 0
        """The run under the cursor."""

    def poll(self, budget: float = BUDGET) -> bool:
        """Take in what the journals have gained; True when a row has changed. A file is only opened when it
        has grown."""
        end, changed = time.monotonic() + budget, False
        for index, run in enumerate(self.trial.runs):
            session = self.trial.session(run)
            try:
                size = session.journal.stat().st_size
            except FileNotFoundError:
                continue
            if size == self.sizes[index]:
                continue
            self.sizes[index] = size
            reading = self.readings.setdefault(index, _Reading(Reader(session.journal), Chart(), Pace()))
            for entry in reading.reader.entries():
                reading.chart.add(entry)
                reading.pace.add(entry)
            row = row_of(run, reading.chart)
            if row.state in SETTLED:
                del self.readings[index]  # should it go on after all, it is read again from its start
            changed = changed or row != self.rows[index]
            self.rows[index] = row
            if time.monotonic() > end:
                break
        return changed

    @property
    def read(self) -> bool:
        """Every journal has been taken in."""
        sessions = map(self.trial.session, self.trial.runs)
        return all(size >= 0 or not s.journal.exists() for size, s in zip(self.sizes, sessions, strict=True))

    # the worker

    def look_for_worker(self) -> bool:
        """Find out who holds the trial and its sessions; True when that changed."""
        before = self.alive, self.held
        self.process, self.alive = find_worker(self.trial.own, self.process)
        unfinished = [i for i, row in enumerate(self.rows) if row.state not in ("waiting", "done")]
        self.held = {i for i in unfinished if self.trial.session(self.trial.runs[i]).holder() is not None}
        self.stopping = self.stopping and self.alive
        return (self.alive, self.held) != before

    def start_worker(self) -> None:
        """Start a worker unless one is there; it goes on with what is left."""
        self.look_for_worker()
        if not self.alive:
            self.process = self.trial.own.start_worker()
            self.alive = True

    def stop_worker(self, at_once: bool = False) -> None:
        """Ask the worker to leave, or end it. What it has saved stays."""
        signal_worker(self.trial.own, self.process, signal.SIGKILL if at_once else signal.SIGTERM)
        self.stopping = True

    # in words

    @property
    def done(self) -> int:
        return sum(row.state == "done" for row in self.rows)

    @property
    def failed(self) -> int:
        return sum(row.state == "failed" and i not in self.held for i, row in enumerate(self.rows))

    @property
    def current(self) -> int | None:
        """Index of the run that is being carried out."""
        busy = [i for i, row in enumerate(self.rows) if i in self.held and row.state != "done"]
        return busy[0] if busy else None

    def doing(self, index: int) -> str:
        """What a run does, or where it stands."""
        row = self.rows[index]
        if row.state in ("waiting", "done"):
            return row.state
        if index in self.held:
            return row.doing if row.state != "failed" else "begins again"
        if row.state == "failed":
            return "failed"
        pass_ = self.readings[index].chart.running if index in self.readings else None
        if self.alive and pass_ is None:
            return row.doing  # about to be taken up, or just let go
        return f"stopped at {pass_.step}/{pass_.started.steps}" if pass_ else f"stopped, {row.state}"

    def seconds_left(self) -> float | None:
        """As the runs so far took, which need not be what the others will take; None: none is done yet."""
        taken = [row.seconds for row in self.rows if row.state == "done"]
        current = self.current
        if not taken or not self.alive:
            return None
        open_ = sum(row.state not in SETTLED for row in self.rows)
        spent = self.rows[current].seconds if current is not None else 0.0
        return max(0.0, open_ * sum(taken) / len(taken) - spent)

    def summary(self) -> str:
        """How far the trial is, on one line."""
        total, current = len(self.rows), self.current
        parts = [f"{self.done} of {total} done"]
        if self.failed:
            parts.append(f"{self.failed} failed")
        if self.stopping:
            parts.append("stopping …")
        elif current is not None:
            parts.append(f"now {self.trial.runs[current].name}")
        elif self.alive:
            parts.append("a worker begins …")
        left = self.seconds_left()
        if left and not self.stopping:
            parts.append(f"about {duration(left)} left")
        return ", ".join(parts)

    def farewell(self) -> str:
        """What to say on leaving."""
        folder, total = shlex.quote(str(self.trial.folder)), len(self.rows)
        if self.alive and not self.stopping:
            return (
                f"The trial goes on in its own process: {self.done} of {total} runs are done.\n"
                f"Come back with: headsurgeon open {folder}"
            )
        left = "" if self.done == total else f"Go on with: headsurgeon resume {folder}\n"
        return f"The trial is in {folder}\n{left}Open it again with: headsurgeon open {folder}"
