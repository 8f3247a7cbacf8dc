"""A line to type into over a step, and a sheet of text to read."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from engine.errors import InputError
from tui.figures import QUIET, STRONG, Line, joined, line
from tui.palette import plain

Value = TypeVar("Value")
CLOSE: list[BindingType] = [Binding("escape", "close", "close", show=False)]
SCROLL: list[BindingType] = [
    Binding("down,j", "scroll(1)", "down", show=False),
    Binding("up,k", "scroll(-1)", "up", show=False),
    Binding("space,pagedown", "scroll(12)", "page down", show=False),
    Binding("pageup", "scroll(-12)", "page up", show=False),
]
LOOK = 0.5
"""Seconds between looks whether a sheet has changed."""


class LineWindow(ModalScreen[Value | None], Generic[Value]):
    """One line, read into a value; None when it was given up."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [*CLOSE, Binding("tab", "complete", "complete", show=False, priority=True)]

    def __init__(
        self, title: str, hint: str, read: Callable[[str], Value], value: str = "",
        complete: Callable[[str], str] | None = None,
    ) -> None:  # fmt: skip
        """``read`` turns the text into a value or raises InputError; ``complete`` lengthens it on Tab."""
        super().__init__()
        self.heading, self.hint, self.read, self.value, self.complete = title, hint, read, value, complete

    def compose(self) -> ComposeResult:
        with Vertical(classes="ask"):
            yield Static(line((self.heading, STRONG), ("   enter takes it, esc drops it", QUIET)))
            field = Input(self.value, compact=True, select_on_focus=False)
            field.cursor_blink = False
            yield field
            yield Static(line((self.hint, QUIET)), id="said")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        try:
            value = self.read(event.value.strip())
        except InputError as error:
            self.query_one("#said", Static).update(line((plain(str(error), 400), "$warm")))
            return
        self.dismiss(value)

    def action_complete(self) -> None:
        if self.complete is not None:
            field = self.query_one(Input)
            field.value = self.complete(field.value)
            field.cursor_position = len(field.value)

    def action_close(self) -> None:
        self.dismiss(None)


class Sheet(ModalScreen[None]):
    """Lines to read and scroll through; they follow what they are made of."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *CLOSE,
        Binding("q,enter", "close", "close", show=False),
        *SCROLL,
    ]

    def __init__(self, title: str, build: Callable[[int], list[Line]]) -> None:
        """``build`` makes the lines for a width."""
        super().__init__()
        self.heading, self.build = title, build
        self.shown: list[Line] = []

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="window sheet"):
            yield Static(id="sheet")
        yield Static(line((" ↑↓ scroll   esc closes", QUIET)), classes="under")

    def on_mount(self) -> None:
        self.show()
        self.set_interval(LOOK, self.show)

    def on_resize(self) -> None:
        self.call_after_refresh(self.show)

    @property
    def width(self) -> int:
        return max(20, min(self.app.size.width, 100) - 6)

    def show(self) -> None:
        """Show the lines, if they are others than before."""
        lines = self.build(self.width)
        if lines != self.shown:
            self.shown = lines
            heading = [line((self.heading, STRONG))] if self.heading else []
            self.query_one("#sheet", Static).update(joined([*heading, *lines]))

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_close(self) -> None:
        self.dismiss()
