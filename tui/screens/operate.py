"""Step 4: a pass while it runs."""

from __future__ import annotations

import math

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from engine.chart import PassChart
from engine.heads import resting
from engine.printable import size
from engine.treatments import named, trains
from tui.block import Block
from tui.chartlines import number, plot
from tui.commands import OPERATE, Command, bindings_of
from tui.estimate import worker_memory
from tui.figures import QUIET, STRONG, Line, Part, drift_table, joined, line
from tui.grid import HeadGrid
from tui.pace import duration
from tui.palette import plain
from tui.passview import (
    OUTCOMES,
    ROLES,
    check_lines,
    curves_of,
    epoch,
    heldout,
    marks,
    offer,
    spreading_line,
    taken,
    treatment_of,
    whole,
)
from tui.screens.heads import HeadScreen, place
from tui.screens.lines import LineWindow, Sheet
from tui.screens.windows import Ask
from tui.tables import history
from tui.views import DRIFT, MASS, TITLES

OTHER_ROWS = 11
"""Rows of the screen that the grid cannot have."""


class OperateScreen(HeadScreen):
    """Figures, curves, the live grid, drift and the last checks."""

    step = OPERATE
    BINDINGS = bindings_of(OPERATE)

    def body(self) -> ComposeResult:
        with Horizontal(id="main"):
            with Vertical(id="side"):
                yield HeadGrid(self.surgeon.ascii_only, id="grid")
                yield Static(id="legend")
            yield Block(id="panel")
        yield Static(id="drift")

    @property
    def shown(self) -> PassChart | None:
        """The running pass, or the last one."""
        return self.chart.passes[-1] if self.chart.passes else None

    def draw_body(self) -> None:
        pass_, grid, head_map = self.shown, self.query_one(HeadGrid), self.chart.stock
        panel = self.query_one("#panel", Block)
        if head_map is None or pass_ is None or self.state.asked:
            if head_map is not None:
                grid.show(self.state.view_of(head_map.bos_mass, head_map, "stock"), {}, self.state.cursor)
                place(self, grid, OTHER_ROWS)
            for name in ("#legend", "#drift"):
                self.query_one(name, Static).update("", layout=False)
            status = self.status() or f"no pass has run: {self.key('back')} goes back to plan one"
            panel.update(line((f"\n {status}", QUIET)))
            return
        mass = pass_.bos_mass or head_map.bos_mass
        grid.show(
            self.state.view_of(mass, head_map, "stock", name=self.live_view),
            marks(pass_, resting(mass, pass_.sink_mass), head_map.thresholds.bos_sink),
            self.state.cursor,
        )
        width = place(self, grid, OTHER_ROWS)
        panel.update(joined(self._panel(pass_, width, self.app.size.height - 9)))
        self.draw_head()
        self.query_one("#drift", Static).update(joined(self._drift(pass_)), layout=False)

    @property
    def live_view(self) -> str:
        """What the live grid shows: only the BOS mass is measured while a pass runs, and so its drift."""
        return DRIFT if self.state.view == DRIFT else MASS

    def _view(self, step: int) -> None:
        self.state.view = MASS if self.live_view == DRIFT else DRIFT
        self.surgeon.say(f"view: {TITLES[self.state.view]}; the others are in step 2")

    def message(self) -> Line:
        pass_, live = self.chart.running, self.state.live
        if pass_ is not None and pass_.out_of_memory is not None and not self.surgeon.notice[0]:
            return line((f" {offer(pass_.out_of_memory, self.key('smaller'))}", "$warm bold"))
        if live.looks_hung:
            text = (
                f"no news from the worker for {duration(live.silence_limit)} — {self.key('worker')} ends it and goes on"
            )
            return line((f" {text}", "$warm bold"))
        return super().message()

    def status(self) -> str:
        waiting = self.state.live.plans_waiting
        if waiting and self.chart.progress is None and self.chart.running:
            targets = "; ".join(plain(str(plan.get("targets", "")), 24) for plan in waiting)
            return f"queued: {len(waiting)} more — {targets}"
        if self.state.asked and self.chart.progress is None and self.state.live.listening:
            return "the worker has been asked to operate …"
        if self.shown and self.shown.ended and self.chart.progress is None:
            return f"the pass has ended: {self.key('forward')} goes on to its record"
        return super().status()

    def _panel(self, pass_: PassChart, width: int, rows: int) -> list[Line]:
        if not trains(treatment_of(pass_)):
            return self._still(pass_)
        lines = self._figures(pass_)
        checks = check_lines(pass_, max(3, rows // 6))
        height = max(5, rows - len(lines) - len(checks))
        drawn = plot(curves_of(pass_), width, height, self.surgeon.glyphs)
        lines += [line(*((text, ROLES[role]) for text, role in pieces)) for pieces in drawn]
        return lines + checks

    def _state(self, pass_: PassChart) -> Part:
        live = self.state.live
        if live.replaying and not pass_.ended:
            return "as it was", STRONG
        if pass_.ended:
            done = treatment_of(pass_)
            kept = f"step {pass_.ended.kept_step} kept" if trains(done) else named(done)
            return f"{OUTCOMES.get(pass_.outcome, pass_.outcome)}, {kept}", STRONG
        if pass_.out_of_memory is not None:
            return "out of memory", "$warm bold"
        if not live.alive:
            return "worker gone", "$warm bold"
        if live.looks_hung:
            return "no news from the worker", "$warm bold"
        if not live.listening:
            return "waiting for the worker", "$warm bold"
        return ("paused", "$warm bold") if pass_.paused else ("operating", STRONG)

    def _first_line(self, pass_: PassChart) -> Line:
        return line(f" pass {pass_.number} ", self._state(pass_), (self._memory(), QUIET))

    def _still(self, pass_: PassChart) -> list[Line]:
        """Three lines of a pass that trains nothing."""
        after = pass_.ended.heldout_perplexity if pass_.ended else heldout(pass_)
        return [
            self._first_line(pass_),
            line((f" {named(treatment_of(pass_))}: no steps, nothing is trained", QUIET)),
            line(
                (" held-out ", QUIET), (number(after) if after else "–", ROLES["heldout"]),
                (f"   stock {number(pass_.started.heldout_perplexity_stock)}", QUIET),
            ),
        ]  # fmt: skip

    def _figures(self, pass_: PassChart) -> list[Line]:
        """Five lines: state, speed, loss, and what the curves show."""
        started, live = pass_.started, self.state.live
        left = live.pace.seconds_left(started.steps) if not pass_.ended and not pass_.paused else None
        speed = live.pace.tokens_per_second
        last = pass_.steps[-1] if pass_.steps else None
        newest, best = heldout(pass_), pass_.best
        time_or_peak: tuple[Part, Part] = ((" left ", QUIET), duration(left) if left is not None else "–")
        if pass_.ended and pass_.ended.peak_memory_bytes:
            time_or_peak = ((" memory peak ", QUIET), size(pass_.ended.peak_memory_bytes))
        return [
            self._first_line(pass_),
            line(
                (" step ", QUIET), (f"{pass_.step}", STRONG), f" of {started.steps}",
                (f"   epoch {epoch(pass_)}", QUIET), (f"   lr {last.lr:.1e}" if last else "", QUIET),
            ),
            line(
                *time_or_peak,
                (f"  {speed:.0f} tok/s" if speed else "", QUIET),
                (f"  loss {last.loss:.3f}" if last else "", QUIET),
            ),
            line(
                (" held-out ", QUIET), (number(newest) if newest else "–", ROLES["heldout"]),
                (" best ", QUIET),
                (f"{number(best.heldout_perplexity)} at {best.step}" if best else "–", ROLES["best"]),
            ),
            line(
                (" training ", QUIET), (number(math.exp(min(last.loss, 700))) if last else "–", ROLES["train"]),
                (f" stock {number(started.heldout_perplexity_stock)} (dotted)", QUIET),
            ),
        ]  # fmt: skip

    def _memory(self) -> str:
        live = self.state.live
        pass_, loaded = self.shown, live.chart.loaded
        if pass_ is not None and pass_.ended is not None:
            return ""
        wanted = f" of about {size(pass_.started.memory_bytes)}" if pass_ and pass_.started.memory_bytes else ""
        if loaded is not None and loaded.device != "cpu":
            return f"   memory{wanted.removeprefix(' of')}" if wanted else ""
        held = worker_memory(live.chart.worker.pid) if live.alive and live.listening and live.chart.worker else 0
        return f"   {size(held)}{wanted}" if held else ""

    def draw_head(self) -> None:
        """Woken so far, and the cursor's head, below the grid."""
        pass_, stock, own = self.shown, self.chart.stock, self.state.cursor
        if pass_ is None or stock is None or self.state.asked:
            return
        woken = pass_.newest.woken if pass_.newest else 0
        cut = f", {pass_.cut.woken} at the cut" if pass_.cut else ""
        logits = taken(pass_, pass_.sink_mass)
        cut = cut if logits is None else f", logits take {logits:.2f}"
        now = pass_.bos_mass
        here = f"{stock.mass(own):.3f}" + (f" → {now[own.layer][own.head]:.3f}" if now else "")
        on_logit = pass_.sink_mass[own.layer][own.head] if pass_.sink_mass else 0.0
        here += f" + {on_logit:.3f}" if on_logit else ""
        what = "target" if str(own) in pass_.started.target_heads and not on_logit else ""
        if self.live_view == DRIFT:
            what = "drift" if on_logit else "view: drift"
        lines = [
            line((" woken o ", QUIET), (f"{woken}/{len(pass_.started.target_heads)}", STRONG), (cut, QUIET)),
            line(
                (f" {own!s:<8}", STRONG), here,
                (f"  {what}" if what else "", QUIET if self.live_view == DRIFT else ""),
            ),
        ]  # fmt: skip
        self.query_one("#legend", Static).update(joined(lines), layout=False)

    def _drift(self, pass_: PassChart) -> list[Line]:
        check, cut = pass_.checks[-1] if pass_.checks else None, pass_.cut
        lines = drift_table(
            cut.drift if cut else None, check.drift_training if check else None, check.drift if check else None
        )
        assert self.chart.stock is not None
        return [*lines, spreading_line(pass_, self.chart.stock.thresholds, self.app.size.width)]

    def idle(self) -> set[str]:
        ended = any(pass_.ended for pass_ in self.chart.passes)
        running = self.chart.running
        if self.state.live.replaying:
            return {"pause", "check", "stop", "note", "smaller", "worker"}
        live = self.state.live
        idle = set() if running and live.alive else {"pause", "check", "stop"}
        if not (live.gone or live.looks_hung):
            idle |= {"worker"}
        if running is not None and running.out_of_memory is not None:
            idle = {"pause", "check", "stop", "worker"}
        else:
            idle |= {"smaller"}
        return idle | (set() if ended else {"forward"})

    def label(self, command: Command) -> str:
        running = self.chart.running
        return "continue" if command.id == "pause" and running and running.paused else command.label

    # keys

    def _to_ask(self, what: str) -> PassChart | None:
        """The running pass, if there is one to ask for something; says why not otherwise."""
        running = self.chart.running
        if self.state.live.replaying:
            self.surgeon.say("this is a replay: nothing can be asked of it")
            return None
        if running is None:
            self.surgeon.say(f"nothing to {what}: no pass is running")
        elif not self.state.live.alive:
            self.surgeon.say(f"nothing to {what}: the worker is gone, {self.key('worker')} starts it again")
            return None
        return running

    def action_pause(self) -> None:
        running = self._to_ask("pause")
        if running:
            self.state.live.session.send("continue" if running.paused else "pause")
            self.surgeon.say("going on …" if running.paused else "pausing after this step …")

    def action_check(self) -> None:
        if self._to_ask("check"):
            self.state.live.session.send("check")
            self.surgeon.say("checking after this step …")

    def action_stop(self) -> None:
        self._stop("best", "Stop the pass and keep the best slices so far?")

    def action_stop_last(self) -> None:
        self._stop("last", "Stop the pass and keep the slices as they are now, though an earlier check may be better?")

    def _stop(self, keep: str, question: str) -> None:
        def answered(yes: bool | None) -> None:
            if yes:
                self.state.live.session.send("stop", keep=keep)
                self.surgeon.say("stopping after this step …")

        if self._to_ask("stop"):
            self.app.push_screen(Ask(question), answered)

    def action_interval(self) -> None:
        running = self._to_ask("change")
        if running is None:
            return

        def change(steps: int | None) -> None:
            if steps is not None:
                self.state.live.session.send("set", option="check_every", value=steps)
                self.surgeon.say(f"a check every {steps} steps from the next step on …")

        now = running.plan.get("check_every", "")
        title = "Steps between two checks"
        self.app.push_screen(LineWindow(title, f"now {now}; each check also saves the state", whole, str(now)), change)

    def action_smaller(self) -> None:
        running = self.chart.running
        wanted = running.out_of_memory if running else None
        if wanted is None:
            self.surgeon.say("nothing has run out of memory")
        elif not wanted.offered_micro_batch and wanted.checkpointing:
            self.surgeon.say("there is no smaller micro-batch; fewer targets or shorter samples are the way out")
        else:
            values: dict[str, object] = {"checkpointing": True}
            if wanted.offered_micro_batch:
                values = {"micro_batch": wanted.offered_micro_batch, "accumulate": wanted.offered_accumulate}
            self.state.live.ask("continue", **values)
            self.surgeon.say("going on from the saved state …")

    def action_history(self) -> None:
        if self.shown is None:
            self.surgeon.say("no pass has run yet")
        else:
            self.app.push_screen(Sheet("", lambda _: history(self.chart, self.shown) if self.shown else []))

    def action_worker(self) -> None:
        """Start a worker; where one is there and does not answer, end it first, if that is wanted."""
        live = self.state.live
        if not live.looks_hung:
            super().action_worker()
            return

        def answered(yes: bool | None) -> None:
            if yes:
                live.kill_worker()
                live.start_worker()
                self.draw()

        question = f"The worker has written nothing for {duration(live.silent)}. End it and go on from step "
        saved = self.chart.running.saved_step if self.chart.running else 0
        self.app.push_screen(Ask(f"{question}{saved}, the last one saved?"), answered)

    def action_note(self) -> None:
        self.surgeon.write_note()

    def action_forward(self) -> None:
        if any(pass_.ended for pass_ in self.chart.passes):
            super().action_forward()
        else:
            self.surgeon.say("no pass has ended yet, so there is nothing to record")
