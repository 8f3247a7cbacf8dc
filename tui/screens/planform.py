"""The plan as a form."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from engine.errors import InputError
from tui.figures import QUIET, line
from tui.palette import plain
from tui.plans import FIELDS, Values, as_plan, read, repaced, written


class PlanForm(ModalScreen[Values | None]):
    """One line per value; Enter saves them all, or says what is wrong."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "close", show=False),
        Binding("down", "app.focus_next", "next", show=False),
        Binding("up", "app.focus_previous", "previous", show=False),
    ]

    def __init__(self, values: Values, own: Values) -> None:
        super().__init__()
        self.values = values
        self.own = own
        """What suits the patient."""

    def compose(self) -> ComposeResult:
        try:
            texts = written(as_plan(self.values, "all"))
        except InputError:  # values from an older journal: begin from the defaults
            self.values = {}
            texts = written(as_plan({}, "all"))
        with Vertical(classes="window", id="plan") as window:
            window.border_title = "Plan of the pass   ↑↓ move, enter saves, esc drops"
            for field in FIELDS:
                with Horizontal(classes="field"):
                    yield Static(line((f" {field.name}", QUIET)), classes="name")
                    box = Input(texts[field.name], id=field.name, compact=True, select_on_focus=False)
                    box.cursor_blink = False
                    yield box
            yield Static(id="hint")

    def on_descendant_focus(self) -> None:
        self._say(next((f.hint for f in FIELDS if self.focused is not None and f.name == self.focused.id), ""), QUIET)

    def _say(self, text: str, style: str) -> None:
        self.query_one("#hint", Static).update(line((f" {plain(text, 400)}", style)), layout=False)

    def on_input_submitted(self) -> None:
        try:
            values = read({field.name: self.query_one(f"#{field.name}", Input).value for field in FIELDS})
            values = repaced(values, self.values, self.own)
            as_plan(values, "all")
        except InputError as error:
            self._say(str(error).removeprefix("the plan: "), "$warm")
            return
        self.dismiss(values)

    def action_close(self) -> None:
        self.dismiss(None)
