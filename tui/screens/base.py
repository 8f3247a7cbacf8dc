"""What all five steps share: the header strip, the message line, the key line, the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.screen import Screen
from textual.widgets import Static

from tui.commands import BESIDE, DIAGNOSE, LOAD, STEPS, TRIAL, Command, key_line, key_of
from tui.figures import QUIET, Line, Part, line, patient_line
from tui.grid import HeadGrid
from tui.palette import fit, plain
from tui.themes import THEMES

if TYPE_CHECKING:
    from engine.chart import Chart
    from engine.session import Session
    from tui.app import Headsurgeon
    from tui.state import State


class StepScreen(Screen[None]):
    """One of the five steps, or what step 1 opens into."""

    AUTO_FOCUS = ""
    step: ClassVar[str]
    ready = False
    """All widgets are there."""

    @property
    def surgeon(self) -> Headsurgeon:
        from tui.app import Headsurgeon

        assert isinstance(self.app, Headsurgeon)
        return self.app

    @property
    def state(self) -> State:
        """The open session; only asked for where one is open."""
        assert self.surgeon.state is not None
        return self.surgeon.state

    @property
    def chart(self) -> Chart:
        return self.state.live.chart

    def compose(self) -> ComposeResult:
        yield Static(id="header")
        yield from self.body()
        yield Static(id="message")
        yield Static(id="keys")

    def body(self) -> ComposeResult:
        """The widgets between header and message line."""
        yield from ()

    def on_mount(self) -> None:
        self.ready = True
        self.draw()

    def on_resize(self) -> None:
        self.call_after_refresh(self.draw)

    def draw(self) -> None:
        """Show everything as it stands now. Called on every change; only what differs reaches the terminal."""
        if self.here and (self.surgeon.state is not None or self.step in (LOAD, *BESIDE)):
            self._draw()

    @property
    def here(self) -> bool:
        """Composed, not yet replaced by another step, and not being taken down with the app."""
        return self.ready and self.app.is_running and self in self.app.screen_stack

    def _draw(self) -> None:
        self.query_one("#header", Static).update(self.header(), layout=False)
        self.query_one("#message", Static).update(self.message(), layout=False)
        self.query_one("#keys", Static).update(self.keys(), layout=False)
        self.draw_body()

    def draw_body(self) -> None:
        """The step's own part of ``draw``."""

    def header(self) -> Line:
        """Patient at the left, the five steps at the right."""
        width = self.app.size.width
        loose = width >= 100
        steps: list[Part] = []
        for number, name in enumerate(STEPS, 1):
            text = f"{number} {name.capitalize()}"
            here = name == (LOAD if self.step in BESIDE else self.step)
            if loose:
                steps += [(f" {text} ", "$strong bold reverse" if here else QUIET), ("▸", QUIET) if number < 5 else ""]
            else:
                steps.append((f" {text}" if number > 1 else text, "$strong bold reverse" if here else QUIET))
        steps.append(" ")
        room = width - sum(len(part if isinstance(part, str) else part[0]) for part in steps) - 2
        return line(f" {fit(self.title_of(), max(8, room))} ", *steps)

    def title_of(self) -> str:
        """What the header says at the left."""
        state = self.surgeon.state
        return patient_line(state.live.chart) if state else "headsurgeon"

    def owner(self) -> Session | None:
        """Whose exports take what is copied or written from here."""
        return self.surgeon.state.live.session if self.surgeon.state else None

    def message(self) -> Line:
        """One line: what the operator must know first."""
        text, style = self.surgeon.notice
        state = self.surgeon.state
        if state is not None and state.live.gone:
            text = f"worker gone — {self.key('worker')} starts it again from the last saved state"
            style = "$warm bold"
        elif state is not None and state.live.chart.failed and not state.live.alive:
            text, style = f"{state.live.chart.message} — {self.key('worker')} starts the worker again", "$warm"
        elif not text and state is not None:
            text, style = self.status(), QUIET
        return line((f" {plain(text, 400)}", style))

    def status(self) -> str:
        """What goes on when there is nothing to warn of."""
        live, progress = self.state.live, self.chart.progress
        if progress is not None and (live.alive or live.replaying):
            if progress.total:
                return f"{progress.what} {progress.done}/{progress.total}"
            return f"{progress.what} {progress.done} …" if progress.done else f"{progress.what} …"
        if live.waiting or (live.alive and not live.listening):
            return "starting the worker …"
        return "" if live.alive else "no worker: this is the session as its journal tells it"

    def keys(self) -> Line:
        """The key line."""
        parts: list[Part] = [" "]
        for command in key_line(self.step, self.idle(), self.surgeon.table):
            parts += [(command.first, "$cold bold"), (f" {self.label(command)}", QUIET), "  "]
        return line(*parts[:-1])

    def key(self, name: str) -> str:
        """The key of a command here, for a sentence that names it."""
        return key_of(name, self.surgeon.table, self.step)

    def idle(self) -> set[str]:
        """Ids of commands that would do nothing now: the key line leaves them out."""
        return set()

    def label(self, command: Command) -> str:
        """The command's word in the key line; some change with the state."""
        return command.label

    # actions of all steps

    def action_forward(self) -> None:
        self.surgeon.go(STEPS[STEPS.index(self.step) + 1])

    def action_back(self) -> None:
        trial = self.surgeon.trial_of_session() if self.step == DIAGNOSE else None
        if trial is None:
            self.surgeon.go(STEPS[STEPS.index(self.step) - 1])
        else:
            self.surgeon.open_trial(trial)

    def action_step(self, number: int) -> None:
        if self.surgeon.state is None and number > 1:
            self.surgeon.say("open a session first")
        else:
            self.surgeon.go(STEPS[number - 1])

    def action_to_trial(self) -> None:
        trial = self.surgeon.trial_of_session()
        if trial is not None:
            self.surgeon.open_trial(trial)
        elif self.surgeon.trial is not None:
            self.surgeon.go(TRIAL)
        else:
            self.surgeon.say("this session belongs to no trial")

    def action_theme(self) -> None:
        names = list(THEMES)
        self.action_use_theme(names[(names.index(self.app.theme) + 1) % len(names)])

    def action_use_theme(self, name: str) -> None:
        self.app.theme = name
        self.surgeon.say(f"theme: {name}")

    def copy_value(self) -> str:
        """What the copy key takes: one line of text, empty for nothing."""
        return str(self.state.live.session.folder) if self.surgeon.state is not None else ""

    def action_copy(self) -> None:
        value = self.copy_value()
        if value:
            self.surgeon.copy(value)
        else:
            self.surgeon.say("there is nothing to copy here")

    def action_screenshot(self) -> None:
        self.surgeon.screenshot(self.step)

    def action_redraw(self) -> None:
        self.surgeon.redraw()

    def action_palette(self) -> None:
        self.surgeon.open_palette(self.step)

    def action_help(self) -> None:
        self.surgeon.open_help(self.step)

    def action_leave(self) -> None:
        self.surgeon.leave()

    def action_worker(self) -> None:
        if self.state.live.alive:
            self.surgeon.say("a worker is there already")
        else:
            self.state.live.start_worker()
            self.draw()

    def action_files(self) -> None:
        self.surgeon.open_files()


class GridScreen(StepScreen):
    """A step with a grid and a cursor on it."""

    def copy_value(self) -> str:
        """The figures of the head under the cursor."""
        from tui.copying import head_text

        return head_text(self.chart, self.state.cursor) if self.surgeon.state is not None else ""

    def action_left(self) -> None:
        self._move(0, -1)

    def action_right(self) -> None:
        self._move(0, 1)

    def action_up(self) -> None:
        self._move(-1, 0)

    def action_down(self) -> None:
        self._move(1, 0)

    def _move(self, layers: int, heads: int) -> None:
        self.state.move(layers, heads)
        self.cursor_moved()

    def action_next_sick(self) -> None:
        self._to_sick(1)

    def action_previous_sick(self) -> None:
        self._to_sick(-1)

    def _to_sick(self, direction: int) -> None:
        if self.state.to_sick(direction):
            self.cursor_moved()
        else:
            self.surgeon.say("no head is sick")

    def cursor_moved(self) -> None:
        """The cursor stands on another head; nothing else has changed."""
        for grid in self.query(HeadGrid):
            grid.move_to(self.state.cursor)
        self.draw_head()

    def draw_head(self) -> None:
        """Show the figures of the cursor's head."""
