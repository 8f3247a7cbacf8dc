"""Step 1: past sessions, or a new one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option
from textual.worker import get_current_worker

from engine.errors import InputError
from engine.session import PROTOCOL, Session, is_trial, list_sessions
from tui.commands import DIAGNOSE, LOAD, PLANS, bindings_of
from tui.devices import Device, devices
from tui.drylook import DryLook, free_line, look, memory_line, shape_line
from tui.figures import QUIET, STRONG, Line, Part, joined, line
from tui.palette import plain
from tui.past import Past, PastTrial, read_past, read_trial
from tui.paths import cached_models, candidates, complete_path
from tui.plans import absolute
from tui.screens.base import StepScreen
from tui.screens.begin import BeginWindow, Choice
from tui.screens.lines import LineWindow
from tui.screens.windows import Ask

HELD = "a worker is at work on this: open it and stop there first"
RECENT = 12
"""Patients of past sessions that are offered first."""


class LoadScreen(StepScreen):
    """The list of sessions and the line for a new one's model; while that is typed, a list of models."""

    step = LOAD
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_of(LOAD),
        Binding("tab", "complete", "complete", show=False, priority=True),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.sessions: list[Session] = []
        """Sessions, and trials as the folders that they are."""
        self.pasts: dict[str, Past] = {}
        self.marked: set[str] = set()
        """Ids of those that are to be compared."""
        self.lines: dict[str, Line] = {}
        self.devices: list[Device] = []
        self.hub: list[str] = []
        self.offered: list[str] = []
        """What the list of models shows."""
        self.picked = ""
        """The text that was taken from the list of models by ↑ or ↓."""

    def body(self) -> ComposeResult:
        with Vertical(id="main"):
            yield Static(id="list-title")
            yield OptionList(id="sessions", compact=True, markup=False)
            yield OptionList(id="models", compact=True, markup=False)
        with Horizontal(id="model-line"):
            yield Static(line((" new session on ", QUIET)), id="model-label")
            yield Input(placeholder="n: demo, a local folder, a .gguf file or a hub name", id="model", compact=True)
        yield Static(id="complaint")

    def on_mount(self) -> None:
        super().on_mount()
        field = self.query_one(Input)
        field.cursor_blink = False
        field.disabled = True
        models = self.query_one("#models", OptionList)
        models.display = models.can_focus = False
        self._list()
        self.complain(self.surgeon.load_error)

    def _list(self, at: int = 0) -> None:
        """Show the sessions' names at once, and read their records off the screen's own thread."""
        self.sessions = listed(self.surgeon.root)
        self.marked &= {session.id for session in self.sessions}
        options = self.query_one("#sessions", OptionList)
        options.clear_options()
        options.add_options(Option(line(f" {plain(session.id)}"), id=session.id) for session in self.sessions)
        options.focus()
        if self.sessions:
            options.highlighted = min(at, len(self.sessions) - 1)
        self._title()
        self.run_worker(self._fill, thread=True, exclusive=True, group="sessions")

    def _title(self) -> None:
        demo, new = self.key("demo"), self.key("new")
        title = line((f"\n no sessions yet — {demo} begins one on the demo patient, {new} on any model", QUIET))
        if not self.query_one(Input).disabled:
            title = line((" patients of past sessions, models in the hub's cache, folders", QUIET))
        elif self.sessions:
            width = self.app.size.width
            title = line((columns(width, "session", "patient", "state", "healthy heads", "changed"), QUIET))
        self.query_one("#list-title", Static).update(title)

    def _fill(self) -> None:
        """Read the records one by one, so that a long list shows at once."""
        worker = get_current_worker()
        for session in self.sessions:
            live, width = session.holder() is not None, self.app.size.width
            past = None
            if is_trial(session.folder):
                try:
                    shown = trial_line(read_trial(session), live, width)
                except (OSError, ValueError, KeyError, TypeError):
                    shown = line((f" {plain(session.id, 60)}: its {PROTOCOL} is damaged", "$warm"))
            else:
                past = read_past(session)
                shown = session_line(past, live, width)
            if worker.is_cancelled:  # another step is on the screen by now
                return
            self.app.call_from_thread(self._show, session, shown, past)

    def _show(self, session: Session, shown: Line, past: Past | None) -> None:
        if past is not None:
            self.pasts[session.id] = past
        self.lines[session.id] = shown
        self._show_row(session)

    def _show_row(self, session: Session) -> None:
        """Show a row as it was read, with its mark."""
        if self.here and session in self.sessions:
            shown = self.lines.get(session.id, line(f" {plain(session.id)}"))
            if session.id in self.marked:
                shown = line(("*", STRONG)) + shown[1:]
            self.query_one("#sessions", OptionList).replace_option_prompt(session.id, shown)

    def _look_around(self) -> None:
        """Devices and cached models; the driver's tool may take a second."""
        worker = get_current_worker()
        hub, found = cached_models(), devices()
        if not worker.is_cancelled:
            self.app.call_from_thread(self._looked_around, hub, found)

    def _looked_around(self, hub: list[str], found: list[Device]) -> None:
        self.hub, self.devices = hub, found
        if self.here and not self.query_one(Input).disabled:
            self._offer(self.query_one(Input).value)

    def complain(self, sentence: str) -> None:
        """Say what is wrong."""
        self._say([line((f" {plain(sentence, 400)}", "$warm"))])

    def _say(self, lines: list[Line]) -> None:
        self.query_one("#complaint", Static).update(joined(lines))

    def status(self) -> str:
        return str(self.surgeon.root)

    def keys(self) -> Line:
        """While a model is typed, other keys count."""
        if not self.ready or self.query_one(Input).disabled:
            return super().keys()
        parts: list[Part] = [" "]
        for key, word in (("enter", "begin"), ("↑↓", "take from the list"), ("tab", "complete"), ("esc", "back")):
            parts += [(key, "$cold bold"), (f" {word}", QUIET), "  "]
        return line(*parts[:-1])

    # past sessions

    @property
    def chosen(self) -> Session | None:
        at = self.query_one("#sessions", OptionList).highlighted
        return self.sessions[at] if at is not None and at < len(self.sessions) else None

    def action_choose(self) -> None:
        if self.chosen is not None and is_trial(self.chosen.folder):
            self.surgeon.open_trial(self.chosen.folder)
        elif self.chosen is not None:
            self.surgeon.open_session(self.chosen)

    def on_option_list_option_selected(self) -> None:
        self.action_choose()

    def action_plans(self) -> None:
        self.surgeon.go(PLANS)

    def action_mark(self) -> None:
        session = self.chosen
        if session is not None:
            self.marked ^= {session.id}
            self._show_row(session)
            self.surgeon.say(f"{len(self.marked)} marked: {self.key('comparison')} compares" if self.marked else "")

    def action_comparison(self) -> None:
        chosen = [session for session in reversed(self.sessions) if session.id in self.marked]
        if not chosen and self.chosen is not None and is_trial(self.chosen.folder):
            chosen = [self.chosen]
        sessions = [inner for session in chosen for inner in sessions_of(session)]
        if len(sessions) > 1 or (chosen and sessions and is_trial(chosen[0].folder)):
            title = plain(chosen[0].id, 40) if len(chosen) == 1 else f"{len(sessions)} sessions"
            self.surgeon.compare(sessions, title, LOAD)
        else:
            self.surgeon.say(f"mark two sessions or more, or a trial that has begun: {self.key('mark')} marks")

    def action_replay(self) -> None:
        if self.chosen is not None and is_trial(self.chosen.folder):
            self.surgeon.say(f"{self.key('choose')} opens the trial; its runs can be replayed there")
        elif self.chosen is not None:
            self.surgeon.replay(self.chosen)

    def action_rename(self) -> None:
        session = self.chosen
        if session is None:
            return

        def rename(name: str | None) -> None:
            if name and name != session.id:
                self._let_go(session)
                session.folder.rename(session.folder.with_name(name))
                names = [s.id for s in listed(self.surgeon.root)]
                self._list(names.index(name))

        hint = "letters, digits, dots and dashes; the folder gets this name"
        read = lambda text: new_name(session, text)  # noqa: E731
        self.app.push_screen(LineWindow("Rename the session", hint, read, session.id), rename)

    def action_delete(self) -> None:
        session = self.chosen
        if session is None:
            return
        if held(session):
            self.surgeon.say(HELD)
            return

        def answered(yes: bool | None) -> None:
            if yes and not held(session):
                self._let_go(session)
                at = self.sessions.index(session)
                session.discard()
                self._list(at)

        files = [path for path in session.folder.rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files) / 1e6
        count = len(sessions_of(session))
        inner = f"{count} session{'s' * (count != 1)}, " if is_trial(session.folder) else ""
        question = (
            f"Delete {plain(session.id, 60)} with its {inner}{len(files)} files, {size:.1f} MB? There is no way back."
        )
        self.app.push_screen(Ask(question), answered)

    def _let_go(self, session: Session) -> None:
        """Close a session, or a trial and what is open of it."""
        state, trial = self.surgeon.state, self.surgeon.trial
        if state is not None and state.live.session.folder in (
            session.folder,
            *(s.folder for s in sessions_of(session)),
        ):
            self.surgeon.state = None
        if trial is not None and trial.trial.folder == session.folder:
            self.surgeon.trial = None

    # a new one

    def action_new(self) -> None:
        field = self.query_one(Input)
        field.disabled = False
        field.focus()
        self.query_one("#sessions", OptionList).display = False
        self.query_one("#models", OptionList).display = True
        self._title()
        self.draw()
        self._offer(field.value)
        if not self.devices:
            self.run_worker(self._look_around, thread=True, exclusive=True, group="devices")

    def action_demo(self) -> None:
        self.surgeon.begin("demo")

    def on_input_changed(self, event: Input.Changed) -> None:
        if not event.input.disabled and event.value != self.picked:
            self._offer(event.value)
        elif not event.input.disabled:
            self._dry_look(event.value)

    def _offer(self, typed: str) -> None:
        """Models whose names hold what was typed, and paths that begin with it."""
        self.picked = ""
        recent = list(dict.fromkeys(past.patient for past in self.pasts.values() if past.patient))[:RECENT]
        names = list(dict.fromkeys(["demo", *recent, *self.hub]))
        self.offered = [name for name in names if typed.lower() in name.lower()]
        if "/" in typed or typed.startswith((".", "~")):
            self.offered += [path for path in candidates(typed) if path.endswith("/")]
        notes = dict.fromkeys(self.hub, "in the hub's cache") | dict.fromkeys(recent, "of a past session")
        options = self.query_one("#models", OptionList)
        options.clear_options()
        options.add_options(
            line(f" {plain(name, 100)}", (f"   {notes[name]}" if name in notes else "", QUIET)) for name in self.offered
        )
        self._dry_look(typed)

    def _dry_look(self, typed: str) -> None:
        """What the model is, from its config alone; nothing where too little is typed."""
        self._say(look_lines(look(typed.strip()), self.devices) if typed.strip() else [free_line(self.devices)])

    def on_key(self, event: events.Key) -> None:
        """↑ and ↓ take a name from the list into the line."""
        field = self.query_one(Input)
        if field.disabled or event.key not in ("up", "down") or not self.offered:
            return
        options = self.query_one("#models", OptionList)
        at, step = options.highlighted, 1 if event.key == "down" else -1
        options.highlighted = (
            (0 if step > 0 else -1) % len(self.offered) if at is None else (at + step) % len(self.offered)
        )
        self.picked = field.value = self.offered[options.highlighted]
        field.cursor_position = len(field.value)
        event.stop()

    def action_complete(self) -> None:
        field = self.query_one(Input)
        if not field.disabled:
            completed = complete_path(field.value) if "/" in field.value or field.value[:1] in (".", "~") else ""
            if not completed and len(self.offered) == 1:
                completed = self.offered[0]
            field.value = completed or field.value
            field.cursor_position = len(field.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        found = look(event.value.strip())
        if found.trouble:
            self.complain(found.trouble)
            return

        def begin(choice: Choice | None) -> None:
            if choice is not None:
                self.surgeon.begin(absolute(found.model), *choice)

        self.app.push_screen(BeginWindow(found, self.devices), begin)

    def action_back(self) -> None:
        field = self.query_one(Input)
        if not field.disabled:
            field.disabled = True
            self.complain("")
            self.query_one("#models", OptionList).display = False
            self.query_one("#sessions", OptionList).display = True
            self.query_one("#sessions", OptionList).focus()
            self._title()
            self.draw()

    def action_forward(self) -> None:
        self.surgeon.go(DIAGNOSE)


def listed(root: Path) -> list[Session]:
    """What the list shows, newest first by name: sessions, and trials instead of their sessions."""
    found = [session for session in list_sessions(root) if session.trial is None]
    trials = [Session(path.parent.resolve()) for path in root.glob(f"*/{PROTOCOL}")]
    return sorted({*found, *trials}, key=lambda session: session.id, reverse=True)


def sessions_of(session: Session) -> list[Session]:
    """The sessions that a row stands for: itself, or those of the trial that have begun, in the plan's order."""
    if not is_trial(session.folder):
        return [session]
    try:
        from engine.trial import open_trial

        return [inner for _, inner in open_trial(session.folder).begun()]
    except InputError:
        return []


def held(session: Session) -> bool:
    """Whether a worker holds a session, or a trial or one of its sessions."""
    inner = session.folder.glob("*/worker.lock") if is_trial(session.folder) else ()
    return any(s.holder() is not None for s in (session, *(Session(path.parent) for path in inner)))


def columns(width: int, name: str, patient: str, state: str, healthy: str, changed: str) -> str:
    """A row of the list; the name takes what room there is, the hour comes where it still fits."""
    room = max(28, min(60, width - 60))
    date = changed[:16].replace("T", " ") if width >= 28 + 60 or changed == "changed" else changed[5:10]
    return f" {plain(name, room):<{room}} {plain(patient, 12):<12} {state:<11} {healthy:<16} {date}"


def session_line(past: Past, live: bool, width: int) -> Line:
    """One session in the list."""
    running = past.state in ("operating", "paused", "out_of_memory")
    state = past.state if live or not running else "interrupted"
    healthy = f"{past.healthy_before}" if past.healthy_before is not None else ""
    if past.healthy_after is not None:
        healthy += f" → {past.healthy_after}"
    if healthy:
        healthy += f"/{past.heads}"
    name = plain(past.patient).rstrip("/").rsplit("/", 1)[-1]
    style = "$warm" if state in ("interrupted", "failed") else STRONG if running else ""
    return _styled(columns(width, past.session.id, name, state, healthy, past.updated), state, style)


def trial_line(past: PastTrial, live: bool, width: int) -> Line:
    """One trial in the list, named by its plan's title."""
    state = "running" if live else "done" if past.done == past.runs else "failed" if past.failed else "interrupted"
    name = plain(past.patient).rstrip("/").rsplit("/", 1)[-1]
    counts = f"{past.done}/{past.runs} in {past.arms} arm{'s' * (past.arms != 1)}"
    style = STRONG if live else "" if state == "done" else "$warm"
    return _styled(columns(width, f"▸ {past.title}", name, state, counts, past.updated), state, style)


def _styled(text: str, state: str, style: str) -> Line:
    """A row with its state in a style."""
    at = text.index(f" {state:<11}")
    return line(text[:at], (text[at : at + 12], style), text[at + 12 :])


def look_lines(found: DryLook, known: list[Device]) -> list[Line]:
    """The dry look in three lines."""
    lines = [shape_line(found)]
    if found.anatomy is not None:
        dtype = found.dtype or "float32"
        known_dtype = dtype if dtype in ("bfloat16", "float16", "float32") else "float32"
        lines.append(line((f" {found.remark}", "$warm")) if found.remark else memory_line(found, known_dtype))
    return [*lines, free_line(known)]


def new_name(session: Session, text: str) -> str:
    """A name that a session's folder may get.

    Raises:
        InputError: it cannot be a folder's name, is taken, or a worker holds the session.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", text):
        raise InputError("a name is made of letters, digits, dots and dashes, and begins with a letter or a digit")
    if held(session):
        raise InputError(HELD)
    if text != session.id and session.folder.with_name(text).exists():
        raise InputError(f"there is a session {text} already")
    return text
