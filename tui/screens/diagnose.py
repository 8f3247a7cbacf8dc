"""Step 2: the head map."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from subprocess import TimeoutExpired

from textual.app import ComposeResult
from textual.content import Content
from textual.widgets import Static

from engine.heads import Head, HeadMap
from tui.attention import text_lines
from tui.commands import DIAGNOSE, LOAD, TARGET, bindings_of
from tui.figures import QUIET, STRONG, Line, amount, counts, head_figures, head_title, joined, line, row, rule
from tui.grid import HeadGrid
from tui.histogram import histogram, rate_lines
from tui.palette import plain
from tui.screens.heads import HeadScreen, grid_and_panel, panel_width, place, show_lines
from tui.views import TITLES, value_of

REST = 0.5
"""Seconds that the cursor must stay on a head."""
TEXT = 26
"""Columns for one text's figures."""


class DiagnoseScreen(HeadScreen):
    """The grid, the figures of one head, and the counts."""

    step = DIAGNOSE
    BINDINGS = bindings_of(DIAGNOSE)

    def __init__(self) -> None:
        super().__init__()
        self.counted: HeadMap | None = None
        self.counts: list[Line] = []
        """The counts of the map ``counted``; on a large model they take long."""
        self.histogram: list[Line] = []
        self.rates: list[Line] = []
        """Of the same map, shown where there is room."""
        self.moves = 0
        """Moves of the cursor so far."""
        self.rested = Head(0, 0)
        """Where the cursor stayed for a while: the head whose mass on each text is shown."""
        self.rates_width = 0

    def body(self) -> ComposeResult:
        yield from grid_and_panel(self.surgeon.ascii_only)

    def draw_body(self) -> None:
        chart = self.chart
        grid, panel = self.query_one(HeadGrid), self.query_one("#panel", Static)
        head_map = chart.head_map
        if head_map is None:
            panel.update(self._waiting(), layout=False)
            return
        view = self.state.view_of(head_map.bos_mass, head_map, self.state.stage)
        grid.show(view, {}, self.state.cursor)
        height = self.app.size.height
        tall = view.signs is not None and height - 7 <= head_map.n_layers < height - 3
        self.query_one("#legend").display = not tall  # then it stands in the panel, so that the grid is whole
        width = place(self, grid, 3 if tall else 7)
        if not self.moves:
            self.rested = self.state.cursor
        self.draw_head()
        if self.counted is not head_map or self.rates_width != width:
            self.counted, self.rates_width = head_map, width
            self.counts = counts(head_map)
            self.histogram, self.rates = histogram(head_map, 4), rate_lines(head_map, min(width, 76))
        lines = [rule(width), *self.counts, rule(width), *self._patient(width)]
        room = self.app.size.height - 3 - len(self.head_lines) - len(lines)
        for shown in (self.histogram + self.rates, self.rates, self.histogram):
            if shown and width >= 62 and room > len(shown):
                lines += [rule(width), *shown]
                break
        if tall:
            lines += [rule(width), *view.legend]
        panel.update(joined(lines), layout=False)
        self.show_legend(grid, view)

    def idle(self) -> set[str]:
        return set() if self.chart.stock else {"next_sick", "forward"}

    def draw_head(self) -> None:
        if self.chart.head_map is not None:
            show_lines(self.query_one("#head", Static), self.head_lines)

    @property
    def head_lines(self) -> list[Line]:
        """The figures of the cursor's head; with its mass on each text where there is room."""
        head_map, state = self.chart.head_map, self.state
        if head_map is None:
            return []
        cursor, width = state.cursor, panel_width(self)
        value = value_of(
            state.view, cursor, head_map.bos_mass, self.chart.stock or head_map, state.live.contributions(state.stage)
        )
        lines = [head_title(cursor, head_map), *head_figures(cursor, head_map, self.chart.loaded, width, value)]
        if self.app.size.height >= 40 and head_map.by_text:
            columns = max(1, width // TEXT)
            texts = text_lines(self.rested, head_map, TEXT - 1)
            rows = -(-len(texts) // columns)
            if rows <= self.app.size.height - 24:
                lines.append(row("each text", (f"tokens and BOS mass of {self.rested}", QUIET)))
                lines += [Content(" ").join(texts[index::rows]) for index in range(rows)]
        return lines

    def cursor_moved(self) -> None:
        super().cursor_moved()
        self.moves += 1
        if self.app.size.height >= 40:
            self.set_timer(REST, lambda number=self.moves: self._rest(number))

    def _rest(self, number: int) -> None:
        """The cursor has stayed where it is: only now its many figures per text are sent."""
        if number == self.moves and self.rested != self.state.cursor:
            self.rested = self.state.cursor
            self.draw_head()

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
            *([row("weights", plain(loaded.stored, width - 14))] if loaded.stored else []),
            row("map", shown, (f"   view: {TITLES[self.state.view]}", QUIET)),
        ]

    def _waiting(self) -> Line:
        live, chart = self.state.live, self.chart
        if chart.failed:
            return line((f"\n {plain(chart.message, 400)}", "$warm"), (f"\n\n {self.key('back')} goes back", QUIET))
        status = self.status() or "waiting for the worker …"
        cancel = f"\n\n {self.key('back')} cancels the loading and drops the session" if self.cancellable else ""
        return line((f"\n {status}", STRONG), (f"\n\n {plain(live.session.id)}{cancel}", QUIET))

    # keys

    @property
    def cancellable(self) -> bool:
        """The patient of a session that was begun just now is still being loaded or diagnosed."""
        live = self.state.live
        return live.session == self.surgeon.begun and live.process is not None and self.chart.stock is None

    def action_back(self) -> None:
        if self.surgeon.state is not None and self.cancellable:
            self.app.run_worker(self._cancel(), exclusive=True)
        else:
            super().action_back()

    async def _cancel(self) -> None:
        """End the worker, drop the session, and go back to the list."""
        live, self.surgeon.state = self.state.live, None
        self.surgeon.notice = ("cancelling …", "")
        self.surgeon.go(LOAD)
        with suppress(OSError, TimeoutExpired):
            await asyncio.to_thread(live.cancel)
        self.surgeon.say("cancelled; the session was dropped")

    def action_block(self) -> None:
        """Begin a block of targets here, and go on to the step that takes it."""
        if self.chart.head_map is not None:
            self.state.corner = self.state.cursor
            self.surgeon.go(TARGET)
