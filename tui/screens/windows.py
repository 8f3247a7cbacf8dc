"""Small windows over a step: help, the palette, a question, a line of text, the files."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from tui.commands import Command
from tui.figures import QUIET, STRONG, joined, line
from tui.help import page
from tui.palette import plain
from tui.screens.lines import CLOSE, SCROLL


class Help(ModalScreen[None]):
    """What a step shows, and its keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *CLOSE,
        Binding("question_mark,q,enter", "close", "close", show=False),
        *SCROLL,
    ]

    def __init__(self, step: str, commands: list[Command]) -> None:
        super().__init__()
        self.step = step
        self.commands = [command for command in commands if command.keys]

    def compose(self) -> ComposeResult:
        title, text = page(self.step, self.commands)
        lines = [line((f"{title}\n", STRONG)), Content(f"{text}\n"), line(("Keys\n", STRONG))]
        lines += [line((f"{c.display:<10}", "$cold bold"), c.help) for c in self.commands]
        with VerticalScroll(classes="window"):
            yield Static(joined(lines))
        yield Static(line((" ↑↓ scroll   esc closes", QUIET)), classes="under")

    def action_scroll(self, lines: int) -> None:
        self.query_one(VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_close(self) -> None:
        self.dismiss()


class Palette(ModalScreen[Command | None]):
    """Find a command by a part of its name."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        *CLOSE,
        Binding("down", "move(1)", "down", show=False),
        Binding("up", "move(-1)", "up", show=False),
    ]

    def __init__(self, commands: list[Command]) -> None:
        super().__init__()
        self.commands = [c for c in commands if c.id not in ("palette", "left", "right", "up", "down")]
        self.found = self.commands

    def compose(self) -> ComposeResult:
        with Vertical(classes="window"):
            field = Input(placeholder="part of a command's name", compact=True)
            field.cursor_blink = False
            yield field
            yield OptionList(compact=True, markup=False)

    def on_mount(self) -> None:
        self.query_one(OptionList).can_focus = False
        self._list("")

    def _list(self, text: str) -> None:
        words = text.lower().split()
        self.found = [c for c in self.commands if all(w in f"{c.label} {c.help}".lower() for w in words)]
        options = self.query_one(OptionList)
        options.clear_options()
        options.add_options(Option(line((f"{c.display:<9}", "$cold bold"), c.help)) for c in self.found)
        options.highlighted = 0 if self.found else None

    def on_input_changed(self, event: Input.Changed) -> None:
        self._list(event.value)

    def on_input_submitted(self) -> None:
        chosen = self.query_one(OptionList).highlighted
        self.dismiss(None if chosen is None else self.found[chosen])

    def action_move(self, step: int) -> None:
        options = self.query_one(OptionList)
        if self.found:
            options.highlighted = ((options.highlighted or 0) + step) % len(self.found)

    def action_close(self) -> None:
        self.dismiss(None)


class Ask(ModalScreen[bool]):
    """A question that y or n answers."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "answer(True)", "yes", show=False),
        Binding("n,escape", "answer(False)", "no", show=False),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self.question = question

    def compose(self) -> ComposeResult:
        yield Static(
            line(plain(self.question, 600), "\n\n", ("y", "$cold bold"), " yes   ", ("n", "$cold bold"), " no"),
            classes="ask",
        )

    def action_answer(self, answer: bool) -> None:
        self.dismiss(answer)


class NoteLine(ModalScreen[str]):
    """One line of text; empty when it was given up."""

    AUTO_FOCUS = "Input"
    BINDINGS = CLOSE

    def __init__(self, title: str) -> None:
        super().__init__()
        self.heading = title

    def compose(self) -> ComposeResult:
        with Vertical(classes="ask"):
            yield Static(line((self.heading, STRONG), ("   enter writes it, esc drops it", QUIET)))
            field = Input(compact=True)
            field.cursor_blink = False
            yield field

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())

    def action_close(self) -> None:
        self.dismiss("")


class Files(ModalScreen[bool]):
    """Where the files of a session are. Its result: whether the folder's path is to be copied."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *CLOSE,
        Binding("f,q,enter", "close", "close", show=False),
        Binding("y", "copy", "copy", show=False),
    ]

    def __init__(self, files: list[tuple[str, str]]) -> None:
        super().__init__()
        self.files = files

    def compose(self) -> ComposeResult:
        lines = [line(("Files of this session\n", STRONG))]
        for name, path in self.files:
            lines += [line((name, QUIET)), Content(f"  {plain(path, 4096)}")]
        with VerticalScroll(classes="window"):
            yield Static(joined(lines))
        yield Static(line((" y copies the folder's path   esc closes", QUIET)), classes="under")

    def action_copy(self) -> None:
        self.dismiss(True)

    def action_close(self) -> None:
        self.dismiss(False)


class TooSmall(ModalScreen[None]):
    """Shown as long as the terminal is smaller than the steps need."""

    def compose(self) -> ComposeResult:
        yield Static(classes="small")

    def on_mount(self) -> None:
        self.on_resize()

    def on_resize(self) -> None:
        width, height = self.app.size
        text = f"headsurgeon needs 80×24 and this terminal is {width}×{height}. Make it larger; nothing is lost."
        self.query_one(Static).update(Content(text))
