"""Arms in words: a figure over seeds, what came of each arm, and which arms stand first in what."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from engine.arms import Arm, Spread, comparable, of_arm, spread
from engine.figures import FIGURES, Figure
from engine.report.words import NOT_KNOWN, grouped

BY_KEY = {made.key: made for made in FIGURES}
PERPLEXITY = Figure("perplexity", "", "held-out perplexity", lambda run: None, 2)
"""Of any text."""
TIES = 3
"""So many arms that stand first together are named."""


def told(figure: Figure, found: Spread) -> str:
    """``24.10 ± 0.31``: mean and standard deviation; the value alone of one run, or where all are alike. Where not all
    runs know the figure, how many do."""
    if found.mean is None:
        return NOT_KNOWN
    some = f" ({found.n} of {len(found.values)})" if found.n < len(found.values) else ""
    mean = found.mean * figure.scale
    alike = found.low == found.high
    digits = 0 if figure.digits == 0 and (alike or abs(mean) >= 1000) else figure.digits or 1
    if found.sd is None or alike:
        return plain(figure, found.mean, digits) + some
    return f"{plain(figure, found.mean, digits)} ± {plain(figure, found.sd, digits)}{some}"


def words_of(key: str, arm: Arm) -> str:
    """An arm's figure in words."""
    return told(BY_KEY[key], of_arm(BY_KEY[key], arm))


def range_of(found: Spread) -> str:
    """A perplexity that is the same in all, or its range."""
    if found.low is None or found.high is None:
        return NOT_KNOWN
    return f"{found.low:.2f}" if found.high - found.low < 0.005 else f"{found.low:.2f} to {found.high:.2f}"


def plain(figure: Figure, value: float | None, digits: int) -> str:
    """One value in the unit of the figure's label."""
    if value is None:
        return NOT_KNOWN
    value *= figure.scale
    if abs(value) >= 1e6 and digits:
        return f"{value:.1e}"
    return f"{value:.{digits}f}" if digits else grouped(round(value))


# -- arm by arm


def findings(arms: Sequence[Arm]) -> list[tuple[Arm, list[str]]]:
    """What came of each arm that has a pass, in short phrases."""
    return [(arm, _phrases(arm)) for arm in arms if arm.passes]


def _phrases(arm: Arm) -> list[str]:
    def words(key: str) -> str:
        return words_of(key, arm)

    out = [f"{words('woken_at_cut')} of {words('targets')} targets woken at the cut, {words('woken')} after training"]
    if any(p.sink_mass_after is not None for p in arm.passes):
        out.append(f"sink logits take {words('sink_mass_after')} of the targets' weight")
    out.append(f"working {words('working_stock')} → {words('working_after')} nats")
    out.append(f"held-out perplexity {words('heldout_stock')} → {words('heldout_after')}")
    return [*out, *([crossing(arm), best(arm)] if checked(arm) else []), *of_curves(arm)]


def checked(arm: Arm) -> bool:
    """Whether any of its runs has come to a check."""
    return any(run.found and run.found.heldout.best for run in arm.runs)


def of_curves(arm: Arm) -> list[str]:
    """How an arm's curves end and what its drift says; none before the first check."""
    if not checked(arm):
        return []
    sank = of_arm(BY_KEY["sank_again"], arm).high
    again = [f"at least {words_of('sank_again', arm)} sank again"] if sank else []
    return [ending(arm), *again, reading(arm)]


def crossing(arm: Arm) -> str:
    """Where held-out perplexity first is at or below stock, seed by seed."""
    steps = [run.found.heldout.crossed for run in arm.runs if run.found and run.found.heldout.curve]
    if all(step is None for step in steps):
        return "never at or below stock"
    if all(step == 0 for step in steps):
        return "at or below stock from the cut on"
    if len(set(steps)) == 1:
        return f"crosses stock at step {steps[0]}"
    named = ["never" if step is None else "at the cut" if step == 0 else f"at step {step}" for step in steps]
    return "crosses stock " + ", ".join(named)


def best(arm: Arm) -> str:
    """The best check's perplexity and where it lies."""
    return f"best {words_of('best', arm)} at step {words_of('best_step', arm)} of {words_of('steps_planned', arm)}"


def ending(arm: Arm) -> str:
    """How far the last check lies above the best."""
    shares = spread(run.found.phases.perplexity_above_best if run.found else None for run in arm.runs)
    if not shares.high:
        return "the last check is the best"
    return f"the last check {told(_SHARE, shares)} % above it"


_SHARE = Figure("share", "", "held-out perplexity", lambda run: None, 1, 100.0)


def reading(arm: Arm) -> str:
    """Early redistribution against late decay, by the rules of ``engine.analysis``; by seeds where they differ."""
    readings = Counter(run.found.phases.reading for run in arm.runs if run.found)
    if len(readings) == 1:
        return "early or late drift: " + next(iter(readings))
    return "early or late drift: " + "; ".join(f"{text} ({n} of {len(arm.runs)})" for text, n in readings.items())


# -- across arms


@dataclass(frozen=True)
class Extreme:
    """Which arms stand first in a figure, and which comes next."""

    label: str
    first: list[Arm]
    words: str
    after: Arm | None
    after_words: str


_ORDERED = [
    ("lowest held-out perplexity kept", "heldout_after", -1),
    ("most that the targets are worth (nats)", "working_after", 1),
    ("most healthy heads after", "healthy_after", 1),
    ("most targets woken after", "woken", 1),
    ("least mean |δ| outside", "drift_outside_mean", -1),
    ("least mean |δ| in the band", "drift_in_band_frozen_mean", -1),
]


def extremes(arms: Sequence[Arm]) -> list[Extreme]:
    """The arms that stand first, by means over seeds. A figure in which all are alike is left out, and so are
    perplexities and what heads are worth where they are not on one text and one patient."""
    done = [arm for arm in arms if arm.passes]
    out = []
    for label, key, way in _ORDERED:
        if key in ("heldout_after", "working_after") and not comparable(done):
            continue
        figure = BY_KEY[key]
        found = {id(arm): of_arm(figure, arm) for arm in done}
        ranked = sorted(
            (arm for arm in done if found[id(arm)].mean is not None),
            key=lambda arm: -way * (found[id(arm)].mean or 0.0),
        )
        words = [told(figure, found[id(arm)]) for arm in ranked]
        alike = sum(found[id(arm)].mean == found[id(ranked[0])].mean for arm in ranked) if ranked else 0
        if len(ranked) < 2 or alike == len(ranked) or alike > TIES:
            continue
        out.append(Extreme(label, ranked[:alike], words[0], ranked[alike], words[alike]))
    return out
