"""The app: it follows one session at a time and shows it in five steps."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, ClassVar

from textual import events as textual_events
from textual.binding import BindingType
from textual.geometry import Size

from tui.commands import (
    COMPARISON,
    DIAGNOSE,
    GRIDS,
    LOAD,
    OPERATE,
    PLANS,
    RECORD,
    TRIAL,
    Command,
    commands_of,
    key_of,
)
from tui.config import Settings, read_settings
from tui.painter import PaintedApp
from tui.palette import glyphs
from tui.screens import screen_of
from tui.screens.base import StepScreen
from tui.style import CSS
from tui.themes import THEMES

if TYPE_CHECKING:  # what reads sessions is imported after the first byte is on the terminal
    from engine.plan import Plan
    from engine.protocol import Protocol, Run
    from engine.session import Session
    from tui.live import Live
    from tui.screens.comparison import Compared
    from tui.state import State
    from tui.trials import TrialLive

SMALLEST = (80, 24)
LOOK, LOOK_FOR_WORKER, NOTICE = 0.25, 1.0, 8.0
"""Seconds: between looks at the journal and at the worker's lock, and how long a notice stays."""


class Headsurgeon(PaintedApp[str]):
    """Holds the open session and the step on the screen. Its result is what to print after it has left."""

    CSS = CSS
    TITLE = "headsurgeon"
    ENABLE_COMMAND_PALETTE = False
    AUTO_FOCUS = ""
    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(
        self, root: Path | None = None, session: Path | None = None, model: str = "", settings: Settings | None = None
    ) -> None:
        super().__init__()
        settings = settings or Settings()
        self.table = settings.table
        """The commands with the operator's own keys."""
        self.glyphs = glyphs(settings.glyphs)
        self.ascii_only = self.glyphs == "ascii"
        self.chosen_root = root
        self.first_session = session
        self.first_model = model
        self.state: State | None = None
        self.trial: TrialLive | None = None
        """The trial that was opened last."""
        self.compared: Compared | None = None
        self.plan_patient: str | None = None
        """Whom plans are for; empty: the plan's own; None: nobody has chosen."""
        self.own_plans: list[Path] = []
        """Plan files of the operator's own, in the list beside the built-in ones."""
        self.chosen_plan: Path | None = None
        self.notice = ("", "")
        """(text, style) of the message line."""
        self.notices = 0
        self.load_error = ""
        self.begun: Session | None = None
        """The session that was begun last."""
        self.animation_level = "none"
        for theme in THEMES.values():
            self.register_theme(theme)
        self.theme = settings.theme
        self.set_keymap(settings.keymap)

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGHUP, signal.SIGTERM):
            loop.add_signal_handler(number, self.exit)
        self.app_resume_signal.subscribe(self, lambda _: self.redraw())
        self.go(LOAD if self.first_session is None and not self.first_model else self._first_step())
        self.call_after_refresh(self._begin)

    def _first_step(self) -> str:
        if self.first_session is None:
            return DIAGNOSE
        from engine.session import is_trial

        return TRIAL if is_trial(self.first_session) else DIAGNOSE

    def _begin(self) -> None:
        """Reading a journal and starting a worker come after the first paint."""
        self.set_interval(LOOK, self.look)
        self.set_interval(LOOK_FOR_WORKER, self.look_for_worker)
        if self.first_session is not None and self._first_step() == TRIAL:
            self.open_trial(self.first_session)
        elif self.first_session is not None:
            from engine.session import open_session

            self.open_session(open_session(self.first_session))
        elif self.first_model:
            self.begin(self.first_model)

    # sessions

    @property
    def root(self) -> Path:
        """Where sessions are."""
        from engine.session import sessions_root

        return sessions_root(self.chosen_root)

    def begin(
        self, model: str, device: str = "auto", dtype: str = "auto", texts: str = "", seed: int = 42,
        plans: Sequence[Plan] = (),
    ) -> None:  # fmt: skip
        """Begin a new session on a model, with passes that are run at once, and start its worker."""
        from engine.errors import InputError
        from engine.events import Created
        from engine.session import create_session
        from tui.live import Live
        from tui.state import State

        try:
            request = Created(
                session="", model=model, device=device, dtype=dtype, texts=texts, seed=seed,
                plans=[plan.model_dump() for plan in plans],
            )  # fmt: skip
            session = create_session(self.root, request)
        except InputError as error:
            self.load_error = str(error)
            self.go(LOAD)
            return
        self._let_go()
        self.state = State(Live(session))
        self.begun = session
        self.state.live.start_worker()
        self.state.live.poll()
        self.go(DIAGNOSE)

    def open_session(self, session: Session) -> None:
        """Show a session from its journal; go on with it where a pass is unfinished and nobody does."""
        from tui.live import Live
        from tui.state import State

        if self.state is None or self.state.live.session != session:
            self._let_go()
            self.state = State(Live(session))
        live = self.state.live
        live.poll()
        gc.freeze()  # what is loaded by now stays; going through it again and again would halt keys for 0.1 s
        live.look_for_worker()
        running = live.chart.running
        unfinished = live.chart.stock is None or (running is not None and running.out_of_memory is None)
        if unfinished and self.trial_of_session() is None:  # a trial's runs are carried out by its own worker
            live.start_worker()  # what ran out of memory waits for the operator's answer
        if live.chart.running:
            self.go(OPERATE)
        else:
            self.go(RECORD if live.chart.passes else DIAGNOSE)
        if self.trial_of_session() is not None:
            self.say(f"{session.folder.name}: {key_of('to_trial', self.table, DIAGNOSE)} goes back to the trial")

    def replay(self, session: Session) -> None:
        """Tell a session again from its journal."""
        from tui.replay import Replay
        from tui.state import State

        self._let_go()
        self.state = State(Replay(session))
        self.look()
        self.go(DIAGNOSE)

    # trials

    def begin_plan(self, protocol: Protocol, runs: list[Run], device: str) -> None:
        """Begin what a plan asks for and start its worker: a trial, or one session where it has one run.

        Raises:
            InputError: no folder can be made, or no worker started; then nothing is left behind.
        """
        from engine.errors import InputError
        from engine.trial import create_trial

        if protocol.single:
            run = runs[0]
            self.begin(run.model, device, run.dtype, run.texts, run.seed, run.plans)
            return
        trial = create_trial(self.root, protocol, runs, device)
        self.open_trial(trial.folder)
        assert self.trial is not None
        try:
            self.trial.start_worker()
        except OSError as error:
            self.trial = None
            trial.own.discard()
            self.go(PLANS)
            raise InputError(f"no worker could be started: {error.strerror}") from error
        self.draw()

    def open_trial(self, folder: Path) -> None:
        """Show a trial as its runs' journals tell it."""
        from engine.errors import InputError
        from engine.trial import open_trial
        from tui.trials import TrialLive

        if self.trial is None or self.trial.trial.folder != folder.resolve():
            try:
                self.trial = TrialLive(open_trial(folder))
            except InputError as error:
                self.trial = None
                self.load_error = str(error)
                self.go(LOAD)
                return
        self.load_error = ""
        self.trial.poll()
        self.trial.look_for_worker()
        self.go(TRIAL)

    def trial_of_session(self) -> Path | None:
        """The folder of the trial that the open session belongs to."""
        return self.state.live.session.trial if self.state is not None else None

    def compare(self, sessions: list[Session], title: str, back: str, all_passes: bool = False) -> None:
        """Show sessions side by side; ``back`` is the screen that Escape leads to."""
        from tui.screens.comparison import Compared

        self.compared = Compared(sessions, title, back, all_passes)
        self.notice = ("", "")
        self.go(COMPARISON)

    def _let_go(self) -> None:
        """Leave the session on the screen; its worker stays only where a pass runs."""
        if self.state is not None and self.state.live.alive and self.state.live.chart.running is None:
            self.state.live.session.send("quit")
        self.load_error = ""
        self.notice = ("", "")

    # following

    def look(self) -> None:
        """Take in what the journal has gained, and show it. Nothing is drawn when nothing changed."""
        from engine.events import Failed, Note, PassEnded, PassStarted, Refused

        self._look_at_terminal()
        if self._shows_trial and self.trial is not None and self.trial.poll():
            self.draw()
        if self.state is None:
            return
        live = self.state.live
        entries = live.poll()
        if not entries:
            if live.replaying:
                self.draw()
            return
        for entry in entries:
            match entry.event:
                case Refused() | Failed() as wrong:
                    self.state.asked = False
                    self.say(wrong.message, "$warm")
                case PassStarted():
                    self.state.asked = False
                    self.state.shown_pass = 0
                    if live.replaying:
                        self.call_later(self._follow, OPERATE)
                case PassEnded() if live.replaying:
                    self.call_later(self._follow, RECORD)
                case Note():
                    self.say("the note is written")
        if live.chart.failed and live.chart.loaded is None and not live.replaying:
            self.run_worker(self._could_not_load(live), exclusive=True)
        else:
            self.draw()

    def _follow(self, step: str) -> None:
        """On with a replay, unless the operator looks at something else than its session."""
        if any(isinstance(screen, StepScreen) and screen.step in GRIDS for screen in self.screen_stack):
            self.go(step)

    def _look_at_terminal(self) -> None:
        """Take in a size whose signal was not noticed; on a busy machine one of two in a row can be."""
        if self.is_headless:
            return
        with suppress(OSError):
            size = Size(*os.get_terminal_size(2))
            if size and size != self.size:
                self.post_message(textual_events.Resize(size, size))

    async def _could_not_load(self, live: Live) -> None:
        """Back to step 1 with the reason; a session begun just now is not kept."""
        if live.session == self.begun:
            with suppress(OSError, TimeoutExpired):
                await asyncio.to_thread(live.discard)
        trial = self.trial_of_session()
        self.state = None
        self.notice = ("", "")
        if trial is not None:
            self.open_trial(trial)
            self.say(live.chart.message, "$warm")
        else:
            self.load_error = live.chart.message
            self.go(LOAD)

    @property
    def _shows_trial(self) -> bool:
        return any(isinstance(screen, StepScreen) and screen.step == TRIAL for screen in self.screen_stack)

    def look_for_worker(self) -> None:
        if self._shows_trial and self.trial is not None and self.trial.look_for_worker():
            self.draw()
        if self.state is not None and self.state.live.look_for_worker():
            self.draw()

    def draw(self) -> None:
        """Draw the step again, also where a window is open over it."""
        for screen in self.screen_stack:
            if isinstance(screen, StepScreen):
                screen.draw()

    def say(self, text: str, style: str = "") -> None:
        """Show a notice in the message line for a while."""
        self.notice = (text, style)
        self.notices += 1
        self.set_timer(NOTICE, lambda number=self.notices: self._unsay(number))
        self.draw()

    def _unsay(self, number: int) -> None:
        if number == self.notices:
            self.notice = ("", "")
            self.draw()

    # steps and windows

    def go(self, step: str) -> None:
        """Show a step; windows over the one before are closed."""
        while len(self.screen_stack) > 1 and not isinstance(self.screen, StepScreen):
            self.pop_screen()
        if len(self.screen_stack) > 1:
            self.switch_screen(screen_of(step))
        else:  # Textual's own first screen stays below
            self.push_screen(screen_of(step))
        self._mind_size(self.size)

    def open_palette(self, step: str) -> None:
        from tui.screens.windows import Palette

        def run(command: Command | None) -> None:
            if command is not None:
                self.call_later(self.run_action, f"screen.{command.id}")

        self.push_screen(Palette(commands_of(step, self.table)), run)

    def open_help(self, step: str) -> None:
        from tui.screens.windows import Help

        self.push_screen(Help(step, commands_of(step, self.table)))

    def open_files(self) -> None:
        from tui.screens.windows import Files

        assert self.state is not None
        folder = str(self.state.live.session.folder)

        def copy(wanted: bool | None) -> None:
            if wanted:
                self.copy(folder)

        self.push_screen(Files(self.state.live.files()), copy)

    def copy(self, text: str) -> None:
        """To the terminal's clipboard, which not every terminal takes, and to a file as well."""
        from tui.copying import write_copy

        self.copy_to_clipboard(text)
        self.write("copied, also to {}", lambda folder: write_copy(folder, text))

    def screenshot(self, step: str) -> None:
        """Write what the screen shows to two files."""
        from tui.copying import write_screenshot

        svg = self.export_screenshot(title="headsurgeon")
        text = "".join(f"{strip.text.rstrip()}\n" for strip in self.screen._compositor.render_strips())

        self.write("written: {} and .txt", lambda folder: write_screenshot(folder, step, svg, text))

    def write(self, words: str, write: Callable[[Path], Path]) -> None:
        """Write something and say where it is (``{}`` in ``words``), or why that was not possible."""
        from engine.errors import InputError
        from tui.copying import folder_for, short

        try:
            owners = [screen.owner() for screen in self.screen_stack if isinstance(screen, StepScreen)]
            path = write(folder_for(owners[-1] if owners else None))
            self.say(words.format(short(path, self.size.width - len(words))))
        except (OSError, InputError) as error:
            self.say(f"not written: {error}", "$warm")

    def ask(self, command: str, **values: str | int) -> None:
        """Ask the worker for something small; starting one for it takes long, so that is asked first."""
        from tui.screens.windows import Ask

        assert self.state is not None
        live = self.state.live
        if live.replaying:
            self.say("this is a replay: nothing can be asked of it")
            return
        if live.alive:
            live.ask(command, **values)
            return

        def answered(yes: bool | None) -> None:
            if yes:
                live.ask(command, **values)
                self.draw()

        self.push_screen(Ask("This needs the worker, which loads the patient first. Start it?"), answered)

    def write_note(self) -> None:
        from tui.screens.windows import NoteLine

        def write(text: str | None) -> None:
            if text:
                self.ask("note", text=text)

        self.push_screen(NoteLine("Note"), write)

    def on_resize(self, event: textual_events.Resize) -> None:
        self._mind_size(event.size)
        self.redraw()  # the terminal has moved its cells about, even where the size is again what it was

    def _mind_size(self, size: Size) -> None:
        """Cover the steps with a sentence as long as the terminal is too small for them."""
        from tui.screens.windows import TooSmall

        small = size.width < SMALLEST[0] or size.height < SMALLEST[1]
        if small and not isinstance(self.screen, TooSmall):
            self.push_screen(TooSmall())
        elif not small and isinstance(self.screen, TooSmall):
            self.pop_screen()

    # leaving

    async def action_quit(self) -> None:
        self.leave()

    def action_help_quit(self) -> None:
        self.say(f"{key_of('leave', self.table)} leaves; a running pass goes on")

    def leave(self) -> None:
        """Leave the app. A pass goes on; a worker without one is let go."""
        if self.trial is not None:
            self.trial.look_for_worker()
        of_trial = self.trial is not None and self.trial_of_session() == self.trial.trial.folder
        words = [self.state.live.farewell()] if self.state is not None and not of_trial else []
        if self.trial is not None and (of_trial or self.trial.alive or not words):
            words.append(self.trial.farewell())
        self.exit("\n".join(words))


def run(*, demo: bool = False, session: Path | None = None, root: Path | None = None) -> int:
    """Open the app: on the demo patient, on a session, or on the list of sessions.

    Returns:
        The exit code: 0, or what Textual left with.

    Raises:
        InputError: the settings' file is wrong.
    """
    settings = read_settings()
    app = Headsurgeon(root, session, "demo" if demo else "", settings)
    words = app.run(mouse=settings.mouse)
    if words:
        from engine.printable import printable

        sys.stdout.write("".join(f"{printable(line)}\n" for line in words.splitlines()))
    return app.return_code or 0
