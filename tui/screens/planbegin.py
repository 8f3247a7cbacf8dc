"""What a plan needs to be told before it begins: its corpora, the texts, the device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from engine.errors import InputError
from engine.protocol import Protocol, Run, read_protocol
from tui.figures import QUIET, STRONG, line
from tui.palette import plain
from tui.paths import complete_path
from tui.plans import absolute
from tui.protocols import checked_device, checked_dtype, expanded, fields_of, given_corpora

Begin = Callable[[Protocol, list[Run], str], None]
"""Takes a protocol, its runs and a device; raises InputError where they cannot begin."""


class BeginPlan(ModalScreen[None]):
    """One line per value; Enter begins, or says what is wrong and stays."""

    AUTO_FOCUS = "Input"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "close", "close", show=False),
        Binding("down", "app.focus_next", "next", show=False),
        Binding("up", "app.focus_previous", "previous", show=False),
        Binding("tab", "complete", "complete", show=False, priority=True),
    ]

    def __init__(self, protocol: Protocol, path: Path, model: str, begin: Begin) -> None:
        super().__init__()
        self.protocol, self.path, self.model, self.begin = protocol, path, model, begin
        self.corpora = list(fields_of(protocol))
        corpus = "a file, a folder or a hub name; several are separated by ;"
        if not protocol.corpora:
            corpus += " — empty: as the plan says"
        values = fields_of(protocol)
        self.lines = [(name, values[name], corpus) for name in self.corpora]
        self.lines += [
            ("texts", protocol.texts, "a file with texts to diagnose on; empty: the built-in ones"),
            ("device", "auto", "auto, cpu or cuda:N"),
            ("dtype", protocol.dtype or "auto", "auto: as the weights are kept; bfloat16 or float32"),
        ]

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="window", id="plan", can_focus=False):
            yield Static(
                line((plain(self.protocol.title, 40), STRONG), ("   ↑↓ move, tab completes, enter begins", QUIET))
            )
            for index, (name, value, _) in enumerate(self.lines):
                with Horizontal(classes="field"):
                    yield Static(line((f" {plain(name, 13)}", QUIET)), classes="name")
                    box = Input(value, id=f"value-{index}", compact=True, select_on_focus=False)
                    box.cursor_blink = False
                    yield box
            yield Static(id="hint")

    def on_descendant_focus(self) -> None:
        at = self._at()
        if at is not None:
            self._say(self.lines[at][2], QUIET)

    def _at(self) -> int | None:
        """Index of the line that is typed into."""
        found = str(self.focused.id) if self.focused is not None else ""
        return int(found.removeprefix("value-")) if found.startswith("value-") else None

    def _say(self, text: str, style: str) -> None:
        self.query_one("#hint", Static).update(line((f" {plain(text, 400)}", style)), layout=False)

    def _value(self, index: int) -> str:
        return self.query_one(f"#value-{index}", Input).value.strip()

    def on_input_submitted(self) -> None:
        corpora = {name: self._value(index) for index, name in enumerate(self.corpora)}
        texts, device, dtype = (self._value(len(self.corpora) + i) for i in range(3))
        try:
            protocol = read_protocol(self.path, self.model)
            runs = expanded(
                protocol,
                self.model,
                corpora=given_corpora(protocol, corpora),
                dtype=checked_dtype(dtype),
                texts="" if texts == protocol.texts else absolute(texts),
            )
            self.begin(protocol, runs, checked_device(device))
        except InputError as error:
            self._say(str(error), "$warm")

    def action_complete(self) -> None:
        at = self._at()
        if at is not None and at <= len(self.corpora):  # the last source of a corpus, or the file of texts
            field = self.query_one(f"#value-{at}", Input)
            before, mark, last = field.value.rpartition(";")
            gap = " " if mark else ""
            field.value = f"{before}{mark}{gap}{complete_path(last.strip())}"
            field.cursor_position = len(field.value)

    def action_close(self) -> None:
        self.dismiss(None)
