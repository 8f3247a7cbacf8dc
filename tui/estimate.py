"""What a pass would take, beside what there is. The plan and the memory libraries are imported on first use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from engine.anatomy import recorded_anatomy, whole_groups
from engine.errors import InputError
from engine.events import Loaded
from engine.heads import CLASSES, HeadMap
from engine.printable import size
from engine.targets import Heads
from engine.treatments import named
from tui.figures import QUIET, STRONG, WARM, Line, Part, amount, line, percent, row
from tui.pace import duration
from tui.palette import plain
from tui.plans import as_plan, write
from tui.state import State

if TYPE_CHECKING:
    from engine.chart import Chart
    from engine.plan import Plan


def worker_memory(pid: int) -> int:
    """Bytes of main memory that the worker holds; 0 where it is gone."""
    import psutil

    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


def free_memory(pid: int | None) -> int:
    """Bytes that a pass on the CPU may have: what is free, and what the worker itself already holds."""
    from engine.preflight import free_ram

    return free_ram() + (worker_memory(pid) if pid else 0)


def target_lines(state: State, chosen: Heads, map_: HeadMap, width: int, key: Callable[[str], str]) -> list[Line]:
    """The chosen heads: how many, of which classes, and what they cost. ``key`` names the key of a command."""
    chart, total = state.live.chart, map_.n_layers * map_.n_heads
    lines = [row("targets", (str(len(chosen)), STRONG), f" of {total} heads")]
    if not chosen or chart.loaded is None:
        ways = f"{key('sick')} sick  {key('band')} sick & band  {key('expression')} write"
        return [*lines, row("", (ways, QUIET))]
    classes = Counter(map_.class_of(head) for head in chosen)
    named = ", ".join(f"{classes[name]} {name}" for name in reversed(CLASSES) if classes[name])
    lines.append(row("of these", plain(named, width - 12)))
    from engine.preflight import preflight

    try:
        plan, anatomy = as_plan(state.plan_values, "all"), recorded_anatomy(chart.loaded)
        targets = whole_groups(anatomy, sorted(chosen), plan.touched, plan.whole_groups)
    except InputError as error:
        return [*lines, line((f" {plain(str(error), width - 1)}", WARM))]
    found = preflight(anatomy, targets, plan, chart.loaded.dtype, context_of(map_, chart.loaded))
    (l0, l1), (h0, h1) = found.zone_layers, found.zone_heads
    trained, touched, whole = found.trained_parameters, found.touched_tensor_parameters, found.total_parameters
    return [
        *lines,
        *([row("with groups", f"{len(targets)} heads")] if len(targets) > len(chosen) else []),
        row("zone", f"L{l0}–L{l1} × H{h0}–H{h1}"),
        row("left alone", f"{found.in_band_frozen} in-band, {found.outside} outside"),
        row("train", (f"{amount(trained):>8}", STRONG), f"  {percent(trained, whole)}"),
        row("touched", f"{amount(touched):>8}", (f"  {percent(touched, whole)} whole tensors", QUIET)),
        row("memory", *memory(found.memory_bytes, room(state, chart.loaded), chart.loaded.device)),
        *([row("time", *time_parts(chart, plan))] if plan.trains else []),
    ]


def context_of(map_: HeadMap, loaded: Loaded) -> int:
    """Tokens of the longest text that the heads are measured on."""
    return max((text.tokens for text in map_.texts), default=loaded.context)


def room(state: State, loaded: Loaded) -> int:
    """Bytes that a pass may have where the patient is; 0 where that is not known."""
    if loaded.device != "cpu":
        return state.gpu_room
    worker = state.live.chart.worker
    return free_memory(worker.pid if worker else None)


def memory(needed: int, free: int, device: str) -> list[Part]:
    """The estimate, beside what there is where that is known."""
    if not free:
        return [(f"{size(needed):>8}", STRONG), f"  on {device}"]
    return [(f"{size(needed):>8}", STRONG if needed < free else WARM), f"  of {size(free)} free"]


def time_parts(chart: Chart, plan: Plan) -> list[Part]:
    """How long the steps may take, by the pace of the pass before on the same patient."""
    paced = [pass_ for pass_ in chart.passes if pass_.steps]
    if not paced:
        return [("known after the first pass", QUIET)]
    last = paced[-1]
    per_token = last.seconds_per_step / max(1, last.steps[-1].tokens / last.step)
    steps = plan.steps or -(-last.started.tokens_per_epoch * plan.epochs // plan.tokens_per_step)
    seconds = steps * plan.tokens_per_step * per_token
    what = "" if plan.corpus == list(last.plan.get("corpus", [])) or plan.steps else ", were the corpus the same"
    counted = "" if plan.steps else f", {steps} steps"
    return [(f"{duration(seconds):>8}", STRONG), (f"  as fast as pass {last.number}{counted}{what}", QUIET)]


def plan_lines(state: State, width: int, key: Callable[[str], str]) -> list[Line]:
    """The plan's values, or what is wrong with them."""
    try:
        plan = as_plan(state.plan_values, "all")
    except InputError as error:
        return [line((f" {plain(str(error), width - 1)}", WARM))]
    names = ", ".join(Path(source).name for source in plan.corpus)
    corpus = row("corpus", plain(names, width - 12) if names else (f"none yet — {key('plan')} names one", WARM))
    if not plan.trains:
        still = "  nothing is trained" if plan.treatment == "prune" else ""
        return [corpus, row("treatment", (named(plan.treatment), STRONG), still)]
    length = f"{plan.steps} steps" if plan.steps else f"{plan.epochs} epochs"
    patience = f", patience {plan.patience}" if plan.patience else ""
    return [
        corpus,
        row("plan", f"{length}, lr {write(plan.lr)}, seed {plan.seed}"),
        row("batch", f"{plan.micro_batch} × {plan.accumulate} samples of {plan.length} tokens"),
        row("checks", f"every {plan.check_every} steps{patience}"),
        row("cut", f"{plan.init}, {plan.parts}" if plan.reinit else ("none: the control", STRONG))
        if plan.treatment == "reinitialise"
        else row("treatment", (named(plan.treatment), STRONG)),
    ]
