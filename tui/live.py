"""A session as the screen follows it: its chart, its pace, and whether a worker is there. No widget here."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from contextlib import suppress
from datetime import datetime
from typing import Any

from engine.chart import Chart
from engine.events import Attention, PassStarted, WorkerStarted
from engine.heads import Rows
from engine.journal import Entry, Reader
from engine.session import Session
from tui.pace import Pace

QUIET_LIMIT = 120.0
"""Seconds without a line in the journal after which a running pass looks hung, at least."""
QUIET_FACTOR = 6.0
"""… or so many times the longest silence of this pass so far."""


Process = subprocess.Popen[bytes]


def find_worker(session: Session, started: Process | None) -> tuple[Process | None, bool]:
    """The worker that was started here, as long as it runs, and whether there is any."""
    if started is not None and started.poll() is None:
        return started, True  # the lock is left alone while our own worker may be about to take it
    return None, session.holder() is not None


def signal_worker(session: Session, started: Process | None, number: signal.Signals) -> None:
    """Send a signal to whoever holds a session, or else to the worker that was started here."""
    pid = session.holder() or (started.pid if started is not None else 0)
    if pid:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


class Live:
    """Reads a session's journal from the start and then follows it."""

    replaying = False

    def __init__(self, session: Session) -> None:
        self.session = session
        self.chart = Chart()
        self.pace = Pace()
        self.reader = Reader(session.journal)
        self.size = -1
        self.waiting: list[tuple[str, dict[str, Any]]] = []
        """Asked for while no worker listened; sent as soon as one does."""
        self.process: Process | None = None
        self.former: WorkerStarted | None = None
        """The worker before the one that was started here."""
        self.alive = False
        """A worker holds the session, or was started and is on its way."""
        self.attention: dict[tuple[int, int, str], Attention] = {}
        """(layer, head, name of the text) -> what was measured last"""
        self.looks_hung = False
        """As ``hung`` said at the last look."""
        self.longest = 0.0
        """Longest silence within the running pass so far, in seconds."""
        self.last_time = 0.0

    def poll(self) -> list[Entry]:
        """What the journal has gained; the file is only opened when it has grown."""
        try:
            size = self.session.journal.stat().st_size
        except FileNotFoundError:
            return []
        if size == self.size:
            return []
        self.size = size
        entries = list(self.reader.entries())
        for entry in entries:
            self.take(entry)
        self._send_waiting()
        return entries

    def take(self, entry: Entry) -> None:
        """Take one entry in."""
        idle = self.chart.running is None
        self.chart.add(entry)
        self.pace.add(entry)
        event = entry.event
        at = datetime.fromisoformat(entry.time).timestamp() if entry.time else 0.0
        match event:
            case PassStarted():
                self.longest = 0.0
            case WorkerStarted():
                pass  # before it nobody was there to speak
            case Attention():
                self.attention[event.layer, event.head, event.text] = event
            case _ if not idle:
                self.longest = max(self.longest, at - self.last_time)
        self.last_time = at

    def contributions(self, stage: str) -> Rows | None:
        """Nats that the held-out loss loses when a head alone is silent; None: not measured."""
        found = self.chart.contributions.get(stage)
        return found.rows if found else None

    @property
    def plans_waiting(self) -> list[dict[str, Any]]:
        """Plans that have not begun: those of the session's order, then those that were asked for since."""
        created, begun = self.chart.created, len(self.chart.passes)
        ordered = created.plans[begun:] if created else []
        return [*ordered, *self.chart.queue]

    # the worker

    def look_for_worker(self) -> bool:
        """Find out whether a worker is there, and whether it answers; True when that changed."""
        before = self.alive, self.looks_hung
        self.process, self.alive = find_worker(self.session, self.process)
        self.looks_hung = self.hung > 0
        return (self.alive, self.looks_hung) != before

    def start_worker(self) -> None:
        """Start a worker unless one is there; it goes on with an unfinished pass by itself."""
        self.look_for_worker()
        if not self.alive:
            self.former = self.chart.worker
            self.process = self.session.start_worker()
            self.alive = True

    def ask(self, command: str, **values: Any) -> None:
        """Ask the worker for something; where none is there, start one and ask it."""
        self.waiting.append((command, values))
        self.start_worker()
        self._send_waiting()

    def _send_waiting(self) -> None:
        while self.waiting and self.listening:
            command, values = self.waiting.pop(0)
            self.session.send(command, **values)

    def kill_worker(self) -> None:
        """End a worker that does not answer any more. What it has saved stays."""
        signal_worker(self.session, self.process, signal.SIGKILL)
        if self.process is not None:
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(5)
        for _ in range(100):  # the lock falls with the process, which may take a moment
            if self.session.holder() is None:
                break
            time.sleep(0.02)

    def files(self) -> list[tuple[str, str]]:
        """Names and paths of the session's files that exist."""
        session = self.session
        files = [("folder", session.folder), ("record", session.record), ("journal", session.journal)]
        files.append(("worker's log", session.log))
        files += [(f"patch of pass {p.number}", session.patch(p.number)) for p in self.chart.passes]
        files.append(("exports", session.exports))
        return [(name, str(path)) for name, path in files if path.exists()]

    def farewell(self) -> str:
        """What to say on leaving; asks an idle worker to leave too."""
        folder, running = shlex.quote(str(self.session.folder)), self.chart.running
        if running is not None and self.alive:
            state = "is paused" if running.paused else "goes on"
            step = f"step {running.step} of {running.started.steps}"
            return (
                f"Pass {running.number} {state} at {step}, in its own process.\n"
                f"Come back with: headsurgeon open {folder}"
            )
        if self.alive:
            self.session.send("quit")
        return f"The session is in {folder}\nOpen it again with: headsurgeon open {folder}"

    def discard(self) -> None:
        """Remove a session in which nothing was begun, once its worker has left."""
        if self.process is not None:
            self.process.wait(10)
        self.session.discard()

    def cancel(self) -> None:
        """End the worker before it has diagnosed, and remove the session."""
        if self.process is not None:
            self.process.terminate()
            try:
                self.process.wait(2)
            except subprocess.TimeoutExpired:  # a library that is loading may not heed it
                self.process.kill()
                self.process.wait(5)
        self.session.discard()

    @property
    def listening(self) -> bool:
        """A worker is there and obeys what is asked from now on (commands before its start are void)."""
        chart = self.chart
        return self.alive and chart.worker is not self.former and not chart.closed and not chart.failed

    @property
    def gone(self) -> bool:
        """Something was under way and nobody is there to do it."""
        chart = self.chart
        loading = chart.stock is None and not chart.failed and not chart.closed
        return not self.alive and (chart.running is not None or loading)

    @property
    def silent(self) -> float:
        """Seconds since the journal has last grown."""
        try:
            return max(0.0, time.time() - self.session.journal.stat().st_mtime)
        except FileNotFoundError:
            return 0.0

    @property
    def silence_limit(self) -> float:
        """Seconds of silence that a running pass may keep."""
        return max(QUIET_LIMIT, QUIET_FACTOR * self.longest)

    @property
    def hung(self) -> float:
        """Seconds that a live worker has been silent in a running pass, where that is suspiciously long;
        otherwise 0."""
        running = self.chart.running
        if running is None or running.outcome != "running" or not self.listening:
            return 0.0
        silent = self.silent
        return silent if silent > self.silence_limit else 0.0
