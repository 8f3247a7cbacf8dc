"""Step 1: past sessions, or a new one."""

from __future__ import annotations

from pathlib import Path

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import get_current_worker

from engine.errors import InputError
from engine.session import list_sessions
from tui.commands import DIAGNOSE, LOAD, bindings_of
from tui.figures import QUIET, STRONG, Line, line
from tui.palette import plain
from tui.past import Past, read_past
from tui.plans import absolute
from tui.screens.base import StepScreen


class LoadScreen(StepScreen):
    """The list of sessions and the line for a new one's model."""

    step = LOAD
    BINDINGS = bindings_of(LOAD)

    def body(self) -> ComposeResult:
        with Vertical(id="main"):
            yield Static(id="list-title")
            yield OptionList(id="sessions", compact=True, markup=False)
        with Horizontal(id="model-line"):
            yield Static(line((" new session on ", QUIET)), id="model-label")
            yield Input(placeholder="n: demo, a local folder or a hub name", id="model", compact=True)
        yield Static(id="complaint")

    def on_mount(self) -> None:
        super().on_mount()
        field = self.query_one(Input)
        field.cursor_blink = False
        field.disabled = True
        self.complain(self.surgeon.load_error)
        self.sessions = list_sessions(self.surgeon.root)
        options = self.query_one(OptionList)
        options.add_options(Option(line(f" {plain(session.id)}"), id=session.id) for session in self.sessions)
        options.focus()
        if self.sessions:
            options.highlighted = 0
            title = line(
                (columns(self.app.size.width, "session", "patient", "state", "healthy heads", "changed"), QUIET)
            )
        else:
            title = line(("\n no sessions yet — d begins one on the demo patient, n on any model", QUIET))
        self.query_one("#list-title", Static).update(title)
        self.run_worker(self._fill, thread=True, exclusive=True)

    def _fill(self) -> None:
        """Read the records one by one, off the screen's own thread, so that a long list shows at once."""
        worker = get_current_worker()
        for session in self.sessions:
            past = read_past(session)
            live = session.holder() is not None
            if worker.is_cancelled:  # another step is on the screen by now
                return
            self.app.call_from_thread(self._show, past, live)

    def _show(self, past: Past, live: bool) -> None:
        for options in self.query(OptionList):  # none when the screen has gone meanwhile
            options.replace_option_prompt(past.session.id, session_line(past, live, self.app.size.width))

    def complain(self, sentence: str) -> None:
        """Say what is wrong with the model's name."""
        self.query_one("#complaint", Static).update(line((f" {plain(sentence, 400)}", "$warm")))

    def status(self) -> str:
        return str(self.surgeon.root)

    # keys

    def action_choose(self) -> None:
        options = self.query_one(OptionList)
        if options.highlighted is not None:
            self.surgeon.open_session(self.sessions[options.highlighted])

    def on_option_list_option_selected(self) -> None:
        self.action_choose()

    def action_new(self) -> None:
        field = self.query_one(Input)
        field.disabled = False
        field.focus()

    def action_demo(self) -> None:
        self.surgeon.begin("demo")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        model = event.value.strip()
        sentence = wrong_model(model)
        if sentence:
            self.complain(sentence)
        else:
            self.surgeon.begin(absolute(model))

    def action_back(self) -> None:
        field = self.query_one(Input)
        if not field.disabled:
            field.disabled = True
            self.complain("")
            self.query_one(OptionList).focus()

    def action_step(self, number: int) -> None:
        if self.surgeon.state is not None:
            super().action_step(number)
        else:
            self.surgeon.say("open a session first")

    def action_forward(self) -> None:
        self.surgeon.go(DIAGNOSE)


def columns(width: int, name: str, patient: str, state: str, healthy: str, changed: str) -> str:
    """A row of the list; the name takes what room there is, the date comes where it still fits."""
    room = max(28, min(60, width - 50))
    date = f" {changed[:16].replace('T', ' '):<16}" if width >= 50 + 40 + 17 else ""
    return f" {plain(name, room):<{room}} {plain(patient, 14):<14} {state:<11} {healthy:<18}{date}"


def session_line(past: Past, live: bool, width: int) -> Line:
    """One session in the list."""
    running = past.state in ("operating", "paused")
    state = past.state if live or not running else "interrupted"
    healthy = f"{past.healthy_before}" if past.healthy_before is not None else ""
    if past.healthy_after is not None:
        healthy += f" → {past.healthy_after}"
    if healthy:
        healthy += f" of {past.heads}"
    name = plain(past.patient).rstrip("/").rsplit("/", 1)[-1]
    text = columns(width, past.session.id, name, state, healthy, past.updated)
    at = text.index(f" {state:<11}")
    style = "$warm" if state in ("interrupted", "failed") else STRONG if running else ""
    return line(text[:at], (text[at : at + 12], style), text[at + 12 :])


def wrong_model(model: str) -> str:
    """What can be seen to be wrong before any worker starts; empty when nothing can."""
    if not model:
        return "type demo, a local folder or a hub name"
    path = Path(model).expanduser()
    if model == "demo" or (not path.exists() and model[0] not in "./~"):
        return ""
    from engine.anatomy import anatomy_of, read_config

    try:
        anatomy_of(read_config(path), model)
    except InputError as error:
        return str(error)
    return ""
