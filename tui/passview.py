"""What step 4 shows of a pass: plain functions from its chart to lines and curves."""

from __future__ import annotations

import math
from statistics import fmean

from engine.chart import PassChart
from engine.drift import spreading
from engine.errors import InputError
from engine.events import OutOfMemory
from engine.heads import Rows, Thresholds
from tui.chartlines import Curves, number
from tui.figures import QUIET, WARM, Line, line
from tui.grid import TARGET, WOKEN, Marks

ROLES = {"axis": "$quiet", "stock": "$quiet", "train": "$cold", "heldout": "$warm", "best": "$strong bold"}
OUTCOMES = {
    "completed": "ran to its end",
    "patience": "stopped: no better check for long",
    "stopped": "stopped by the operator, best kept",
    "stopped_last": "stopped by the operator, last kept",
    "failed": "failed",
}


def check_lines(pass_: PassChart, rows: int) -> list[Line]:
    """The newest checks, the last one at the bottom."""
    lines = [line((" check   train held-out woken drifting", QUIET))]
    for check in pass_.checks[-(rows - 1) :]:
        drifting = check.drift.outside.drifting + check.drift.in_band_frozen.drifting
        train = number(math.exp(min(check.train_loss, 700)))
        text = f" {check.step:>5} {train:>7} {number(check.heldout_perplexity):>8} {check.woken:>5} {drifting:>8}"
        lines.append(line(text, (" ◆" if check is pass_.best else "", ROLES["best"])))
    return lines


def whole(text: str) -> int:
    """A number of steps. Raises InputError."""
    if not text.isdecimal() or not 1 <= int(text) <= 10**9:
        raise InputError(f"{text!r} is no number of steps; write a whole number from 1 on")
    return int(text)


def offer(wanted: OutOfMemory, key: str) -> str:
    """What has happened, and the way on by ``key``."""
    what = f"out of memory with micro-batch {wanted.micro_batch}"
    if wanted.offered_micro_batch:
        return f"{what} — {key} goes on with {wanted.offered_micro_batch} × {wanted.offered_accumulate}, the same batch"
    if not wanted.checkpointing:
        return f"{what} — {key} goes on with gradient checkpointing: slower, the same result"
    return f"{what} and no smaller one: fewer targets or shorter samples are the way out"


def marks(pass_: PassChart, rests: Rows, limit: float) -> Marks:
    """× on targets that are still sick, o on those below the threshold, by what they give position 0 and a sink
    logit (``engine.heads.resting``)."""
    return {head: WOKEN if rests[head.layer][head.head] <= limit else TARGET for head in pass_.targets}


def taken(pass_: PassChart, sinks: Rows) -> float | None:
    """What the targets' sink logits take on average; None where no head has one."""
    return fmean(sinks[head.layer][head.head] for head in pass_.targets) if sinks and pass_.targets else None


def treatment_of(pass_: PassChart) -> str:
    """What the pass does to its targets, as its plan has it; an older journal knows only one."""
    return str(pass_.plan.get("treatment", "reinitialise"))


def heldout(pass_: PassChart) -> float | None:
    """The newest held-out perplexity."""
    return pass_.newest.heldout_perplexity if pass_.newest else None


def epoch(pass_: PassChart) -> str:
    """How often the corpus was gone through, and of how many times where the plan counts so."""
    tokens = pass_.started.tokens_per_epoch
    done = pass_.steps[-1].tokens / tokens if tokens and pass_.steps else 0.0
    return f"{done:.2f}" + ("" if pass_.started.plan.get("steps") else f" of {pass_.started.plan.get('epochs')}")


def curves_of(pass_: PassChart) -> Curves:
    """What the plot shows of a pass."""
    points = [(0.0, pass_.cut.heldout_perplexity)] if pass_.cut else []
    points += [(float(check.step), check.heldout_perplexity) for check in pass_.checks]
    best = pass_.best
    return Curves(
        steps=pass_.started.steps,
        stock=pass_.started.heldout_perplexity_stock,
        train=[(float(step.step), step.loss) for step in pass_.steps],
        heldout=points,
        best=(float(best.step), best.heldout_perplexity) if best else None,
    )


def spreading_line(pass_: PassChart, thresholds: Thresholds, width: int) -> Line:
    """Columns whose drift rose since the first check."""
    if len(pass_.checks) < 2:
        return line((" columns       ", QUIET), ("two checks are needed to see spreading", QUIET))
    found = spreading(pass_.checks[0].columns, pass_.checks[-1].columns, thresholds)
    last = pass_.checks[-1].columns
    text = "  ".join(f"H{index} {last[index]:.3f}" for index in found) if found else "none spreads"
    return line((" columns       ", QUIET), (text[: width - 20], WARM if found else ""))
