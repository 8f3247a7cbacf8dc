"""Step 5: what a pass did, before and after side by side."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from engine.chart import PassChart
from engine.drift import ZoneDrift
from engine.heads import CLASSES, HeadMap, Rows, resting
from engine.treatments import named, trains
from tui.commands import RECORD, TARGET, Command, bindings_of
from tui.figures import (
    COLD,
    QUIET,
    STRONG,
    WARM,
    Line,
    Part,
    change,
    class_style,
    joined,
    line,
    side_by_side,
    source_name,
)
from tui.grid import TARGET as TARGET_SIGN
from tui.grid import HeadGrid
from tui.palette import plain
from tui.passview import marks, taken, treatment_of
from tui.screens.heads import HeadScreen
from tui.screens.lines import Sheet
from tui.screens.windows import Ask
from tui.tables import column_rows, history, target_list, target_rows, working
from tui.views import DRIFT, MASS, TITLES, View

LEAST = 8
"""Rows that are worth filling with tables."""
FIGURES = 7
"""Rows below the grids."""


class RecordScreen(HeadScreen):
    """Two grids, and the figures that the operator judges by."""

    step = RECORD
    BINDINGS = bindings_of(RECORD)

    def body(self) -> ComposeResult:
        with Horizontal(id="main"):
            with Vertical(id="side"):
                yield Static(id="before-title")
                yield HeadGrid(self.surgeon.ascii_only, id="before")
            with Vertical(id="other"):
                yield Static(id="after-title")
                yield HeadGrid(self.surgeon.ascii_only, crosshair=False, id="after")
                yield Static(id="list")
        yield Static(id="more")
        yield Static(id="head")
        yield Static(id="figures")

    def copy_value(self) -> str:
        """Where the session is."""
        return str(self.state.live.session.folder) if self.surgeon.state is not None else ""

    @property
    def ended(self) -> list[PassChart]:
        return [pass_ for pass_ in self.chart.passes if pass_.ended]

    @property
    def shown(self) -> PassChart | None:
        """The pass that was asked for, or the last one that ended."""
        chosen = [p for p in self.ended if p.number == self.state.shown_pass]
        return (chosen or self.ended)[-1] if self.ended else None

    def draw_body(self) -> None:
        pass_, before = self.shown, self._before()
        figures = self.query_one("#figures", Static)
        if pass_ is None or before is None:
            figures.update(line(("\n no pass has ended yet", QUIET)), layout=False)
            return
        size, cursor = self.app.size, self.state.cursor
        after, limit = self._after(pass_, before), before.thresholds.bos_sink
        chosen = "" if self.state.view == MASS else f", {TITLES[self.state.view]}"
        views = self._views(pass_, before, after)
        rests = resting(after, self._sinks(pass_))
        for name, mass in (("before", resting(before.bos_mass, before.sink_mass)), ("after", rests)):
            grid = self.query_one(f"#{name}", HeadGrid)
            signs = marks(pass_, rests if self.state.difference else mass, limit)
            if self.state.difference:  # signs of rising and falling say more than that a target woke
                signs = {head: sign for head, sign in signs.items() if sign == TARGET_SIGN}
            grid.show(views[name], signs, cursor)
            room = size.width // 2
            grid.styles.width = grid.width_for(room)
            rows = grid.rows_for(room, size.height - 4 - FIGURES)
            grid.styles.height = rows
        self._more(pass_, before, after, size.height - 4 - FIGURES - rows)
        beside = self.query_one("#list", Static)
        self.query_one("#after", HeadGrid).display = not self.state.difference
        beside.display = self.state.difference
        left, right = f" before: {self._before_name()}{chosen}", _title(pass_)
        if self.state.difference:
            found = working(pass_)
            left = f" difference: pass {pass_.number} less {self._before_name()}"
            right = f" targets, {found[0]} of {found[1]} working alone" if found else " targets"
            beside.update(joined(self._list(pass_, before, after)), layout=False)
        self.query_one("#before-title", Static).update(line((left, STRONG)), layout=False)
        self.query_one("#after-title", Static).update(line((right, STRONG)), layout=False)
        self.draw_head()
        figures.update(joined(self._figures(pass_, before)), layout=False)

    def _more(self, pass_: PassChart, before: HeadMap, after: Rows, room: int) -> None:
        """Targets one by one and the columns, where the grids leave room below them."""
        more = self.query_one("#more", Static)
        rows = room if room >= LEAST and self.app.size.width >= 120 else 0
        more.styles.height = rows
        if rows:
            t = before.thresholds
            found = target_rows(pass_, before, after, self._sinks(pass_), t.bos_sink), column_rows(pass_, t)
            cut = [lines[: rows - 1] + ([line((" …", QUIET))] if len(lines) > rows - 1 else []) for lines in found]
            more.update(joined(side_by_side(cut[0], cut[1], 78)), layout=False)

    def _views(self, pass_: PassChart, before: HeadMap, after: Rows) -> dict[str, View]:
        """What the two grids show."""
        state, map_ = self.state, self.chart.maps.get(f"pass-{pass_.number}") or before
        if state.difference:
            name = self._before_name()
            view = state.view_of(after, map_, "", "difference", DRIFT, before, since=name)
            return {"before": view, "after": view}
        earlier = self._standing_before()
        stage = f"pass-{earlier.number}" if earlier else "stock"
        return {
            "before": state.view_of(before.bos_mass, before, stage, "before"),
            "after": state.view_of(after, map_, f"pass-{pass_.number}", "after"),
        }

    def _list(self, pass_: PassChart, before: HeadMap, after: Rows) -> list[Line]:
        """As many targets as there is room for, from the one under or after the cursor on."""
        rows = max(1, self.app.size.height - 4 - FIGURES)
        return target_list(pass_, before, after, self._sinks(pass_), self.state.cursor, rows)

    def draw_head(self) -> None:
        pass_, before, head = self.shown, self._before(), self.state.cursor
        if pass_ is None or before is None:
            return
        if self.state.difference:
            lines = self._list(pass_, before, self._after(pass_, before))
            self.query_one("#list", Static).update(joined(lines), layout=False)
        was, map_ = before.class_of(head), self.chart.maps.get(f"pass-{pass_.number}")
        parts: list[Part] = [(f"{was:<11}", class_style(was)), f" {before.mass(head):.3f} → "]
        if map_ is not None:
            now = map_.class_of(head)
            parts += [(f"{now:<11}", class_style(now)), f" {map_.mass(head):.3f}"]
            entropies = before.entropy[head.layer][head.head], map_.entropy[head.layer][head.head]
            parts.append((f"   entropy {entropies[0]:.2f} → {entropies[1]:.2f}", QUIET))
        else:
            parts.append(f"{self._after(pass_, before)[head.layer][head.head]:.3f}")
        self.query_one("#head", Static).update(line((f" {head!s:<11}", STRONG), *parts), layout=False)

    def _standing_before(self) -> PassChart | None:
        pass_ = self.shown
        earlier = [p for p in self.chart.standing if pass_ and p.number < pass_.number]
        return earlier[-1] if earlier else None

    def _before_name(self) -> str:
        earlier = self._standing_before()
        return f"pass {earlier.number}" if earlier else "stock"

    def _before(self) -> HeadMap | None:
        earlier = self._standing_before()
        return (self.chart.maps.get(f"pass-{earlier.number}") if earlier else None) or self.chart.stock

    def _after(self, pass_: PassChart, before: HeadMap) -> Rows:
        """The map of the pass; that of its last check where the pass was undone or the map is still to come."""
        map_ = self.chart.maps.get(f"pass-{pass_.number}")
        return map_.bos_mass if map_ else pass_.bos_mass or before.bos_mass

    def _sinks(self, pass_: PassChart) -> Rows:
        """What sink logits take after the pass; no rows where no head has one."""
        map_ = self.chart.maps.get(f"pass-{pass_.number}")
        return map_.sink_mass if map_ else pass_.sink_mass

    def _figures(self, pass_: PassChart, before: HeadMap) -> list[Line]:
        started, ended, cut = pass_.started, pass_.ended, pass_.cut
        assert ended is not None
        targets = len(started.target_heads)
        map_ = self.chart.maps.get(f"pass-{pass_.number}")
        other: list[Part] = []
        for name, value in started.perplexity_stock.items():
            other += [
                (f"   {plain(source_name(name), 12)} ", QUIET),
                change(value, ended.perplexity_after.get(name)),
            ]
        same = started.frozen_sha256_before == ended.frozen_sha256_after
        logits = taken(pass_, self._sinks(pass_))
        cut_woken = f"{cut.woken} at the cut, " if cut and logits is None else ""
        spreading = ", ".join(f"H{index}" for index in ended.spreading)
        return [
            _counts(before, map_),
            line(
                (" woken      ", QUIET), cut_woken, (f"{ended.woken} of {targets} after", STRONG),
                ("   working ", QUIET),
                (f"{started.ablation_loss_stock:.3f} → {ended.ablation_loss_after:.3f}", STRONG),
                (" nats", QUIET), (f"   logits take {logits:.3f}" if logits is not None else "", QUIET),
            ),
            line(
                (" perplexity ", QUIET), ("held-out ", QUIET),
                (change(started.heldout_perplexity_stock, ended.heldout_perplexity), STRONG), *other,
            ),
            _drift_line("drift", "outside", ended.drift.outside),
            _drift_line("", "in-band frozen", ended.drift.in_band_frozen),
            line(
                (" frozen     ", QUIET),
                (f"hashes equal {ended.frozen_sha256_after[:8]}", COLD) if same else ("hashes differ", "$warm bold"),
                (f"   patch {ended.patch_sha256[:8]}", QUIET),
                (f"   spreading {spreading}" if spreading else "", WARM),
                (f"   {ended.refused_steps} refused steps" if ended.refused_steps else "", WARM),
            ),
        ]  # fmt: skip

    def idle(self) -> set[str]:
        if self.state.live.replaying:
            return {"accept", "undo_pass", "note"}
        shown, standing = self.shown, self.chart.standing
        if not shown or not standing or shown is not standing[-1]:
            return {"accept", "undo_pass"}
        return {"accept"} if shown.accepted else set()

    # keys

    def _last_standing(self, what: str) -> PassChart | None:
        standing, shown = self.chart.standing, self.shown
        if self.chart.running:
            self.surgeon.say(f"nothing to {what} while a pass is running")
        elif shown is None or shown.undone or not standing:
            self.surgeon.say(f"nothing to {what}: this pass is not in the model")
        elif shown is not standing[-1]:
            self.surgeon.say(f"only the last pass can be taken: {self.key('later')} goes to pass {standing[-1].number}")
        else:
            return shown
        return None

    def action_accept(self) -> None:
        pass_ = self._last_standing("accept")
        if pass_ and pass_.accepted:
            self.surgeon.say(f"pass {pass_.number} is accepted already")
        elif pass_:
            self.surgeon.ask("accept")

    def action_undo_pass(self) -> None:
        pass_ = self._last_standing("undo")
        if pass_ is None:
            return

        def answered(yes: bool | None) -> None:
            if yes:
                self.state.live.ask("undo")
                self.surgeon.say("putting the originals back …")

        self.app.push_screen(Ask(f"Undo pass {pass_.number}? Its slices get their originals back."), answered)

    def action_forward(self) -> None:
        """Plan the next pass: propose what is still sick."""
        if not self.state.propose():
            self.surgeon.say("no head is sick any more: nothing is proposed for a next pass")
        self.surgeon.go(TARGET)

    def action_difference(self) -> None:
        self.state.difference = not self.state.difference
        self.draw()

    def action_per_target(self) -> None:
        pass_, before = self.shown, self._before()
        if pass_ is None or before is None:
            self.surgeon.say("no pass has ended yet")
            return
        after, limit = self._after(pass_, before), before.thresholds.bos_sink
        self.app.push_screen(Sheet("", lambda _: target_rows(pass_, before, after, self._sinks(pass_), limit)))

    def action_columns(self) -> None:
        pass_, before = self.shown, self._before()
        if pass_ is not None and before is not None:
            title = "Mean |drift| of untouched heads per head index"
            self.app.push_screen(Sheet(title, lambda _: column_rows(pass_, before.thresholds)))

    def action_history(self) -> None:
        pass_ = self.shown
        if pass_ is not None:
            self.app.push_screen(Sheet("", lambda _: history(self.chart, pass_)))

    def label(self, command: Command) -> str:
        return "side by side" if command.id == "difference" and self.state.difference else command.label

    def action_note(self) -> None:
        self.surgeon.write_note()

    def action_earlier(self) -> None:
        self._show_pass(-1)

    def action_later(self) -> None:
        self._show_pass(1)

    def _show_pass(self, step: int) -> None:
        numbers, shown = [p.number for p in self.ended], self.shown
        if shown is not None:
            at = numbers.index(shown.number) + step
            if 0 <= at < len(numbers):
                self.state.shown_pass = numbers[at]
                self.draw()
            else:
                self.surgeon.say("there is no pass further on" if step > 0 else "this is the first pass")


def _title(pass_: PassChart) -> str:
    assert pass_.ended is not None
    ended, done = pass_.ended, treatment_of(pass_)
    state = " undone" if pass_.undone else " accepted" if pass_.accepted else ""
    kept = f"step {ended.kept_step}" + ("" if state else " kept")
    start = f" pass {pass_.number}{state}" if state else f" after pass {pass_.number}"
    if done == "reinitialise":
        return f"{start}: {ended.outcome}, {kept}"
    outcome = "" if ended.outcome == "completed" else f" {ended.outcome}"
    return f"{start}: {named(done)}{outcome}, {kept if trains(done) else 'nothing trained'}"


def _counts(before: HeadMap, after: HeadMap | None) -> Line:
    was, now = before.counts(), after.counts() if after else {}
    parts: list[Part] = []
    for name in CLASSES:
        parts += [(f"{name} ", QUIET), (f"{was[name]} → {now.get(name, '–')}  ", STRONG if name == "healthy" else "")]
    return line((" heads      ", QUIET), *parts)


def _drift_line(title: str, name: str, zone: ZoneDrift) -> Line:
    figures = f"{zone.drifting} of {zone.heads} drifting, mean {zone.mean:.3f}, "
    figures += f"worst {zone.worst:.3f} {zone.worst_head}"
    return line((f" {title:<11}{name:<15}", QUIET), figures if zone.heads else "no heads")
