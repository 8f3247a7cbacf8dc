"""A session as the screen follows it: its chart, its pace, and whether a worker is there. No widget here."""

from __future__ import annotations

import shlex
import subprocess
from typing import Any

from engine.chart import Chart
from engine.events import WorkerStarted
from engine.journal import Entry, Reader
from engine.session import Session
from tui.pace import Pace


class Live:
    """Reads a session's journal from the start and then follows it."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.chart = Chart()
        self.pace = Pace()
        self.reader = Reader(session.journal)
        self.size = -1
        self.waiting: list[tuple[str, dict[str, Any]]] = []
        """Asked for while no worker listened; sent as soon as one does."""
        self.process: subprocess.Popen[bytes] | None = None
        self.former: WorkerStarted | None = None
        """The worker before the one that was started here."""
        self.alive = False
        """A worker holds the session, or was started and is on its way."""

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
            self.chart.add(entry)
            self.pace.add(entry)
        self._send_waiting()
        return entries

    def look_for_worker(self) -> bool:
        """Find out whether a worker is there; True when that changed."""
        before = self.alive
        if self.process is not None and self.process.poll() is None:
            self.alive = True  # the lock is left alone while our own worker may be about to take it
        else:
            self.process = None
            self.alive = self.session.holder() is not None
        return self.alive != before

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
