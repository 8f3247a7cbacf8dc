"""From step 1: plans of several arms, and what each would run."""

from __future__ import annotations

from pathlib import Path

from textual.app import ComposeResult
from textual.containers import Horizontal, VerticalScroll
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from engine.errors import InputError
from engine.protocol import read_protocol
from tui.commands import PLANS, bindings_of
from tui.figures import joined, line
from tui.palette import plain
from tui.paths import complete_model, complete_path
from tui.plans import absolute
from tui.protocols import built_in, lines_of, shape_of, usual_patient
from tui.screens.beside import BesideScreen
from tui.screens.lines import LineWindow

LIST = 19
"""Columns of the list."""
PAGE = 12
"""Rows that a page key scrolls."""


class PlansScreen(BesideScreen):
    """The list of plans, and beside it the one under the cursor."""

    step = PLANS
    BINDINGS = bindings_of(PLANS)

    def body(self) -> ComposeResult:
        with Horizontal(id="main"):
            yield OptionList(id="plans", compact=True, markup=False)
            with VerticalScroll(id="told", can_focus=False):
                yield Static(id="plan-lines")

    def on_mount(self) -> None:
        super().on_mount()
        self._list(self.surgeon.chosen_plan)

    @property
    def files(self) -> list[Path]:
        return [*built_in(), *self.surgeon.own_plans]

    def _list(self, chosen: Path | None) -> None:
        options, files = self.query_one("#plans", OptionList), self.files
        options.clear_options()
        options.add_options(Option(line(f" {plain(path.stem, LIST - 3)}")) for path in files)
        options.focus()
        options.highlighted = files.index(chosen) if chosen in files else 0
        self._tell()

    @property
    def chosen(self) -> Path:
        return self.files[self.query_one("#plans", OptionList).highlighted or 0]

    def on_option_list_option_highlighted(self) -> None:
        self.surgeon.chosen_plan = self.chosen
        self.query_one("#told", VerticalScroll).scroll_home(animate=False)
        self._tell()

    def on_resize(self) -> None:
        super().on_resize()
        self.call_after_refresh(self._tell)

    def _tell(self) -> None:
        """The plan under the cursor; made anew only where plan, patient or width change."""
        if self.here:
            width = self.app.size.width - LIST - 3
            self.query_one("#plan-lines", Static).update(joined(lines_of(self.chosen, self.patient, width)))

    def status(self) -> str:
        patient, other = self.surgeon.plan_patient, f"{self.key('patient')} names another"
        if patient is None:
            return f"on the demo patient, where a plan names none; {other}"
        return f"on {patient}; {other}" if patient else f"on each plan's own patient; {other}"

    def title_of(self) -> str:
        return "plans"

    @property
    def patient(self) -> str:
        """Whom the plan under the cursor is for; empty: the plan says so."""
        chosen = self.surgeon.plan_patient
        return usual_patient(self.chosen) if chosen is None else chosen

    # keys

    def on_option_list_option_selected(self) -> None:
        self.action_begin()

    def action_begin(self) -> None:
        from tui.screens.planbegin import BeginPlan

        try:
            protocol = read_protocol(self.chosen, self.patient)
        except InputError as error:
            self.surgeon.say(str(error), "$warm")
            return
        self.app.push_screen(BeginPlan(protocol, self.chosen, self.patient, self.surgeon.begin_plan))

    def action_patient(self) -> None:
        def take(model: str | None) -> None:
            if model is not None:
                self.surgeon.plan_patient = model
                self.draw()
                self._tell()

        hint = "demo, a local folder, a .gguf file or a hub name; empty: the plan's own"
        window = LineWindow("Patient", hint, _read_patient, self.patient, complete_model)
        self.app.push_screen(window, take)

    def action_own_plan(self) -> None:
        def take(path: Path | None) -> None:
            if path is not None:
                if path not in self.files:
                    self.surgeon.own_plans.append(path)
                self._list(path)

        hint = "a TOML file with arms or passes; tab completes its name"
        self.app.push_screen(LineWindow("A plan file of your own", hint, _read_own, "", complete_path), take)

    def action_page_down(self) -> None:
        self.query_one("#told", VerticalScroll).scroll_relative(y=PAGE, animate=False)

    def action_page_up(self) -> None:
        self.query_one("#told", VerticalScroll).scroll_relative(y=-PAGE, animate=False)


def _read_patient(text: str) -> str:
    if text:
        shape_of(text)
    return absolute(text)


def _read_own(text: str) -> Path:
    if not text:
        raise InputError("name a TOML file")
    path = Path(text).expanduser().resolve()
    read_protocol(path)
    return path
