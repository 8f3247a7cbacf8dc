"""From step 1: a trial, one row per run, as it is carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from engine.treatments import named
from tui.commands import TRIAL, bindings_of
from tui.figures import QUIET, STRONG, WARM, Line, change, joined, line, paragraph
from tui.palette import fit, plain
from tui.plans import write
from tui.screens.beside import BesideScreen
from tui.screens.windows import Ask

if TYPE_CHECKING:  # they bring pydantic, for which the first paint need not wait
    from engine.protocol import Run
    from engine.session import Session
    from tui.trials import RunRow, TrialLive

DETAIL = 3
"""Rows that tell of the run under the cursor."""


class TrialScreen(BesideScreen):
    """The runs in a list that follows their journals; below it the one under the cursor."""

    step = TRIAL
    BINDINGS = bindings_of(TRIAL)

    def __init__(self) -> None:
        super().__init__()
        self.shown: list[Line] = []
        """The rows of the list as they were drawn last."""

    def body(self) -> ComposeResult:
        with Vertical(id="main"):
            yield Static(id="question")
            yield Static(id="list-title")
            yield OptionList(id="runs", compact=True, markup=False)
        yield Static(id="run")

    def on_mount(self) -> None:
        super().on_mount()
        self.query_one("#runs", OptionList).focus()

    @property
    def live(self) -> TrialLive | None:
        return self.surgeon.trial

    def title_of(self) -> str:
        return plain(self.live.trial.title) if self.live else "trial"

    def owner(self) -> Session | None:
        return self.live.trial.own if self.live else None

    def copy_value(self) -> str:
        return str(self.live.trial.folder) if self.live else ""

    def draw_body(self) -> None:
        live = self.live
        if live is None:
            return
        width = self.app.size.width
        asked = paragraph(live.trial.question, width)[:3] if live.trial.question else []
        far = line((f" {live.summary()}", STRONG)) if live.read else line((" reading the journals …", QUIET))
        self.query_one("#question", Static).update(joined([*asked, far, line(" ")]))
        titles = columns(width, "arm", "seed", "state", ("healthy", "woken", "perplexity", "drift"))
        self.query_one("#list-title", Static).update(line(("".join(titles), QUIET)))
        options = self.query_one("#runs", OptionList)
        rows = [run_line(run, live, index, width) for index, run in enumerate(live.trial.runs)]
        if len(rows) != options.option_count:
            options.clear_options()
            options.add_options(Option(text, id=f"run-{index}") for index, text in enumerate(rows))
            options.highlighted = min(live.chosen, len(rows) - 1)
        else:
            for index, text in enumerate(rows):
                if text != self.shown[index]:
                    options.replace_option_prompt(f"run-{index}", text)
        self.shown = rows
        self._tell()

    def _tell(self) -> None:
        """The run under the cursor: what it does, or why it failed."""
        live = self.live
        if live is not None and live.rows:
            lines = run_lines(live.trial.runs[live.chosen], live.rows[live.chosen], self.app.size.width)
            self.query_one("#run", Static).update(joined(lines[:DETAIL]), layout=False)

    def on_option_list_option_highlighted(self, event: OptionList.OptionHighlighted) -> None:
        if self.live is not None and event.option_index is not None:
            self.live.chosen = event.option_index
            self._tell()

    def status(self) -> str:
        live = self.live
        if live is None:
            return ""
        resume, leave = self.key("worker"), self.key("leave")
        if live.stopping:
            return f"the worker was asked to leave; {self.key('stop_trial')} again ends it at once"
        if live.alive:
            return f"{leave} leaves; the trial goes on without the screen"
        if live.done == len(live.rows):
            return f"all is done: {self.key('comparison')} compares the arms"
        if live.held:
            return "a run's own worker is at work, not the trial's"
        return f"nobody is at work on this: {resume} goes on with what is left"

    def idle(self) -> set[str]:
        if self.live is None:
            return set()
        return {"worker"} if self.live.alive else {"stop_trial"}

    # keys

    @property
    def session(self) -> Session | None:
        """The chosen run's; says so where it has not begun."""
        live = self.live
        if live is None:
            return None
        session = live.trial.session(live.trial.runs[live.chosen])
        if session.journal.exists() or session.record.exists():
            return session
        self.surgeon.say("this run has not begun yet")
        return None

    def on_option_list_option_selected(self) -> None:
        self.action_choose()

    def action_choose(self) -> None:
        session = self.session
        if session is not None:
            self.surgeon.open_session(session)

    def action_replay(self) -> None:
        session = self.session
        if session is not None:
            self.surgeon.replay(session)

    def action_comparison(self) -> None:
        live = self.live
        if live is None:
            return
        sessions = [session for _, session in live.trial.begun()]
        if sessions:
            all_passes = any(len(run.plans) > 1 for run in live.trial.runs)
            self.surgeon.compare(sessions, live.trial.title, TRIAL, all_passes)
        else:
            self.surgeon.say("no run has begun yet")

    def action_worker(self) -> None:
        live = self.live
        if live is None:
            return
        live.look_for_worker()
        if live.alive:
            self.surgeon.say("a worker is there already")
        elif live.held:
            self.surgeon.say("a worker of its own holds one of the runs: stop it there first")
        elif live.done == len(live.rows):
            self.surgeon.say("all runs are done")
        else:
            live.start_worker()
            self.draw()

    def action_stop_trial(self) -> None:
        live = self.live
        if live is None or not live.alive:
            self.surgeon.say("nobody is at work on this trial")
            return
        question = "End the worker? At most the steps since the last check are done again when it is resumed."
        if live.stopping:
            question = "It has been asked to leave and has not left yet. End it at once? What it has saved stays."
        at_once = live.stopping

        def answered(yes: bool | None) -> None:
            if yes:
                live.stop_worker(at_once)
                self.draw()

        self.app.push_screen(Ask(question), answered)


def columns(width: int, arm: str, seed: str, state: str, figures: tuple[str, str, str, str]) -> tuple[str, str]:
    """A row of the list, up to the state and from there on; name and state take what room there is."""
    extra = max(0, width - 80)
    name, doing = 15 + min(24, extra), 20 + min(20, max(0, extra - 24))
    healthy, woken, perplexity, drift = figures
    return (
        f" {fit(arm, name)} {seed:>4} ",
        f"{fit(state, doing)} {healthy:>7} {woken:>7} {fit(perplexity, 13)} {drift:>5}",
    )


def run_line(run: Run, live: TrialLive, index: int, width: int) -> Line:
    """One run in the list; a failed one says why."""
    row = live.rows[index]
    before, rest = columns(width, run.arm, str(run.seed)[-4:], live.doing(index), figures_of(row))
    busy, failed = index in live.held, row.state == "failed" and index not in live.held
    if failed and row.perplexity is None:
        rest = plain(f"failed: {row.message}", width - 3 - cell_len(before))
    style = WARM if failed else STRONG if busy else "" if row.state in ("done", "failed") else QUIET
    return line((before + rest, style))


def figures_of(row: RunRow) -> tuple[str, str, str, str]:
    """Healthy, woken, perplexity and drift, as far as they are known."""
    healthy = "" if row.healthy_before is None else str(row.healthy_before)
    if row.healthy_after is not None:
        healthy += f"→{row.healthy_after}"
    woken = "" if row.woken is None else f"{row.woken}/{row.targets}"
    perplexity = "" if row.perplexity_stock is None else change(row.perplexity_stock, row.perplexity)
    return healthy, woken, perplexity, "" if row.drift is None else f"{row.drift:.3f}"


def run_lines(run: Run, row: RunRow, width: int) -> list[Line]:
    """What a run does, in at most ``DETAIL`` lines."""
    if row.state == "failed":
        return paragraph(f"{run.name} failed: {row.message}", width, WARM)
    if not run.plans:
        return paragraph(f"{run.name}: {run.model}, diagnosed only", width)
    plan, more = run.plans[0], f", then {len(run.plans) - 1} more" * (len(run.plans) > 1)
    steps = f"{plan.steps} steps" if plan.steps else f"{plan.epochs} epochs"
    pace = f"{steps}, lr {write(plan.lr)}" if plan.trains else "no training"
    usual = plan.treatment == "reinitialise" and plan.reinit
    done = "" if usual else f", {named(plan.treatment, plan.reinit)}"
    corpus = ", ".join(source.rsplit("/", 1)[-1] if source[:1] == "/" else source for source in plan.corpus)
    words = f"{run.name}: {' '.join(plan.targets.split())}{done}, {pace}, on {corpus}{more}"
    return paragraph(words, width)
