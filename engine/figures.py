"""The figures that are told of a pass, each with its name and how it is read from the record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from engine.analysis import PassAnalysis, Stages
from engine.heads import CLASSES
from engine.tables import PassTable, Record

Group = Literal["heads", "held-out perplexity", "drift", "writing", "cost"]
GROUPS: tuple[Group, ...] = ("heads", "held-out perplexity", "drift", "writing", "cost")


@dataclass(frozen=True)
class Run:
    """One session, as far as one of its passes goes."""

    record: Record
    pass_: PassTable | None
    """None: the session was only diagnosed, or has not come so far."""
    found: PassAnalysis | None

    @property
    def seed(self) -> int:
        return self.record.session.seed


@dataclass(frozen=True)
class Figure:
    """One figure of every run."""

    key: str
    label: str
    group: Group
    of: Callable[[Run], float | None]
    digits: int = 0
    scale: float = 1.0
    """From the record's unit to the label's."""
    before: bool = False
    """It stands before anything is trained."""
    main: bool = False
    """It belongs to what is shown first."""


def watched(runs: list[Run]) -> list[Figure]:
    names = dict.fromkeys(name for run in runs for name in texts_of(run))
    out = []
    for name in names:
        for stage in ("stock", "cut", "after"):
            key, label = f"perplexity.{name}.{stage}", f"perplexity of {name}, {stage}"
            out.append(Figure(key, label, "held-out perplexity", _text(name, stage), 2, before=stage == "stock"))
    return out


def _text(name: str, stage: str) -> Callable[[Run], float | None]:
    return lambda run: at(run, name, stage)


def at(run: Run, text: str, stage: str) -> float | None:
    """Perplexity on a text at stock, cut or after."""
    found: float | None = getattr(texts_of(run).get(text), stage, None)
    return found


def texts_of(run: Run) -> dict[str, Stages]:
    """Perplexities on every text that a pass was measured on, by name: the held-out part of each of its sources,
    called as where it is watched, and the texts that were watched."""
    p, out = run.pass_, dict[str, Stages]()
    if p is None or run.found is None:
        return out
    if len(p.corpus) == 1:
        out[f"{p.corpus[0].name} (held out)"] = run.found.heldout.stages
    for name, stock in p.heldout_sources_stock.items() if len(p.corpus) > 1 else ():
        cut, after = ((side or {}).get(name) for side in (p.heldout_sources_cut, p.heldout_sources_after))
        out[f"{name} (held out)"] = Stages(stock, cut, after)
    return out | run.found.watched


def _pass(name: str) -> Callable[[Run], float | None]:
    return lambda run: getattr(run.pass_, name, None)


def _found(*path: str) -> Callable[[Run], float | None]:
    """A figure of the analysis; None where anything on its way is."""

    def value(run: Run) -> float | None:
        at: Any = run.found
        for name in path:
            at = getattr(at, name, None)
        return None if at is None else float(at)

    return value


def _class(name: str, side: str) -> Callable[[Run], float | None]:
    def value(run: Run) -> float | None:
        if run.found is None:
            stock = run.record.diagnosis.get("stock")
            return stock.counts.get(name) if stock and side == "before" else None
        return (getattr(run.found.classes, side, None) or {}).get(name)

    return value


def _written(name: str, side: str) -> Callable[[Run], float | None]:
    def value(run: Run) -> float | None:
        stage = "stock" if side == "stock" else f"pass-{run.pass_.number}" if run.pass_ else ""
        table = run.record.generation.get(stage)
        return table.figures.get(name) if table else None

    return value


def _spreading(run: Run) -> float | None:
    return len(run.found.spreading) if run.found and run.found.phases.checks else None


def _targets(run: Run) -> float | None:
    return len(run.pass_.target_heads) if run.pass_ else None


_HELDOUT: Group = "held-out perplexity"
_ZONES = [("outside", "outside"), ("in_band_frozen", "in the band")]

FIGURES: tuple[Figure, ...] = (
    Figure("targets", "targets", "heads", _targets, before=True, main=True),
    Figure("healthy_before", "healthy before", "heads", _class("healthy", "before"), before=True, main=True),
    Figure("healthy_after", "healthy after", "heads", _class("healthy", "after"), main=True),
    *(
        Figure(f"{name}_{side}", f"{name} {side}", "heads", _class(name, side), before=side == "before")
        for name in CLASSES[1:]
        for side in ("before", "after")
    ),
    Figure("woken_at_cut", "woken at the cut", "heads", _found("woken", "at_cut"), main=True),
    Figure("woken", "woken after", "heads", _found("woken", "after"), main=True),
    Figure("sink_mass_cut", "sink logits take at the cut", "heads", _pass("sink_mass_cut"), 3),
    Figure("sink_mass_after", "sink logits take after", "heads", _pass("sink_mass_after"), 3, main=True),
    Figure("sank_again", "sank again, at least", "heads", _found("woken", "sank_again")),
    Figure(
        "working_stock", "working, stock (nats)", "heads", _found("working", "stock"), 4, before=True, main=True
    ),
    Figure("working_cut", "working at the cut (nats)", "heads", _found("working", "cut"), 4),
    Figure("working_after", "working after (nats)", "heads", _found("working", "after"), 4, main=True),
    Figure(
        "heldout_stock", "stock", _HELDOUT, _found("heldout", "stages", "stock"), 2, before=True, main=True
    ),
    Figure("heldout_cut", "at the cut", _HELDOUT, _found("heldout", "stages", "cut"), 2, main=True),
    Figure("heldout_after", "kept", _HELDOUT, _found("heldout", "stages", "after"), 2, main=True),
    Figure("best", "best check", _HELDOUT, _found("heldout", "best", "value"), 2),
    Figure("best_step", "best at step", _HELDOUT, _found("heldout", "best", "step"), main=True),
    Figure("crossed_step", "crosses stock at step", _HELDOUT, _found("heldout", "crossed"), main=True),
    Figure("above_best", "last check above best", _HELDOUT, _found("heldout", "above_best"), 2, main=True),
    *(
        made
        for zone, told in _ZONES
        for made in (
            Figure(f"drift_{zone}_mean", f"mean |δ| {told}", "drift", _found(zone, "final", "mean"), 4, main=True),
            Figure(f"drift_{zone}_drifting", f"drifting {told}", "drift", _found(zone, "final", "drifting"), main=True),
            Figure(f"drift_{zone}_heads", f"heads {told}", "drift", _found(zone, "final", "heads"), before=True),
            Figure(f"drift_{zone}_worst", f"worst |δ| {told}", "drift", _found(zone, "final", "worst"), 4),
        )
    ),
    Figure("spreading", "spreading columns", "drift", _spreading, main=True),
    *(
        Figure(f"{name}_{side}", f"{told}, {side} (%)", "writing", _written(name, side), 1, 100.0, side == "stock")
        for name, told in (
            ("repeated_ngrams", "repeated 4-grams"),
            ("code", "texts with code"),
            ("language_switched", "language switched"),
        )
        for side in ("stock", "after")
    ),
    Figure("trained_parameters", "trained parameters", "cost", _pass("trained_parameters"), before=True, main=True),
    Figure("touched_parameters", "touched parameters", "cost", _found("cost", "touched_parameters"), before=True),
    Figure("steps_planned", "steps planned", "cost", _pass("steps"), before=True),
    Figure("steps_done", "steps done", "cost", _pass("steps_done"), main=True),
    Figure("trained_tokens", "tokens trained on", "cost", _pass("trained_tokens")),
    Figure("tokens_per_second", "tokens a second", "cost", _found("cost", "tokens_per_second"), main=True),
    Figure("training_seconds", "seconds in steps", "cost", _found("cost", "training_seconds"), 1),
    Figure("seconds", "seconds in all", "cost", _found("cost", "wall_seconds"), main=True),
    Figure("memory_bytes_peak", "peak memory (GB)", "cost", _found("cost", "memory_bytes_peak"), 2, 1e-9, main=True),
)  # fmt: skip
