"""What the steps with a grid share: its place, its views, jumping about, and the windows over one head."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from engine.heads import Head, HeadMap
from tui.commands import LOAD, key_of
from tui.figures import WARM, Line, joined, line
from tui.grid import HeadGrid
from tui.histogram import histogram, rate_lines
from tui.replay import Replay
from tui.screens.base import GridScreen
from tui.screens.lines import LineWindow, Sheet
from tui.selection import parse_head
from tui.views import CONTRIBUTION, TITLES, View, missing_legend

PANEL = 43
"""Columns of the panel beside a grid, its rule included."""
SIDE = 37
"""Least columns of the grid's side, for what stands below the grid."""


class HeadScreen(GridScreen):
    """A step with a grid of heads."""

    # views

    def action_view(self) -> None:
        self._view(1)

    def action_view_back(self) -> None:
        self._view(-1)

    def _view(self, step: int) -> None:
        self.state.next_view(step)
        missing = self.state.view == CONTRIBUTION and self.state.live.contributions(self.state.stage) is None
        self.surgeon.say(
            f"contribution is not measured yet: {self.key('contributions')} asks for it"
            if missing
            else f"view: {TITLES[self.state.view]}"
        )

    def show_legend(self, grid: HeadGrid, view: View) -> None:
        """The view's legend; above it which part of the heads is on the screen."""
        part, shown = grid.part(), view.legend
        if view.missing:
            shown = missing_legend(self.key("contributions"))
        self.query_one("#legend", Static).update(
            joined([line((f" {part}", WARM)) if part else line(" "), *shown]), layout=False
        )

    # about

    def cursor_moved(self) -> None:
        grids = list(self.query(HeadGrid))
        parts = [grid.first for grid in grids]
        super().cursor_moved()
        if parts != [grid.first for grid in grids]:  # the legend names what is on the screen
            self.draw_body()

    def action_jump(self) -> None:
        stock = self.chart.stock
        if stock is None:
            self.surgeon.say("no head map yet")
            return

        def jump(head: Head | None) -> None:
            if head is not None:
                self.state.cursor = head
                self.cursor_moved()

        title, hint = "Go to head", "layer and head, like 16.4"
        read = lambda text: parse_head(text, stock.n_layers, stock.n_heads)  # noqa: E731
        self.app.push_screen(LineWindow(title, hint, read), jump)

    def action_worker(self) -> None:
        if self.state.live.replaying:
            listed, opens = self.key("step-1"), self.load_key("choose")
            self.surgeon.say(f"this is a replay: {listed} goes to the list, where {opens} opens the session itself")
        else:
            super().action_worker()

    # windows

    def action_distribution(self) -> None:
        head_map = self.chart.head_map
        if head_map is None:
            self.surgeon.say("no head map yet")
            return
        self.app.push_screen(Sheet("", lambda width: distribution(head_map, width)))

    def action_attention(self) -> None:
        if self.chart.head_map is None:
            self.surgeon.say("no head map yet")
            return
        from tui.screens.attention import AttentionWindow

        self.app.push_screen(AttentionWindow(self.state, self.surgeon.ask))

    def action_contributions(self) -> None:
        live = self.state.live
        if live.chart.head_map is None:
            self.surgeon.say("no head map yet")
        elif live.chart.running:
            self.surgeon.say("a pass is running; contributions can be measured once it has ended")
        elif live.contributions(self.state.stage):
            self.state.view = CONTRIBUTION
            self.draw()
        else:
            self.state.view = CONTRIBUTION
            self.surgeon.ask("contributions")
            self.surgeon.say("each head is silenced alone; the view shows it once that is measured")

    def action_texts(self) -> None:
        from tui.screens.texts import texts_window

        self.app.push_screen(texts_window(self.state.live, self.key("generate")))

    def action_generate(self) -> None:
        if self.chart.loaded is None:
            self.surgeon.say("the patient is not loaded yet")
            return
        self.surgeon.ask("generate")
        self.surgeon.say(f"the model goes on with the prompts; {self.key('texts')} shows the texts")

    def action_stream(self) -> None:
        from tui.screens.stream import StreamWindow

        self.app.push_screen(StreamWindow(self.state, self.surgeon.ask, self.surgeon.glyphs))

    # replay

    def load_key(self, name: str) -> str:
        """The key of a command of the list of sessions."""
        return key_of(name, self.surgeon.table, LOAD)

    def status(self) -> str:
        live = self.state.live
        return live.words if isinstance(live, Replay) else super().status()

    @property
    def replay(self) -> Replay | None:
        """The replay that is shown; says so where there is none."""
        live = self.state.live
        if isinstance(live, Replay):
            return live
        self.surgeon.say(f"only a replay has a pace: {self.load_key('replay')} in the list of sessions begins one")
        return None

    def action_replay_pause(self) -> None:
        self._turn(0)

    def action_replay_faster(self) -> None:
        self._turn(1)

    def action_replay_slower(self) -> None:
        self._turn(-1)

    def _turn(self, step: int) -> None:
        replay = self.replay
        if replay is not None:
            replay.turn(step)
            self.draw()

    def action_replay_next(self) -> None:
        replay = self.replay
        if replay is not None:
            replay.skip()
            self.surgeon.look()


def distribution(map_: HeadMap, width: int) -> list[Line]:
    """Histogram and sick rates, for a window."""
    return [*histogram(map_, 6), line(" "), *rate_lines(map_, width)]


def show_lines(widget: Static, lines: list[Line]) -> None:
    """Show lines in a widget that is as high as they are many."""
    if widget.size.height != len(lines):
        widget.styles.height = len(lines)
    widget.update(joined(lines), layout=False)


def panel_width(screen: GridScreen) -> int:
    """Columns for the panel's text."""
    return screen.app.size.width - max(SIDE, screen.query_one(HeadGrid).size.width) - 2


def grid_and_panel(ascii_only: bool) -> ComposeResult:
    """The grid with its legend; beside it the head under the cursor and a panel."""
    with Horizontal(id="main"):
        with Vertical(id="side"):
            yield HeadGrid(ascii_only, id="grid")
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
