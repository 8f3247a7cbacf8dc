"""Step 3: which heads, and the plan of the pass."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input, Static

from engine.errors import ExpressionError, InputError
from engine.heads import HeadMap
from engine.targets import Heads, Model, resolve
from tui.commands import OPERATE, TARGET, Command, bindings_of
from tui.devices import gpu_room
from tui.estimate import plan_lines, target_lines
from tui.figures import QUIET, STRONG, Line, head_title, joined, line, row, rule
from tui.grid import TARGET as MARK
from tui.grid import HeadGrid
from tui.palette import plain
from tui.paths import complete_path
from tui.plans import as_plan, patient_values, plans_of
from tui.screens.heads import HeadScreen, grid_and_panel, place, show_lines
from tui.screens.lines import LineWindow
from tui.screens.planform import PlanForm
from tui.selection import block

if TYPE_CHECKING:
    from engine.plan import Plan


PRESETS = {
    "sick": "sick",
    "band": "sick & band",
    "outside": "sick & !band",
    "dead": "dead",
    "borderline": "borderline",
}
"""Command -> what it chooses."""


class TargetScreen(HeadScreen):
    """The grid with signs on the chosen heads, the expression line, and what a pass would take."""

    step = TARGET
    BINDINGS = bindings_of(TARGET)
    preview: Heads | None = None
    """What the expression being typed would choose."""

    def __init__(self) -> None:
        super().__init__()
        self.counted: HeadMap | None = None
        self.presets: list[Line] = []
        """What the keys choose of the map ``counted``."""

    def body(self) -> ComposeResult:
        yield from grid_and_panel(self.surgeon.ascii_only)
        with Horizontal(id="expression-line"):
            yield Static(id="expression-label")
            yield Input(id="expression", compact=True, select_on_focus=False)
        yield Static(id="complaint")

    def on_mount(self) -> None:
        field = self.query_one(Input)
        field.cursor_blink = False
        field.disabled = True
        super().on_mount()
        if self.surgeon.state is not None and self.chart.loaded is not None and self.chart.loaded.device != "cpu":
            self.run_worker(self._look_at_gpu, thread=True, exclusive=True)

    def _look_at_gpu(self) -> None:
        """The driver's tool may take a second."""
        loaded, worker = self.chart.loaded, self.chart.worker
        found = gpu_room(loaded.device, worker.pid if worker else None) if loaded else 0
        self.app.call_from_thread(self._looked_at_gpu, found)

    def _looked_at_gpu(self, found: int) -> None:
        if self.surgeon.state is not None:
            self.state.gpu_room = found
            self.draw()

    @property
    def map(self) -> HeadMap | None:
        return self.chart.head_map

    def chosen(self) -> Heads:
        """What the grid shows as targets: the selection, or what is about to become it."""
        if self.preview is not None:
            return self.preview
        if self.state.corner is not None:
            return self.state.selection.heads | block(self.state.corner, self.state.cursor)
        return self.state.selection.heads

    def draw_body(self) -> None:
        head_map, grid, field = self.map, self.query_one(HeadGrid), self.query_one(Input)
        if head_map is None:
            self.query_one("#panel", Static).update(
                line((f"\n no head map yet: {self.key('back')} goes back", QUIET)), layout=False
            )
            return
        chosen, selection = self.chosen(), self.state.selection
        view = self.state.view_of(head_map.bos_mass, head_map, self.state.stage)
        grid.show(view, dict.fromkeys(chosen, MARK), self.state.cursor)
        width = place(self, grid, 11)
        self.draw_head()
        lines = [
            *target_lines(self.state, chosen, head_map, width, self.key),
            rule(width),
            *plan_lines(self.state, width, self.key),
        ]
        if self.app.size.height >= 36:
            lines += [rule(width), *self._presets(head_map)]
        self.query_one("#panel", Static).update(joined(lines), layout=False)
        self.show_legend(grid, view)
        label = " block from " + str(self.state.corner) if self.state.corner else f" targets {self.key('expression')}"
        self.query_one("#expression-label", Static).update(line((label + " ", QUIET)), layout=True)
        if field.disabled:
            shown = (
                selection.now.expression
                if self.state.corner is None
                else f"move, then {self.key('take')} takes it, {self.key('back')} drops it"
            )
            if field.value != shown:
                field.value = shown

    def _presets(self, map_: HeadMap) -> list[Line]:
        """What the keys choose, and how many heads that is."""
        if self.counted is not map_:
            self.counted, self.presets = map_, []
            for command, expression in PRESETS.items():
                try:
                    found = len(resolve(expression, Model.of(map_)))
                except InputError:
                    found = 0
                self.presets.append(row(f"{self.key(command)} {expression}", f"{found:>6}", width=18))
        return self.presets

    def draw_head(self) -> None:
        head_map, cursor = self.map, self.state.cursor
        if head_map is None:
            return
        low, high = head_map.interval(cursor)
        mark = "   × target" if cursor in self.chosen() else ""
        lines = [
            head_title(cursor, head_map),
            row("BOS mass", f"{head_map.mass(cursor):.3f}", (f"   95 % {low:.3f}–{high:.3f}", QUIET)),
            row("entropy", f"{head_map.entropy[cursor.layer][cursor.head]:.2f} nats", (mark, STRONG)),
        ]
        show_lines(self.query_one("#head", Static), lines)

    def cursor_moved(self) -> None:
        super().cursor_moved()
        if self.state.corner is not None:  # the block grew or shrank
            self.draw_body()

    def label(self, command: Command) -> str:
        return "take block" if command.id == "take" and self.state.corner else command.label

    # choosing

    def _changed(self) -> None:
        self.state.corner = None
        self.draw()

    def action_take(self) -> None:
        if self.state.corner is not None:
            self.state.selection.choose(self.chosen())
        else:
            self.state.selection.toggle({self.state.cursor})
        self._changed()

    def _choose(self, expression: str, otherwise: str) -> None:
        if self.map is None:
            return
        try:
            self.state.selection.choose(resolve(expression, Model.of(self.map)), expression)
        except InputError:
            self.surgeon.say(otherwise)
        self._changed()

    def action_sick(self) -> None:
        self._choose(PRESETS["sick"], "no head is sick")

    def action_band(self) -> None:
        self._choose(PRESETS["band"], "no sick head lies in a band")

    def action_outside(self) -> None:
        self._choose(PRESETS["outside"], "no sick head lies outside the band")

    def action_dead(self) -> None:
        self._choose(PRESETS["dead"], "no head is dead")

    def action_borderline(self) -> None:
        self._choose(PRESETS["borderline"], "no head is borderline")

    def action_all(self) -> None:
        self._choose("all", "")

    def action_clear(self) -> None:
        self.state.selection.choose(())
        self._changed()

    def action_column(self) -> None:
        if self.map is not None:
            self.state.selection.toggle(h for h in self.map.heads() if h.head == self.state.cursor.head)
            self._changed()

    def action_layer(self) -> None:
        if self.map is not None:
            self.state.selection.toggle(h for h in self.map.heads() if h.layer == self.state.cursor.layer)
            self._changed()

    def action_block(self) -> None:
        self.state.corner = None if self.state.corner else self.state.cursor
        self.draw()

    def action_undo_choice(self) -> None:
        if not self.state.selection.undo():
            self.surgeon.say("there is no choice before this one")
        self._changed()

    def action_redo_choice(self) -> None:
        if not self.state.selection.redo():
            self.surgeon.say("no choice was undone")
        self._changed()

    # the expression line

    def action_expression(self) -> None:
        field = self.query_one(Input)
        self.state.corner = None
        field.disabled = False
        field.value = self.state.selection.now.expression
        field.cursor_position = len(field.value)
        field.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        if not event.input.disabled and event.input.has_focus:
            self._preview(event.value)

    def _preview(self, expression: str) -> bool:
        complaint = self.query_one("#complaint", Static)
        if self.map is None:
            return False
        try:
            self.preview = frozenset(resolve(expression, Model.of(self.map))) if expression.strip() else frozenset()
        except InputError as error:
            sentence = str(error).removesuffix(f" in the targets {expression!r}")
            lines = [line((f" {plain(sentence)}", "$warm"))]
            if isinstance(error, ExpressionError):
                field, label = self.query_one(Input), self.query_one("#expression-label", Static)
                column = label.size.width + error.position - round(field.scroll_offset.x)
                lines.insert(0, line((" " * max(0, column) + "^", "$warm")))
            complaint.update(joined(lines), layout=False)
            self.preview = frozenset()
            self.draw()
            return False
        text = f"\n {len(self.preview)} heads — enter takes them, esc leaves the targets as they were"
        complaint.update(line((text, QUIET)), layout=False)
        self.draw()
        return True

    def on_input_submitted(self, event: Input.Submitted) -> None:
        written = event.value.strip()
        if self._preview(written) and self.preview is not None:
            self.state.selection.choose(self.preview, written)
            self._end_writing()

    def _end_writing(self) -> None:
        field = self.query_one(Input)
        field.disabled = True
        self.preview = None
        self.set_focus(None)
        self.query_one("#complaint", Static).update("", layout=False)
        self.draw()

    # onward

    def action_back(self) -> None:
        if not self.query_one(Input).disabled:
            self._end_writing()
        elif self.state.corner is not None:
            self.state.corner = None
            self.draw()
        else:
            super().action_back()

    def action_plan(self) -> None:
        def save(values: dict[str, object] | None) -> None:
            if values is not None:
                self.state.values = values
                self.draw()

        self.app.push_screen(PlanForm(self.state.plan_values, patient_values(self.chart)), save)

    def action_forward(self) -> None:
        """Operate, when the targets and the plan are in order; otherwise say what is missing."""
        state = self.state
        if self.chart.running:
            self.surgeon.go(OPERATE)
            return
        if not state.selection.heads:
            sick, one, written = (self.key(name) for name in ("sick", "take", "expression"))
            self.surgeon.say(f"no head is chosen: {sick} takes the sick ones, {one} one head, {written} an expression")
            return
        try:
            plan = as_plan(state.plan_values, state.selection.now.expression)
        except InputError as error:
            self.surgeon.say(str(error))
            return
        if not plan.corpus:
            self.surgeon.say(f"the plan names no corpus to train on: {self.key('plan')} edits the plan")
            return
        self._operate([plan])

    def _operate(self, plans: list[Plan]) -> None:
        """Ask the worker for one pass, or for several one after the other."""
        if self.state.live.replaying:
            self.surgeon.say("this is a replay; open the session itself to operate")
            return
        first, *then = [plan.model_dump() for plan in plans]
        self.state.asked = True
        self.state.live.ask("operate", plan=first, **({"then": then} if then else {}))
        self.surgeon.go(OPERATE)

    def action_plan_file(self) -> None:
        """All passes of a plan file. Their targets are resolved when each begins, as the model stands then."""
        if self.chart.running or self.map is None:
            self.surgeon.say("a pass is running" if self.chart.running else "no head map yet")
            return

        def run(plans: list[Plan] | None) -> None:
            if plans:
                self._operate(plans)

        hint = "a TOML file with a [[pass]] table per pass; tab completes its name"
        self.app.push_screen(
            LineWindow("Run the passes of a plan file", hint, self._read_plans, "", complete_path), run
        )

    def _read_plans(self, text: str) -> list[Plan]:
        plans = plans_of(Path(text).expanduser(), self.state.plan_values)
        missing = [number for number, plan in enumerate(plans, 1) if not plan.corpus]
        if missing:
            raise InputError(f"pass {missing[0]} names no corpus to train on")
        return plans
