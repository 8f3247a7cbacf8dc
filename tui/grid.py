"""The grid of heads: one colour per level of a view, signs, pinned labels, a cursor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Region, Size
from textual.strip import Strip
from textual.widget import Widget

from engine.heads import Head
from tui.palette import CURSOR, LEVELS, WHITE, ink
from tui.views import View

TARGET, WOKEN = "target", "woken"
Marks = Mapping[Head, str]
"""Head -> ``TARGET`` or ``WOKEN``"""

# Where two layers share a row, a raised sign means the upper layer, a lowered one the lower, a plain one both.
_SIGNS = {TARGET: ("×", "ˣ", "ₓ"), WOKEN: ("o", "°", "ₒ")}
_ASCII = {TARGET: ("x", "'", ","), WOKEN: ("o", "`", ".")}
HALF = "▀"
LARGE = 40
"""Columns that a grid of the largest cells may take."""


@dataclass(frozen=True)
class Pitch:
    """How heads map to cells."""

    columns: int
    """Columns per head: 4, 2 or 1."""
    layers: int
    """Layers per row: 1, or 2 in half blocks."""
    rows: int = 1
    """Rows per layer: 1, or 2 where a small model leaves room."""


def choose_pitch(
    n_layers: int, n_heads: int, columns: int, rows: int, halves: bool = True, signs: bool = False
) -> Pitch:
    """The largest cells that fit; half blocks where the layers do not fit otherwise.

    Args:
        halves: two layers may share a row.
        signs: every head has a sign of its own, so two layers share a row only side by side.
    """
    limits = {4: min(columns, LARGE), 2: columns}
    wide = next((pitch for pitch, limit in limits.items() if n_heads * pitch <= limit), 1)
    if wide == 4 and 2 * n_layers <= rows:
        return Pitch(4, 1, 2)
    return Pitch(wide, 2 if halves and n_layers > rows and (wide > 1 or not signs) else 1)


def pane(first: int, at: int, shown: int, total: int) -> int:
    """The first of ``shown`` rows or columns such that ``at`` is among them. It moves by whole panes, so that
    a cursor key rarely redraws the grid."""
    if shown >= total:
        return 0
    if not first <= at < first + shown:
        stride = max(1, shown // 8 * 8 or shown)
        first = at // stride * stride
    return max(0, min(first, total - shown))


class HeadGrid(Widget):
    """Shows a view. Not focusable: the screen's keys move the cursor."""

    DEFAULT_CSS = "HeadGrid { width: auto; height: 1fr; }"

    def __init__(self, ascii_only: bool = False, crosshair: bool = True, id: str | None = None) -> None:
        super().__init__(id=id)
        self.crosshair = crosshair
        """Mark the cursor's row and column in the labels; the second of two grids can do without."""
        self.view: View | None = None
        self.marks: Marks = {}
        self.cursor = Head(0, 0)
        self.pitch = Pitch(2, 1)
        self.cursor_colour = CURSOR
        self.first = Head(0, 0)
        """The head at the top left where the grid does not fit."""
        self.ascii_only = ascii_only
        self.signs = _ASCII if ascii_only else _SIGNS
        self.strips: dict[int, Strip] = {}
        self.base: Style | None = None
        self.styles_of: dict[tuple[int | None, int | None], Style] = {}
        """(front, back) -> style"""

    @property
    def n_layers(self) -> int:
        return len(self.view.levels) if self.view else 0

    @property
    def n_heads(self) -> int:
        return len(self.view.levels[0]) if self.view and self.view.levels else 0

    @property
    def label_width(self) -> int:
        return len(f" L{max(0, self.n_layers - 1)} ")

    def width_for(self, room: int) -> int:
        """Columns that the grid takes where ``room`` are free."""
        pitch = self._pitch(room, 1)
        return min(room, self.label_width + self.n_heads * pitch.columns)

    def rows_for(self, columns: int, room: int) -> int:
        """Rows that the grid takes, labels included, where ``columns`` and ``room`` rows are free."""
        pitch = self._pitch(columns, room)
        return min(room, 1 + -(-self.n_layers // pitch.layers) * pitch.rows)

    def _pitch(self, columns: int, rows: int) -> Pitch:
        """The pitch in a widget of ``columns`` × ``rows``."""
        signs = self.view is not None and self.view.signs is not None
        room = columns - self.label_width
        return choose_pitch(self.n_layers, self.n_heads, room, rows - 1, signs or not self.ascii_only, signs)

    def show(self, view: View, marks: Marks, cursor: Head) -> None:
        """Show a view; nothing is drawn where nothing changed."""
        if view is self.view and marks == self.marks:
            self.move_to(cursor)
            return
        self.view, self.marks, self.cursor = view, marks, cursor
        self._fit()
        self.refresh()

    def move_to(self, head: Head) -> None:
        """Move the cursor; only the rows it leaves and enters are drawn again."""
        if head == self.cursor:
            return
        old, self.cursor = self.cursor, head
        if self._scroll_to_cursor():
            self.strips.clear()
            self.refresh()
            return
        width, height = self.size.width, self.pitch.rows
        for top, rows in ((0, 1), (self._row(old), height), (self._row(head), height)):
            for row in range(top, top + rows):
                self.strips.pop(row, None)
            self.refresh(Region(0, top, width, rows))

    def on_mount(self) -> None:
        if self.app.no_color:  # the cursor's own colour would be one more grey of the ramp
            self.cursor_colour = WHITE

    def on_resize(self, event: events.Resize) -> None:
        self._fit()
        self.refresh()

    def notify_style_update(self) -> None:
        self.strips.clear()
        self.styles_of.clear()
        self.base = None
        super().notify_style_update()

    def _fit(self) -> None:
        self.strips.clear()
        self.pitch = self._pitch(*self.size)
        self._scroll_to_cursor()

    def _room(self) -> Size:
        """Columns and rows for heads."""
        return Size(max(0, self.size.width - self.label_width), max(0, self.size.height - 1))

    def _visible(self) -> Head:
        """How many layers and heads fit."""
        columns, rows = self._room()
        return Head(max(1, rows // self.pitch.rows) * self.pitch.layers, max(1, columns // self.pitch.columns))

    def _scroll_to_cursor(self) -> bool:
        visible, step, first = self._visible(), self.pitch.layers, self.first
        layer = pane(first.layer, self.cursor.layer, visible.layer, self.n_layers + self.n_layers % step)
        head = pane(first.head, self.cursor.head, visible.head, self.n_heads)
        self.first = Head(-(-layer // step) * step, head)
        return self.first != first

    def part(self) -> str:
        """Which part is on the screen; empty where all of it is."""
        first, shown = self.first, self._visible()
        last = Head(min(self.n_layers, first.layer + shown.layer) - 1, min(self.n_heads, first.head + shown.head) - 1)
        if first == (0, 0) and last == (self.n_layers - 1, self.n_heads - 1):
            return ""
        return f"L{first.layer}-{last.layer} of {self.n_layers}, H{first.head}-{last.head} of {self.n_heads}"

    def _row(self, head: Head) -> int:
        """The first row of a head."""
        return 1 + (head.layer - self.first.layer) // self.pitch.layers * self.pitch.rows

    def render_line(self, y: int) -> Strip:
        if self.base is None:  # asking Textual for it takes long
            self.base = self.rich_style
        strip = self.strips.get(y)
        if strip is None:
            strip = self.strips[y] = self._header() if y == 0 else self._heads(y)
        return strip.adjust_cell_length(self.size.width, self.base)

    def _label(self, text: str, current: bool) -> Segment:
        assert self.base is not None
        return Segment(text, self.base + Style(reverse=True) if current else self.base)

    def _header(self) -> Strip:
        """Head indices, every fourth, and always that of the cursor."""
        if self.view is None:
            return Strip([])
        pitch, shown = self.pitch.columns, self._visible().head
        last = min(self.n_heads, self.first.head + shown)
        every = 4 if len(f"H{self.n_heads}") <= 4 * pitch - 1 else 8
        signs = [" "] * (shown * pitch + 4)
        for head in range(self.first.head, last):
            if head % every == 0:
                at = (head - self.first.head) * pitch
                signs[at : at + len(f"H{head}")] = f"H{head}"
        text = "".join(signs)
        more = self.first.head > 0 or last < self.n_heads or self._visible().layer < self.n_layers
        corner = f"{' …' if more else '':<{self.label_width}}"
        if not self.crosshair:
            return Strip([self._label(corner + text, False)]).crop(0, self.size.width)
        own = f"H{self.cursor.head}"
        at = (self.cursor.head - self.first.head) * pitch
        at = max(0, min(at, self._room().width - len(own)))
        after = at + len(own)
        if text[after : after + 1] != " ":  # a label cut in half would read as another number
            cut = len(text[after:]) - len(text[after:].lstrip("H0123456789"))
            text = text[:after] + " " * cut + text[after + cut :]
        before = text[:at]
        if before and before[-1] != " ":
            before = before.rstrip("H0123456789").ljust(at)
        return Strip(
            [
                self._label(corner + before, False),
                self._label(own, True),
                self._label(text[after:], False),
            ]
        ).crop(0, self.size.width)

    def _heads(self, y: int) -> Strip:
        """One row: one layer, or two in half blocks."""
        step = self.pitch.layers
        row, below = divmod(y - 1, self.pitch.rows)
        layer = self.first.layer + row * step
        if layer >= self.n_layers:
            return Strip([])
        current = self.crosshair and layer <= self.cursor.layer < layer + step
        name = "" if below else f"L{self.cursor.layer if current else layer}"
        segments = [
            self._label(" ", False),
            self._label(name, current),
            self._label(" " * (self.label_width - 1 - len(name)), False),
        ]
        assert self.base is not None
        run, style = "", self.base
        for head in range(self.first.head, min(self.n_heads, self.first.head + self._visible().head)):
            for sign, back, front in self._cells(layer, head, bool(below)):
                wanted = self._style(front, back)
                if wanted is not style and run:
                    segments.append(Segment(run, style))
                    run = ""
                style = wanted
                run += sign
        segments.append(Segment(run, style))
        return Strip(segments)

    def _cells(self, layer: int, head: int, below: bool) -> list[tuple[str, int | None, int | None]]:
        """(sign, back, front) of each column of one head; ``below``: of its second row."""
        assert self.view is not None
        if self.pitch.layers == 1:
            return self._single(layer, head, below)
        if self.view.signs is not None:
            return self._side_by_side(layer, head)
        levels = self.view.levels
        upper = levels[layer][head]
        at_cursor = self.cursor.head == head and layer <= self.cursor.layer < layer + self.pitch.layers
        lower = levels[layer + 1][head] if layer + 1 < self.n_layers else None
        colours: list[int | None] = [LEVELS[upper], None if lower is None else LEVELS[lower]]
        if at_cursor:
            colours[self.cursor.layer - layer] = self.cursor_colour
        half: tuple[str, int | None, int | None] = (HALF, colours[1], colours[0])
        if colours[0] == colours[1]:
            half = (" ", colours[1], None)
        marks = self.marks.get(Head(layer, head)), self.marks.get(Head(layer + 1, head))
        sign = self._sign(*marks)
        signed = half if not sign else (sign, *self._under(marks, upper, lower))
        if self.pitch.columns == 1:
            return [half if at_cursor else signed]
        return [half] * (self.pitch.columns - 1) + [signed]

    def _single(self, layer: int, head: int, below: bool) -> list[tuple[str, int | None, int | None]]:
        """One layer to a row: brackets around the cursor, then the mark, or the view's own sign."""
        at_cursor = self.cursor == (layer, head)
        back, front = self._colours(layer, head)
        signs = [" "] * self.pitch.columns
        if at_cursor and self.pitch.columns > 1:
            signs[0], signs[-1] = "[", "]"
        sign = self._own(layer, head)
        if sign != " " and not below:
            signs[min(1, self.pitch.columns - 1)] = sign
        return [(sign, back, front) for sign in signs]

    def _side_by_side(self, layer: int, head: int) -> list[tuple[str, int | None, int | None]]:
        """Two layers to a row, each with a sign: the upper one at the left."""
        half = self.pitch.columns // 2
        cells: list[tuple[str, int | None, int | None]] = []
        for own, columns in ((layer, half), (layer + 1, self.pitch.columns - half)):
            if own < self.n_layers:
                back, front = self._colours(own, head)
                cells += [(self._own(own, head), back, front), *[(" ", back, front)] * (columns - 1)]
            else:
                cells += [(" ", None, None)] * columns
        return cells

    def _colours(self, layer: int, head: int) -> tuple[int, int]:
        """Back and front of a head that has its columns for itself."""
        assert self.view is not None
        if self.cursor == (layer, head):
            return self.cursor_colour, ink(4)
        found = self.view.levels[layer][head]
        return LEVELS[found], ink(found)

    def _own(self, layer: int, head: int) -> str:
        """The sign of a head that has its columns for itself: its mark, or the view's."""
        mark = self.marks.get(Head(layer, head))
        if mark is not None:
            return self.signs[mark][0]
        assert self.view is not None
        return self.view.signs[layer][head] if self.view.signs is not None else " "

    def _under(self, marks: tuple[str | None, str | None], upper: int, lower: int | None) -> tuple[int, int]:
        """Back and front of a sign on two layers: the colour of the layer it speaks of, the sicker of both."""
        kind = TARGET if TARGET in marks else WOKEN
        levels = [one for one, mark in zip((upper, lower), marks, strict=True) if one is not None and mark == kind]
        return LEVELS[max(levels)], ink(max(levels))

    def _sign(self, upper: str | None, lower: str | None) -> str:
        kind = TARGET if TARGET in (upper, lower) else WOKEN
        plain, raised, lowered = self.signs[kind]
        if upper == kind and lower == kind:
            return plain
        return raised if upper == kind else lowered if lower == kind else ""

    def _style(self, front: int | None, back: int | None) -> Style:
        found = self.styles_of.get((front, back))
        if found is None:
            assert self.base is not None
            own = Style(
                color=None if front is None else Color.from_ansi(front),
                bgcolor=None if back is None else Color.from_ansi(back),
            )
            found = self.styles_of[front, back] = self.base + own
        return found
