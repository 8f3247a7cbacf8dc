"""The patient's chart: what a journal adds up to. The screen, the record and the reports read it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

from engine import events
from engine.heads import Head, HeadMap, Rows
from engine.journal import Entry, Reader
from engine.session import Session
from engine.streaming import Arm, ArmFigures, Passage, Read


@dataclass
class PassChart:
    """One pass as far as it has come."""

    started: events.PassStarted
    time_started: str
    cut: events.Cut | None = None
    steps: list[events.Step] = field(default_factory=list)
    checks: list[events.Check] = field(default_factory=list)
    saved_step: int = 0
    ended: events.PassEnded | None = None
    time_ended: str = ""
    paused: bool = False
    undone: bool = False
    accepted: bool = False
    changes: list[events.Changed] = field(default_factory=list)
    """What the operator set while it ran."""
    out_of_memory: events.OutOfMemory | None = None
    """Where the pass stands still for want of memory."""

    @property
    def plan(self) -> dict[str, Any]:
        """The plan as it holds now."""
        plan = dict(self.started.plan)
        for change in self.changes:
            plan |= change.values
        return plan

    @property
    def number(self) -> int:
        return self.started.number

    @cached_property
    def targets(self) -> list[Head]:
        return [Head.parse(text) for text in self.started.target_heads]

    @property
    def step(self) -> int:
        return self.steps[-1].step if self.steps else 0

    @property
    def outcome(self) -> str:
        """running, paused, out_of_memory, undone, or as the pass ended."""
        if self.undone:
            return "undone"
        if self.ended:
            return self.ended.outcome
        if self.out_of_memory:
            return "out_of_memory"
        return "paused" if self.paused else "running"

    @property
    def best(self) -> events.Check | None:
        """The check with the lowest held-out perplexity so far."""
        return min(self.checks, key=lambda c: c.heldout_perplexity, default=None)

    @property
    def newest(self) -> events.Check | events.Cut | None:
        """The last look at the model in this pass."""
        return self.checks[-1] if self.checks else self.cut

    @property
    def bos_mass(self) -> Rows | None:
        """BOS mass as last seen in this pass."""
        return self.newest.bos_mass if self.newest else None

    @property
    def sink_mass(self) -> Rows:
        """What sink logits take, as last seen in this pass; no rows where no head has one."""
        return self.newest.sink_mass if self.newest else []

    @property
    def seconds_per_step(self) -> float:
        """Median of the last steps, so that one slow step does not upset the ETA."""
        recent = sorted(step.seconds for step in self.steps[-51:])
        return recent[len(recent) // 2] if recent else 0.0

    def go_back_to(self, step: int) -> None:
        """Forget what came after ``step``: the pass was resumed from there."""
        self.steps = [s for s in self.steps if s.step <= step]
        self.checks = [c for c in self.checks if c.step <= step]
        self.paused = False


@dataclass
class Chart:
    """A session as far as its journal tells."""

    created: events.Created | None = None
    time_created: str = ""
    time_updated: str = ""
    worker: events.WorkerStarted | None = None
    loaded: events.Loaded | None = None
    maps: dict[str, HeadMap] = field(default_factory=dict)
    dormancy: dict[str, list[float]] = field(default_factory=dict)
    """Share of dormant MLP neurons per layer, by stage."""
    generated: dict[str, events.Generated] = field(default_factory=dict)
    contributions: dict[str, events.Contributed] = field(default_factory=dict)
    """Newest of each, by stage."""
    streams: dict[Passage, Read] = field(default_factory=dict)
    """What long texts read through windows came to; the text that was read last stands last."""
    streaming: events.StreamStarted | None = None
    """The long text that is being read, if its worker is alive."""
    stream_ended: tuple[int, str] = (0, "")
    """Entry and outcome of the last reading that ended."""
    passes: list[PassChart] = field(default_factory=list)
    queue: list[dict[str, Any]] = field(default_factory=list)
    """Plans that wait for their turn."""
    notes: list[tuple[str, str]] = field(default_factory=list)
    """(time, text)"""
    progress: events.Progress | None = None
    message: str = ""
    """Last refusal or error, as a sentence."""
    failed: bool = False
    closed: bool = False
    seq: int = 0

    @property
    def stock(self) -> HeadMap | None:
        return self.maps.get("stock")

    @property
    def standing(self) -> list[PassChart]:
        """Finished passes whose slices are in the model, in order."""
        return [p for p in self.passes if p.ended and not p.undone]

    @property
    def head_map(self) -> HeadMap | None:
        """The newest whole head map of the model as it stands."""
        for done in reversed(self.standing):
            if f"pass-{done.number}" in self.maps:
                return self.maps[f"pass-{done.number}"]
        return self.stock

    @property
    def running(self) -> PassChart | None:
        """The pass that has begun and neither ended nor was given up."""
        last = self.passes[-1] if self.passes else None
        return last if last and not last.ended and not last.undone else None

    @property
    def state(self) -> str:
        """created, diagnosed, operating, paused, operated or failed."""
        if self.failed:
            return "failed"
        if self.running:
            return "paused" if self.running.paused else "operating"
        if self.standing:
            return "operated"
        return "diagnosed" if self.stock else "created"

    def add(self, entry: Entry) -> None:
        """Take one entry in."""
        self.seq, self.time_updated = entry.seq, entry.time
        event = entry.event
        running = self.running
        if not isinstance(event, events.Progress):
            self.progress = None
        match event:
            case events.Created():
                self.created, self.time_created = event, entry.time
            case events.WorkerStarted():
                self.worker, self.closed, self.failed, self.message = event, False, False, ""
                self.streaming = None
            case events.Progress():
                self.progress = event
            case events.Loaded():
                self.loaded = event
            case events.Diagnosed():
                self.maps[event.stage] = event.head_map
                self.dormancy[event.stage] = event.mlp_dormancy
            case events.Generated():
                self.generated[event.stage] = event
            case events.Contributed():
                self.contributions[event.stage] = event
            case events.StreamStarted():
                self.streaming = event
            case events.Streamed():
                passage = Passage(event.text, event.text_sha256, event.tokens, event.window)
                figures = ArmFigures(event.perplexity, event.tokens_per_second, event.cache_bytes)
                read = self.streams[passage] = self.streams.pop(passage, {})
                read.setdefault(event.stage, {})[Arm(event.way, event.anchors)] = figures
            case events.StreamEnded():
                self.streaming, self.stream_ended = None, (entry.seq, event.outcome)
            case events.PassStarted():
                if running:  # begun anew before anything was saved
                    self.passes.pop()
                elif self.queue and self.queue[0] == event.plan:
                    self.queue = self.queue[1:]
                self.passes.append(PassChart(event, entry.time))
            case events.Queued():
                self.queue = event.plans
            case events.Note():
                self.notes.append((entry.time, event.text))
            case events.Refused():
                self.message = event.message
            case events.Failed():
                self.message, self.failed, self.streaming = event.message, True, None
            case events.Closed():
                self.closed = True
            case events.Undone() | events.Accepted():
                for pass_ in self.passes:
                    if pass_.number == event.number and isinstance(event, events.Undone):
                        pass_.undone = True
                        self.maps.pop(f"pass-{event.number}", None)
                        self.generated.pop(f"pass-{event.number}", None)
                        self.contributions.pop(f"pass-{event.number}", None)
                        self._forget_reading(f"pass-{event.number}")
                    elif pass_.number == event.number:
                        pass_.accepted = True
            case _ if running:
                self._add_to_pass(running, event, entry.time)

    def _forget_reading(self, stage: str) -> None:
        left = {p: {name: read for name, read in by.items() if name != stage} for p, by in self.streams.items()}
        self.streams = {passage: read for passage, read in left.items() if read}

    def _add_to_pass(self, pass_: PassChart, event: events.Event, time: str) -> None:
        match event:
            case events.Cut():
                pass_.cut = event
            case events.Step():
                pass_.steps.append(event)
                pass_.out_of_memory = None
            case events.Check():
                pass_.checks.append(event)
                if len(pass_.checks) > 2:  # hundreds of a 70×112 patient's maps would take 0.25 MB each; a resume
                    pass_.checks[-3] = replace(pass_.checks[-3], bos_mass=[])  # takes back one check at most
            case events.Saved():
                pass_.saved_step = event.step
            case events.Paused():
                pass_.paused = True
            case events.Continued():
                pass_.paused = False
            case events.Resumed():
                pass_.go_back_to(event.step)
                pass_.out_of_memory = None
            case events.Changed():
                pass_.changes.append(event)
            case events.OutOfMemory():
                pass_.out_of_memory = event
            case events.PassEnded():
                pass_.ended, pass_.time_ended, pass_.paused = event, time, False


def read_chart(session: Session) -> Chart:
    """The chart of a session as its journal stands now."""
    chart = Chart()
    for entry in Reader(session.journal).entries():
        chart.add(entry)
    return chart


def gaps(entries: list[Entry]) -> list[int]:
    """Sequence numbers after which an entry is missing; empty when the journal is whole."""
    return [a.seq for a, b in pairwise(entries) if b.seq != a.seq + 1]
