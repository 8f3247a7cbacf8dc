"""A long text read through windows: what came of it, and the form that asks for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from engine.errors import InputError
from engine.streaming import ANCHORS, COMPARED, why_not
from tui.figures import QUIET, STRONG, WARM, Line, joined, line, paragraph
from tui.palette import plain
from tui.paths import complete_path
from tui.screens.lines import CLOSE, LOOK, SCROLL
from tui.state import State
from tui.streaming import Wanted, first_wanted, passage_lines, read_wanted

EXPLAINED = (
    "A long text is read with full attention, through a window that forgets its oldest tokens, through the same window "
    f"with first tokens of the text kept in it as anchors ({', '.join(map(str, ANCHORS[1:]))} of them), and with the "
    "window run anew for every token; the stock model beside the repaired one. Does the repaired patient still need "
    "its anchors?"
)
HINTS = {
    "text": "a file, a folder or a hub name; demo:heldout-austen.txt and demo:bible.txt are built in",
    "window": "tokens held, anchors among them; at most the context",
    "tokens": f"of the text, from its beginning; over {COMPARED} full attention and the window run anew are left out",
}


OUTCOMES = {
    "completed": "all of it is read",
    "stopped": "stopped; what was read stands, and asking for the same again goes on",
    "out_of_memory": "out of memory: fewer tokens or a smaller window take less",
}
ASKED = "asked …"
STOPPING = "stopping …"


class StreamWindow(ModalScreen[None]):
    """The arms of one text side by side, the curve over the anchors, and what they answer."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *CLOSE,
        Binding("q,S", "close", "close", show=False),
        Binding("left,h,p", "passage(-1)", "text before", show=False),
        Binding("right,l,n", "passage(1)", "next text", show=False),
        Binding("enter", "begin", "begin", show=False),
        Binding("s", "stop", "stop", show=False),
        *SCROLL,
    ]

    def __init__(self, state: State, ask: Callable[..., None], glyphs: str) -> None:
        """``ask`` asks the worker for something, or first whether to start one."""
        super().__init__()
        self.state, self.ask, self.glyphs = state, ask, glyphs
        self.back = 0
        """Texts between the newest and the one that is shown."""
        self.shown: list[Line] = []
        self.said = ""
        self.message, self.asked = state.live.chart.message, state.live.chart.seq
        """The last refusal, and the last entry, when something was asked: later ones are the answer."""

    def compose(self) -> ComposeResult:
        with Vertical(classes="window whole"):
            with VerticalScroll(id="stream-scroll"):
                yield Static(id="stream")
            yield Static(id="stream-status")
        yield Static(
            line((" enter reads a text   s stops   ←→ other texts   ↑↓ scroll   esc closes", QUIET)),
            classes="under whole-under",
        )

    def on_mount(self) -> None:
        self.show()
        self.set_interval(LOOK, self.show)

    def on_resize(self) -> None:
        self.call_after_refresh(self.show)

    @property
    def reading(self) -> bool:
        """The worker is at it."""
        live = self.state.live
        return live.chart.streaming is not None and live.alive and not live.replaying

    def show(self) -> None:
        """Show what is known now, if it is more than before."""
        chart, size = self.state.live.chart, self.app.size
        width, rows = size.width - 5, size.height - 4
        passages = list(chart.streams)
        if passages:
            self.back = min(self.back, len(passages) - 1)
            passage = passages[-1 - self.back]
            lines = passage_lines(passage, chart.streams[passage], width, rows, self.glyphs)
        else:
            lines = [line((" A long text", STRONG)), *paragraph(EXPLAINED, width), line(" ")]
            lines.append(line((" nothing was read yet: enter chooses a text", QUIET)))
        status = line(self.status())
        if self.shown != [*lines, status]:
            self.shown = [*lines, status]
            self.query_one("#stream", Static).update(joined(lines))
            self.query_one("#stream-status", Static).update(status)

    def status(self) -> tuple[str, str]:
        """The line at the bottom, and its style."""
        live = self.state.live
        chart = live.chart
        if chart.message != self.message:
            return f" {plain(chart.message, 400)}", WARM
        if self.reading:
            assert chart.streaming is not None
            if self.said == STOPPING:
                return f" {self.said}", QUIET
            p = chart.progress
            where = f"{p.what} {p.done}/{p.total}" if p is not None and p.total else "…"
            return f" reading {plain(chart.streaming.text, 30)}: {where}", STRONG
        if chart.stream_ended[0] > self.asked:
            return f" {OUTCOMES.get(chart.stream_ended[1], '')}", QUIET
        if live.waiting or (live.alive and not live.listening):
            return " starting the worker …", QUIET
        if self.said and not live.replaying and chart.progress is not None:
            return f" {plain(chart.progress.what, 60)} …", QUIET
        number = len(chart.streams)
        many = f" text {number - self.back} of {number}" if number > 1 else ""
        told = self.said if self.said != ASKED or live.alive else ""  # nobody was asked yet
        return (f" {told}" if told else many), QUIET

    # keys

    def action_passage(self, step: int) -> None:
        self.back = max(0, min(len(self.state.live.chart.streams) - 1, self.back - step))
        self.show()

    def action_begin(self) -> None:
        live = self.state.live
        loaded, map_ = live.chart.loaded, live.chart.head_map
        if live.replaying:
            self.say("a replay shows only what was read then")
        elif loaded is None:
            self.say("the patient is not loaded yet")
        elif live.chart.running is not None:
            self.say("a pass is not over: a long text can be read once it has ended")
        elif why := why_not(loaded.family, map_.windows if map_ else []):
            self.say(f"this patient {why}")
        elif not self.reading:
            self.app.push_screen(StreamForm(first_wanted(live.chart), loaded.context), self._begin)

    def _begin(self, wanted: Wanted | None) -> None:
        if wanted is not None:
            self.back = 0
            self.say(ASKED)
            self.ask("stream", text=wanted.text, window=wanted.window, tokens=wanted.tokens)

    def action_stop(self) -> None:
        if self.reading:
            self.state.live.session.send("stop")
            self.say(STOPPING)
        else:
            self.say("nothing is being read")

    def say(self, text: str) -> None:
        """Say something until the worker has answered."""
        chart = self.state.live.chart
        self.said, self.message, self.asked = text, chart.message, chart.seq
        self.show()

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_close(self) -> None:
        self.dismiss()


class StreamForm(ModalScreen[Wanted | None]):
    """Which text, through which window, how far; Enter takes it, or says what is wrong."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        *CLOSE,
        Binding("down", "app.focus_next", "next", show=False),
        Binding("up", "app.focus_previous", "previous", show=False),
        Binding("tab", "complete", "complete", show=False, priority=True),
    ]

    def __init__(self, wanted: Wanted, context: int) -> None:
        super().__init__()
        self.wanted, self.context = wanted, context

    def compose(self) -> ComposeResult:
        with Vertical(classes="window", id="stream-form"):
            yield Static(line(("Read a long text", STRONG), ("   ↑↓ move, tab completes, enter begins", QUIET)))
            for name in HINTS:
                with Horizontal(classes="field"):
                    yield Static(line((f" {name}", QUIET)), classes="name")
                    box = Input(str(getattr(self.wanted, name)), id=name, compact=True, select_on_focus=False)
                    box.cursor_blink = False
                    yield box
            yield Static(id="hint")

    def on_descendant_focus(self) -> None:
        self._say(HINTS.get(str(self.focused.id), "") if self.focused is not None else "", QUIET)

    def _say(self, text: str, style: str) -> None:
        self.query_one("#hint", Static).update(line((f" {plain(text, 400)}", style)), layout=False)

    def on_input_submitted(self) -> None:
        text, window, tokens = (self.query_one(f"#{name}", Input).value.strip() for name in HINTS)
        try:
            self.dismiss(read_wanted(text, window, tokens, self.context))
        except InputError as error:
            self._say(str(error), "$warm")

    def action_complete(self) -> None:
        field = self.query_one("#text", Input)
        if self.focused is field:
            field.value = complete_path(field.value)
            field.cursor_position = len(field.value)

    def action_close(self) -> None:
        self.dismiss(None)
