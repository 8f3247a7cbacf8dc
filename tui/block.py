"""A block of lines of which only those are drawn again that have changed."""

from __future__ import annotations

from textual.content import Content
from textual.events import Resize
from textual.geometry import Region
from textual.strip import Strip
from textual.visual import Visual
from textual.widget import Widget


class Block(Widget):
    """Like Textual's Static, which draws all of its lines anew for one: a plot of 60 lines then halts keys."""

    DEFAULT_CSS = "Block { text-wrap: nowrap; text-overflow: ellipsis; }"

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.lines: list[Content] = []
        self.strips: dict[int, Strip] = {}

    def update(self, content: Content) -> None:
        """Show these lines."""
        before, self.lines = self.lines, list(content.split("\n", allow_blank=True))
        longer = max(len(before), len(self.lines))
        changed = [
            row
            for row in range(longer)
            if row >= len(before) or row >= len(self.lines) or not self.lines[row].is_same(before[row])
        ]
        for row in changed:
            self.strips.pop(row, None)
        if changed:
            self.refresh(*(Region(0, row, self.size.width, 1) for row in changed))

    def on_resize(self, event: Resize) -> None:
        self.strips.clear()
        self.refresh()

    def notify_style_update(self) -> None:
        self.strips.clear()
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        strip = self.strips.get(y)
        if strip is None:
            line = self.lines[y] if y < len(self.lines) else Content("")
            (strip, *_) = Visual.to_strips(self, line, self.size.width, 1, self.visual_style, pad=True)
            self.strips[y] = strip
        return strip
