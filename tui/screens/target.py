"""Step 3: which heads, and the plan of the pass."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widgets import Input, Static

from engine.errors import ExpressionError, InputError
from engine.heads import Head, HeadMap
from engine.targets import Heads, Model, resolve
from tui.commands import OPERATE, TARGET, Command, bindings_of
from tui.estimate import plan_lines, target_lines
from tui.figures import QUIET, STRONG, head_title, joined, legend, line, row, rule
from tui.grid import TARGET as MARK
from tui.grid import HeadGrid
from tui.palette import plain
from tui.plans import as_plan
from tui.screens.base import GridScreen
from tui.screens.diagnose import grid_and_panel, place, show_lines
from tui.screens.planform import PlanForm
from tui.selection import block


class TargetScreen(GridScreen):
    """The grid with signs on the chosen heads, the expression line, and what a pass would take."""

    step = TARGET
    BINDINGS = bindings_of(TARGET)
    corner: Head | None = None
    """Where a block began."""
    preview: Heads | None = None
    """What the expression being typed would choose."""

    def body(self) -> ComposeResult:
        yield from grid_and_panel()
        with Horizontal(id="expression-line"):
            yield Static(id="expression-label")
            yield Input(id="expression", compact=True, select_on_focus=False)
        yield Static(id="complaint")

    def on_mount(self) -> None:
        field = self.query_one(Input)
        field.cursor_blink = False
        field.disabled = True
        super().on_mount()

    @property
    def map(self) -> HeadMap | None:
        return self.chart.head_map

    def chosen(self) -> Heads:
        """What the grid shows as targets: the selection, or what is about to become it."""
        if self.preview is not None:
            return self.preview
        if self.corner is not None:
            return self.state.selection.heads | block(self.corner, self.state.cursor)
        return self.state.selection.heads

    def draw_body(self) -> None:
        head_map, grid, field = self.map, self.query_one(HeadGrid), self.query_one(Input)
        if head_map is None:
            self.query_one("#panel", Static).update(line(("\n no head map yet: esc goes back", QUIET)), layout=False)
            return
        chosen, selection = self.chosen(), self.state.selection
        grid.show(head_map.bos_mass, dict.fromkeys(chosen, MARK), self.state.cursor)
        width = place(self, grid, 11)
        self.draw_head()
        lines = [
            rule(width),
            *target_lines(self.state, chosen, head_map, width),
            rule(width),
            *plan_lines(self.state, width),
        ]
        self.query_one("#panel", Static).update(joined(lines), layout=False)
        self.query_one("#legend", Static).update(joined(legend(head_map)), layout=False)
        label = " block from " + str(self.corner) if self.corner else " targets /"
        self.query_one("#expression-label", Static).update(line((label + " ", QUIET)), layout=True)
        if field.disabled:
            shown = selection.now.expression if self.corner is None else "move, then space takes it, esc drops it"
            if field.value != shown:
                field.value = shown

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
        if self.corner is not None:  # the block grew or shrank
            self.draw_body()

    def label(self, command: Command) -> str:
        return "take block" if command.id == "take" and self.corner else command.label

    # choosing

    def _changed(self) -> None:
        self.corner = None
        self.draw()

    def action_take(self) -> None:
        if self.corner is not None:
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
        self._choose("sick", "no head is sick")

    def action_band(self) -> None:
        self._choose("sick & band", "no sick head lies in a band")

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
        self.corner = None if self.corner else self.state.cursor
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
        self.corner = None
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
        elif self.corner is not None:
            self.corner = None
            self.draw()
        else:
            super().action_back()

    def action_plan(self) -> None:
        def save(values: dict[str, object] | None) -> None:
            if values is not None:
                self.state.values = values
                self.draw()

        self.app.push_screen(PlanForm(self.state.plan_values), save)

    def action_forward(self) -> None:
        """Operate, when the targets and the plan are in order; otherwise say what is missing."""
        state = self.state
        if self.chart.running:
            self.surgeon.go(OPERATE)
            return
        if not state.selection.heads:
            self.surgeon.say("no head is chosen: s takes the sick ones, space one head, / an expression")
            return
        try:
            plan = as_plan(state.plan_values, state.selection.now.expression)
        except InputError as error:
            self.surgeon.say(str(error))
            return
        if not plan.corpus:
            self.surgeon.say("the plan names no corpus to train on: e edits the plan")
            return
        state.asked = True
        state.live.ask("operate", plan=plan.model_dump())
        self.surgeon.go(OPERATE)
