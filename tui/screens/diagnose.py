"""Step 2: the head map."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from engine.heads import HeadMap
from tui.commands import DIAGNOSE, bindings_of
from tui.figures import QUIET, Line, amount, counts, head_figures, head_title, joined, legend, line, row, rule
from tui.grid import HeadGrid
from tui.palette import glyphs, plain
from tui.screens.base import GridScreen

PANEL = 43
"""Columns of the panel beside a grid, its rule included."""
SIDE = 37
"""Least columns of the grid's side, for what stands below the grid."""


class DiagnoseScreen(GridScreen):
    """The grid, the figures of one head, and the counts."""

    step = DIAGNOSE
    BINDINGS = bindings_of(DIAGNOSE)

    def __init__(self) -> None:
        super().__init__()
        self.counted: HeadMap | None = None
        self.counts: list[Line] = []
        """The counts of the map ``counted``; on a large model they take long."""

    def body(self) -> ComposeResult:
        yield from grid_and_panel()

    def draw_body(self) -> None:
        chart = self.chart
        grid, panel = self.query_one(HeadGrid), self.query_one("#panel", Static)
        head_map = chart.head_map
        if head_map is None:
            panel.update(self._waiting(), layout=False)
            return
        grid.show(head_map.bos_mass, {}, self.state.cursor)
        width = place(self, grid, 7)
        self.draw_head()
        if self.counted is not head_map:
            self.counted = head_map
            self.counts = counts(head_map)
        lines = [rule(width), *self.counts, rule(width), *self._patient(width)]
        panel.update(joined(lines), layout=False)
        self.query_one("#legend", Static).update(joined(legend(head_map)), layout=False)

    def idle(self) -> set[str]:
        return set() if self.chart.stock else {"next_sick", "forward"}

    def draw_head(self) -> None:
        head_map, cursor = self.chart.head_map, self.state.cursor
        if head_map is not None:
            width = panel_width(self)
            lines = [head_title(cursor, head_map), *head_figures(cursor, head_map, self.chart.loaded, width)]
            show_lines(self.query_one("#head", Static), lines)

    def _patient(self, width: int) -> list[Line]:
        loaded = self.chart.loaded
        if loaded is None:
            return []
        standing = self.chart.standing
        shown = f"after pass {standing[-1].number}" if standing else "stock"
        return [
            row("model", plain(loaded.source, width - 14)),
            row("family", f"{loaded.family}, {loaded.position_encoding}"),
            row("size", f"{amount(loaded.parameters)} parameters, {loaded.d_model} wide"),
            row("map", shown),
        ]

    def _waiting(self) -> Line:
        live, chart = self.state.live, self.chart
        if chart.failed:
            return line((f"\n {plain(chart.message, 400)}", "$warm"), ("\n\n esc goes back", QUIET))
        return line((f"\n {self.status() or 'waiting for the worker …'}", QUIET), f"\n\n {live.session.id}")


def show_lines(widget: Static, lines: list[Line]) -> None:
    """Show lines in a widget that is as high as they are many."""
    if widget.size.height != len(lines):
        widget.styles.height = len(lines)
    widget.update(joined(lines), layout=False)


def panel_width(screen: GridScreen) -> int:
    """Columns for the panel's text."""
    return screen.app.size.width - max(SIDE, screen.query_one(HeadGrid).size.width) - 2


def grid_and_panel() -> ComposeResult:
    """The grid with its legend; beside it the head under the cursor and a panel."""
    with Horizontal(id="main"):
        with Vertical(id="side"):
            yield HeadGrid(glyphs() == "ascii", id="grid")
            yield Static(id="legend")
        with Vertical(id="beside"):
            yield Static(id="head")
            yield Static(id="panel")


def place(screen: GridScreen, grid: HeadGrid, other_rows: int) -> int:
    """Give the grid the columns and rows that it needs, ``other_rows`` of the screen being taken.

    Returns:
        The columns left for the panel's text.
    """
    size = screen.app.size
    room = max(SIDE, size.width - PANEL)
    columns, rows = grid.width_for(room), grid.rows_for(room, size.height - other_rows)
    side = max(SIDE, columns)
    if grid.size != (columns, rows) or screen.query_one("#side").size.width != side:
        grid.styles.width, grid.styles.height = columns, rows
        screen.query_one("#side").styles.width = side
    return size.width - side - 2
