"""From step 1: sessions side by side, figures in rows. The labels stay in sight."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.widgets import Static
from textual.worker import get_current_worker

from engine.errors import InputError
from engine.files import write_text
from engine.session import Session
from tui.commands import COMPARISON, Command, bindings_of
from tui.figures import QUIET, STRONG, WARM, Line, joined, line, paragraph
from tui.palette import fit, plain
from tui.screens.beside import BesideScreen

if TYPE_CHECKING:
    from engine.compare import Comparison
    from engine.tables import Record
    from tui.sidebyside import Table

LABEL, NARROWEST, WIDEST = 26, 12, 34
"""Columns of the labels, and what a session's column may have."""
TITLE_ROWS = 3
"""Rows that a column's name may take."""


@dataclass(frozen=True)
class Compared:
    """What is to be compared, and where that was asked for."""

    sessions: list[Session]
    title: str
    back: str
    """The screen to go back to."""
    all_passes: bool = False

    @property
    def trial(self) -> Session | None:
        """The trial that all of them belong to."""
        trials = {session.trial for session in self.sessions}
        one = trials.pop() if len(trials) == 1 else None
        return Session(one) if one is not None else None


class ComparisonScreen(BesideScreen):
    """A table that moves by whole rows and columns."""

    step = COMPARISON
    BINDINGS = bindings_of(COMPARISON)

    def __init__(self) -> None:
        super().__init__()
        self.records: list[Record] = []
        self.found: Comparison | None = None
        self.tables: list[Table] = []
        """Arms over their seeds where there are several, and each session by itself."""
        self.shown = 0
        """Which of the tables is shown."""
        self.read = 0
        """Records that are read so far."""
        self.trouble = ""
        self.first_row, self.first_column = 0, 0

    def body(self) -> ComposeResult:
        yield Static(id="table")

    @property
    def compared(self) -> Compared:
        assert self.surgeon.compared is not None
        return self.surgeon.compared

    def on_mount(self) -> None:
        super().on_mount()
        self.run_worker(self._read, thread=True, exclusive=True)

    def _read(self) -> None:
        """Records hold every head's figures, so that reading them takes a while."""
        from engine.compare import compare
        from engine.record import load
        from tui.sidebyside import of_arms, of_sessions

        worker, records = get_current_worker(), []
        try:
            for session in self.compared.sessions:
                if session.record.exists():
                    records.append(load(session))
                if worker.is_cancelled:
                    return
                self.app.call_from_thread(self._came, len(records))
            if not records:
                raise InputError("none of these has a record yet: it is written at the diagnosis")
            found = compare(records, self.compared.all_passes)
            tables = [table for table in (of_arms(records, found), of_sessions(found)) if table]
        except InputError as error:
            self.app.call_from_thread(self._failed, str(error))
            return
        if not worker.is_cancelled:
            self.app.call_from_thread(self._show, records, found, tables)

    def _came(self, read: int) -> None:
        self.read = read
        self.draw()

    def _failed(self, sentence: str) -> None:
        self.trouble = sentence
        self.draw()

    def _show(self, records: list[Record], found: Comparison, tables: list[Table]) -> None:
        self.records, self.found, self.tables = records, found, tables
        self.draw()

    # drawing

    def title_of(self) -> str:
        return plain(self.compared.title)

    def owner(self) -> Session | None:
        return self.compared.trial

    def copy_value(self) -> str:
        return " ".join(str(session.folder) for session in self.compared.sessions)

    def status(self) -> str:
        if self.trouble:
            return ""
        if not self.tables:
            return f"reading the records: {self.read} of {len(self.compared.sessions)} …"
        total, shown = len(self.table.columns), self._shown()
        missing = len(self.compared.sessions) - self.read
        parts = [f"columns {self.first_column + 1}–{self.first_column + shown} of {total}"]
        parts += [f"{missing} without a record yet"] if missing else []
        return ", ".join(parts)

    def draw_body(self) -> None:
        width, table = self.app.size.width, self.query_one("#table", Static)
        if not self.tables:
            table.update(joined([line(" "), *paragraph(self.trouble, width, WARM)]), layout=False)
            return
        top, rows = self._title_lines(), self._body_lines()
        room = self._room()
        self.first_row = max(0, min(self.first_row, len(rows) - room))
        table.update(joined([*top, *rows[self.first_row : self.first_row + room]]), layout=False)

    def _room(self) -> int:
        """Rows of the table that are in sight: header, messages, keys and names are not."""
        return max(1, self.app.size.height - 3 - len(self._title_lines()))

    @property
    def table(self) -> Table:
        return self.tables[self.shown]

    def _names(self) -> list[str]:
        """The columns' names, without what all of them begin with."""
        trial = self.compared.trial
        start = f"{trial.id}/" if trial else ""
        return [plain(name.removeprefix(start), 80) for name in self.table.columns]

    def _widths(self) -> list[int]:
        """Of every column: as wide as its figures, and wide enough for its name in a few rows."""
        widths = []
        for index, name in enumerate(self._names()):
            figures = max((cell_len(plain(cells[index])) for _, cells in self.table.rows if cells), default=0)
            words = max((cell_len(part) for part in name.split()), default=0)
            widths.append(max(NARROWEST, min(WIDEST, max(figures, -(-cell_len(name) // TITLE_ROWS), min(words, 18)))))
        return widths

    def _shown(self) -> int:
        """How many columns fit, from the first one in sight on."""
        room, count = self.app.size.width - LABEL - 1, 0
        for width in self._widths()[self.first_column :]:
            room -= width + 2
            if room < 0 and count:
                break
            count += 1
        return count

    def _title_lines(self) -> list[Line]:
        names, widths, until = self._names(), self._widths(), self.first_column + self._shown()
        wrapped = [textwrap.wrap(names[i], widths[i])[:TITLE_ROWS] or [""] for i in range(self.first_column, until)]
        height = max(map(len, wrapped), default=1)
        lines = []
        for row in range(height):
            cells = [
                fit(part[row] if row < len(part) else "", widths[self.first_column + i])
                for i, part in enumerate(wrapped)
            ]
            label = self.table.corner if row == height - 1 else ""
            lines.append(line((f" {fit(label, LABEL)}", QUIET), ("  ".join(cells), STRONG)))
        return lines

    def _body_lines(self) -> list[Line]:
        """Everything below the names: the figures, what all share, the notes."""
        width, widths, until = self.app.size.width, self._widths(), self.first_column + self._shown()
        lines = []
        for label, cells in self.table.rows:
            shown = [fit(cells[i], widths[i]) for i in range(self.first_column, until)] if cells else []
            names = textwrap.wrap(short(label), LABEL) or [""]
            lines.append(line((f" {fit(names[0], LABEL)}", QUIET if cells else STRONG), "  ".join(shown)))
            lines += [line((f"   {fit(name, LABEL - 2)}", QUIET)) for name in names[1:]]
        lines.append(line(" "))
        for label, text in self.table.common:
            parts = textwrap.wrap(plain(text, 1000), max(20, width - LABEL - 2)) or [""]
            lines += [
                line((f" {fit(label if i == 0 else '', LABEL)}", QUIET), (part, QUIET)) for i, part in enumerate(parts)
            ]
        for style, notes in (("", self.table.notes), (WARM, self.table.warnings)):
            for note in notes:
                lines += [line(" "), *paragraph(note, width, style)]
        return lines

    # keys

    def action_left(self) -> None:
        self._across(-1)

    def action_right(self) -> None:
        self._across(1)

    def _across(self, step: int) -> None:
        if self.tables and (step < 0 or self.first_column + self._shown() < len(self.table.columns)):
            self.first_column = max(0, self.first_column + step)
            self.draw()

    def action_up(self) -> None:
        self._along(-1)

    def action_down(self) -> None:
        self._along(1)

    def action_page_up(self) -> None:
        self._along(-self._page())

    def action_page_down(self) -> None:
        self._along(self._page())

    def _page(self) -> int:
        return max(1, self._room() - 1) if self.tables else 1

    def _along(self, step: int) -> None:
        if self.tables:
            self.first_row = max(0, self.first_row + step)
            self.draw()

    def idle(self) -> set[str]:
        return set() if len(self.tables) > 1 else {"seeds"}

    def label(self, command: Command) -> str:
        return "arms" if command.id == "seeds" and self.shown else command.label

    def action_seeds(self) -> None:
        if len(self.tables) > 1:
            self.shown = 1 - self.shown
            self.first_row, self.first_column = 0, 0
            self.draw()
        else:
            self.surgeon.say("no arm has several seeds here")

    def action_back(self) -> None:
        self.surgeon.go(self.compared.back)

    def action_write_table(self) -> None:
        found = self.found
        if found is None:
            self.surgeon.say("the records are still being read")
            return
        arms = self.records if len(self.tables) > 1 else []
        words = "written: {}, .csv and arms.txt" if arms else "written: {} and .csv"
        self.surgeon.write(words, lambda folder: write_comparison(folder, found, arms))


def short(label: str) -> str:
    """A figure's name, the sources in it without their folders."""
    return re.sub(r"demo:(heldout-)?|(?<= )/\S*/(?=\S)", "", plain(label, 400))


def write_comparison(folder: Path, found: Comparison, arms: list[Record]) -> Path:
    """Write a comparison as Markdown and, beside it, as CSV, and arms over their seeds as text; those written
    before are replaced.

    Returns:
        The path of the Markdown.
    """
    from engine.compare import compare_csv, compare_markdown

    path = folder / "comparison.md"
    write_text(path, compare_markdown(found))
    write_text(folder / "comparison.csv", compare_csv(found))
    if arms:
        from engine.show_arms import arms_text

        write_text(folder / "arms.txt", arms_text(arms) + "\n")
    return path
