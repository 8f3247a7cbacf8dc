"""The app: it follows one session at a time and shows it in five steps."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from subprocess import TimeoutExpired
from typing import TYPE_CHECKING, ClassVar

from textual import events as textual_events
from textual.binding import BindingType
from textual.geometry import Size

from tui.commands import DIAGNOSE, LOAD, OPERATE, RECORD, TARGET, Command, commands_of, key_of
from tui.config import Settings, read_settings
from tui.painter import PaintedApp
from tui.palette import glyphs
from tui.screens.base import StepScreen
from tui.style import CSS
from tui.themes import THEMES

if TYPE_CHECKING:  # what reads sessions is imported after the first byte is on the terminal
    from engine.session import Session
    from tui.live import Live
    from tui.state import State

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
        self.go(LOAD if self.first_session is None and not self.first_model else DIAGNOSE)
        self.call_after_refresh(self._begin)

    def _begin(self) -> None:
        """Reading a journal and starting a worker come after the first paint."""
        self.set_interval(LOOK, self.look)
        self.set_interval(LOOK_FOR_WORKER, self.look_for_worker)
        if self.first_session is not None:
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

    def begin(self, model: str, device: str = "auto", dtype: str = "auto") -> None:
        """Begin a new session on a model and start its worker."""
        from engine.errors import InputError
        from engine.events import Created
        from engine.session import create_session
        from tui.live import Live
        from tui.state import State

        try:
            session = create_session(self.root, Created(session="", model=model, device=device, dtype=dtype))
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
        if live.chart.stock is None or (running is not None and running.out_of_memory is None):
            live.start_worker()  # what ran out of memory waits for the operator's answer
        if live.chart.running:
            self.go(OPERATE)
        else:
            self.go(RECORD if live.chart.passes else DIAGNOSE)

    def replay(self, session: Session) -> None:
        """Tell a session again from its journal."""
        from tui.replay import Replay
        from tui.state import State

        self._let_go()
        self.state = State(Replay(session))
        self.look()
        self.go(DIAGNOSE)

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
                        self.call_later(self.go, OPERATE)
                case PassEnded() if live.replaying:
                    self.call_later(self.go, RECORD)
                case Note():
                    self.say("the note is written")
        if live.chart.failed and live.chart.loaded is None and not live.replaying:
            self.run_worker(self._could_not_load(live), exclusive=True)
        else:
            self.draw()

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
        self.load_error = live.chart.message
        self.state = None
        self.notice = ("", "")
        self.go(LOAD)

    def look_for_worker(self) -> None:
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
            self.switch_screen(_screen(step))
        else:  # Textual's own first screen stays below
            self.push_screen(_screen(step))
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
        self._write("copied, also to {}", lambda folder: write_copy(folder, text))

    def screenshot(self, step: str) -> None:
        """Write what the screen shows to two files."""
        from tui.copying import write_screenshot

        svg = self.export_screenshot(title="headsurgeon")
        text = "".join(f"{strip.text.rstrip()}\n" for strip in self.screen._compositor.render_strips())

        self._write("written: {} and .txt", lambda folder: write_screenshot(folder, step, svg, text))

    def _write(self, words: str, write: Callable[[Path], Path]) -> None:
        """Write something and say where it is (``{}`` in ``words``), or why that was not possible."""
        from engine.errors import InputError
        from tui.copying import folder_for, short

        try:
            path = write(folder_for(self.state.live.session if self.state else None))
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
        self.exit(self.state.live.farewell() if self.state is not None else "")


def _screen(step: str) -> StepScreen:
    """A fresh screen; each is imported when it is first shown."""
    if step == LOAD:
        from tui.screens.load import LoadScreen

        return LoadScreen()
    if step == DIAGNOSE:
        from tui.screens.diagnose import DiagnoseScreen

        return DiagnoseScreen()
    if step == TARGET:
        from tui.screens.target import TargetScreen

        return TargetScreen()
    if step == OPERATE:
        from tui.screens.operate import OperateScreen

        return OperateScreen()
    from tui.screens.record import RecordScreen

    return RecordScreen()


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
