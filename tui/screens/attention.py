"""The attention of one head on a chosen text: which tokens look where."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from engine.events import Attention
from tui.attention import picture, text_lines
from tui.figures import QUIET, STRONG, WARM, Line, head_title, joined, line
from tui.palette import plain
from tui.screens.lines import CLOSE, LOOK, SCROLL
from tui.state import State

NARROW, WIDE = 25, 38
"""Columns of the list of texts, in a small and in a large terminal."""


class AttentionWindow(ModalScreen[None]):
    """The texts with the head's mass on each at the left, the picture of the chosen one at the right."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *CLOSE,
        Binding("q,A", "close", "close", show=False),
        Binding("left,h,p", "text(-1)", "text before", show=False),
        Binding("right,l,n", "text(1)", "next text", show=False),
        Binding("enter,m", "measure", "measure", show=False),
        *SCROLL,
    ]

    def __init__(self, state: State, ask: Callable[..., None]) -> None:
        """``ask`` asks the worker for something, or first whether to start one."""
        super().__init__()
        self.state, self.ask = state, ask
        self.shown: list[list[Line]] = []
        self.said = ""

    def compose(self) -> ComposeResult:
        with Vertical(classes="window whole"):
            yield Static(id="attention-title")
            with Horizontal():
                with VerticalScroll(id="attention-texts"):
                    yield Static(id="texts")
                with VerticalScroll(id="attention-picture"):
                    yield Static(id="picture")
        yield Static(
            line((" ←→ text   enter measures it   ↑↓ scroll   esc closes", QUIET)), classes="under whole-under"
        )

    def on_mount(self) -> None:
        self.show()
        self.set_interval(LOOK, self.show)

    def on_resize(self) -> None:
        self.call_after_refresh(self.show)

    @property
    def found(self) -> Attention | None:
        """What was measured of this head on this text."""
        state, head = self.state, self.state.cursor
        map_ = state.live.chart.head_map
        name = map_.texts[state.text].name if map_ and state.text < len(map_.texts) else ""
        return state.live.attention.get((head.layer, head.head, name))

    @property
    def fresh(self) -> bool:
        """What is shown was measured on the model as it stands."""
        return self.found is not None and self.found.stage == self.state.stage

    def show(self) -> None:
        """Show what is known now, if it is more than before."""
        map_, state = self.state.live.chart.head_map, self.state
        if map_ is None:
            return
        state.text = min(state.text, max(0, len(map_.texts) - 1))
        listed = NARROW if self.app.size.width < 100 else WIDE
        width = self.app.size.width - listed - 7
        texts = text_lines(state.cursor, map_, listed, state.text)
        found = self.found
        drawn = picture(found, width) if found is not None else self._missing()
        self.query_one("#attention-texts").styles.width = listed + 1
        title = [head_title(state.cursor, map_)]
        if found is not None:
            again = "" if self.fresh else "; enter measures it anew"
            title = [
                Content.assemble(
                    title[0], (f"   on {plain(found.text, 20)}, measured on {plain(found.stage, 12)}{again}", QUIET)
                )
            ]
        shown = [title, texts or [line((" no figures per text were kept", QUIET))], drawn]
        if shown != self.shown:
            self.shown = shown
            for name, lines in zip(("#attention-title", "#texts", "#picture"), shown, strict=True):
                self.query_one(name, Static).update(joined(lines))

    def _missing(self) -> list[Line]:
        map_ = self.state.live.chart.head_map
        name = plain(map_.texts[self.state.text].name, 40) if map_ and map_.texts else ""
        return [
            line((f" {name}", STRONG)),
            line((" not measured yet: enter asks the worker", QUIET)),
            line((f" {self.said}", WARM)),
        ]

    # keys

    def action_text(self, step: int) -> None:
        map_ = self.state.live.chart.head_map
        if map_ is not None and map_.texts:
            self.state.text = (self.state.text + step) % len(map_.texts)
            self.said = ""
            self.query_one("#attention-picture", VerticalScroll).scroll_home(animate=False)
            self.query_one("#attention-texts", VerticalScroll).scroll_to(y=max(0, self.state.text - 5), animate=False)
            self.show()

    def action_measure(self) -> None:
        live, head = self.state.live, self.state.cursor
        if self.fresh:
            return
        if live.replaying:
            self.said = "a replay shows only what was measured then"
        else:
            self.ask("attention", layer=head.layer, head=head.head, text=self.state.text)
            self.said = "asked …"
        self.show()

    def action_scroll(self, lines: int) -> None:
        self.query_one("#attention-picture", VerticalScroll).scroll_relative(y=lines, animate=False)

    def action_close(self) -> None:
        self.dismiss()
