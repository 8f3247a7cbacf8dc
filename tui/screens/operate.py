"""Step 4: a pass while it runs."""

from __future__ import annotations

import math

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from engine.chart import PassChart
from engine.drift import spreading
from engine.heads import Rows, Thresholds
from tui.chartlines import Curves, number, plot
from tui.commands import OPERATE, Command, bindings_of
from tui.estimate import worker_memory
from tui.figures import QUIET, STRONG, WARM, Line, Part, drift_table, joined, line, size
from tui.grid import TARGET, WOKEN, HeadGrid, Marks
from tui.pace import duration
from tui.palette import glyphs
from tui.screens.base import GridScreen
from tui.screens.diagnose import place
from tui.screens.windows import Ask

ROLES = {"axis": "$quiet", "stock": "$quiet", "train": "$cold", "heldout": "$warm", "best": "$strong bold"}
OTHER_ROWS = 11
"""Rows of the screen that the grid cannot have."""
OUTCOMES = {
    "completed": "ran to its end",
    "patience": "stopped: no better check for long",
    "stopped": "stopped by the operator, best kept",
    "stopped_last": "stopped by the operator, last kept",
    "failed": "failed",
}


class OperateScreen(GridScreen):
    """Figures, curves, the live grid, drift and the last checks."""

    step = OPERATE
    BINDINGS = bindings_of(OPERATE)

    def body(self) -> ComposeResult:
        with Horizontal(id="main"):
            with Vertical(id="side"):
                yield HeadGrid(glyphs() == "ascii", id="grid")
                yield Static(id="legend")
            yield Static(id="panel")
        yield Static(id="drift")

    @property
    def shown(self) -> PassChart | None:
        """The running pass, or the last one."""
        return self.chart.passes[-1] if self.chart.passes else None

    def draw_body(self) -> None:
        pass_, grid, head_map = self.shown, self.query_one(HeadGrid), self.chart.stock
        panel = self.query_one("#panel", Static)
        if head_map is None or pass_ is None or self.state.asked:
            if head_map is not None:
                grid.show(head_map.bos_mass, {}, self.state.cursor)
                place(self, grid, OTHER_ROWS)
            for name in ("#legend", "#drift"):
                self.query_one(name, Static).update("", layout=False)
            status = self.status() or "no pass has run: esc goes back to plan one"
            panel.update(line((f"\n {status}", QUIET)), layout=False)
            return
        mass = pass_.bos_mass or head_map.bos_mass
        grid.show(mass, marks(pass_, mass, head_map.thresholds.bos_sink), self.state.cursor)
        width = place(self, grid, OTHER_ROWS)
        panel.update(joined(self._panel(pass_, width, self.app.size.height - 9)), layout=False)
        self.draw_head()
        self.query_one("#drift", Static).update(joined(self._drift(pass_)), layout=False)

    def status(self) -> str:
        if self.state.asked and self.chart.progress is None and self.state.live.listening:
            return "the worker has been asked to operate …"
        if self.shown and self.shown.ended and self.chart.progress is None:
            return "the pass has ended: enter goes on to its record"
        return super().status()

    def _panel(self, pass_: PassChart, width: int, rows: int) -> list[Line]:
        lines = self._figures(pass_)
        checks = self._checks(pass_, max(3, rows // 6))
        height = max(5, rows - len(lines) - len(checks))
        drawn = plot(curves_of(pass_), width, height, glyphs())
        lines += [line(*((text, ROLES[role]) for text, role in pieces)) for pieces in drawn]
        return lines + checks

    def _state(self, pass_: PassChart) -> Part:
        live = self.state.live
        if pass_.ended:
            return f"{OUTCOMES.get(pass_.outcome, pass_.outcome)}, step {pass_.ended.kept_step} kept", STRONG
        if not live.alive:
            return "worker gone", "$warm bold"
        if not live.listening:
            return "waiting for the worker", "$warm bold"
        return ("paused", "$warm bold") if pass_.paused else ("operating", STRONG)

    def _figures(self, pass_: PassChart) -> list[Line]:
        """Five lines: state, speed, loss, and what the curves show."""
        started, live = pass_.started, self.state.live
        left = live.pace.seconds_left(started.steps) if not pass_.ended and not pass_.paused else None
        speed = live.pace.tokens_per_second
        last = pass_.steps[-1] if pass_.steps else None
        newest, best = heldout(pass_), pass_.best
        return [
            line(f" pass {pass_.number} ", self._state(pass_), (self._memory(), QUIET)),
            line(
                (" step ", QUIET), (f"{pass_.step}", STRONG), f" of {started.steps}",
                (f"   epoch {epoch(pass_)}", QUIET), (f"   lr {last.lr:.1e}" if last else "", QUIET),
            ),
            line(
                (" left ", QUIET), duration(left) if left is not None else "–",
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
        held = worker_memory(live.chart.worker.pid) if live.alive and live.listening and live.chart.worker else 0
        return f"   worker {size(held)}" if held else ""

    def _checks(self, pass_: PassChart, rows: int) -> list[Line]:
        """The newest checks, the last one at the bottom."""
        lines = [line((" check   train held-out woken drifting", QUIET))]
        for check in pass_.checks[-(rows - 1) :]:
            drifting = check.drift.outside.drifting + check.drift.in_band_frozen.drifting
            train = number(math.exp(min(check.train_loss, 700)))
            text = f" {check.step:>5} {train:>7} {number(check.heldout_perplexity):>8} {check.woken:>5} {drifting:>8}"
            lines.append(line(text, (" ◆" if check is pass_.best else "", ROLES["best"])))
        return lines

    def draw_head(self) -> None:
        """Woken so far, and the cursor's head, below the grid."""
        pass_, stock, own = self.shown, self.chart.stock, self.state.cursor
        if pass_ is None or stock is None or self.state.asked:
            return
        woken = pass_.checks[-1].woken if pass_.checks else pass_.cut.woken if pass_.cut else 0
        cut = f", {pass_.cut.woken} at the cut" if pass_.cut else ""
        now = pass_.bos_mass
        here = f"{stock.mass(own):.3f}" + (f" → {now[own.layer][own.head]:.3f}" if now else "")
        lines = [
            line((" woken o ", QUIET), (f"{woken}/{len(pass_.started.target_heads)}", STRONG), (cut, QUIET)),
            line((f" {own!s:<8}", STRONG), here, "  target" if str(own) in pass_.started.target_heads else ""),
        ]
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
        return (set() if self.chart.running else {"pause", "check", "stop"}) | (set() if ended else {"forward"})

    def label(self, command: Command) -> str:
        running = self.chart.running
        return "continue" if command.id == "pause" and running and running.paused else command.label

    # keys

    def _to_ask(self, what: str) -> PassChart | None:
        """The running pass, if there is one to ask for something; says why not otherwise."""
        running = self.chart.running
        if running is None:
            self.surgeon.say(f"nothing to {what}: no pass is running")
        elif not self.state.live.alive:
            self.surgeon.say(f"nothing to {what}: the worker is gone, r starts it again")
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

    def action_note(self) -> None:
        self.surgeon.write_note()

    def action_forward(self) -> None:
        if any(pass_.ended for pass_ in self.chart.passes):
            super().action_forward()
        else:
            self.surgeon.say("no pass has ended yet, so there is nothing to record")


def marks(pass_: PassChart, mass: Rows, limit: float) -> Marks:
    """× on targets that are still sick, o on those below the threshold."""
    return {head: WOKEN if mass[head.layer][head.head] <= limit else TARGET for head in pass_.targets}


def heldout(pass_: PassChart) -> float | None:
    """The newest held-out perplexity."""
    if pass_.checks:
        return pass_.checks[-1].heldout_perplexity
    return pass_.cut.heldout_perplexity if pass_.cut else None


def epoch(pass_: PassChart) -> str:
    """How often the corpus was gone through, and of how many times where the plan counts so."""
    tokens = sum(source.train_tokens for source in pass_.started.corpus)
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
