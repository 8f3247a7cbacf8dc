"""Sends only the cells that changed.

Textual resends a changed row from its widget's left edge; over SSH that makes a cursor key in a coloured
grid cost kilobytes. Here the terminal's cells are remembered and compared, so a key costs what it changes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, NamedTuple, TypeVar

from rich.cells import cell_len
from rich.color import Color, ColorSystem
from rich.console import RenderableType
from rich.style import Style
from textual._compositor import ChopsUpdate, LayoutUpdate
from textual.app import App
from textual.screen import Screen
from textual.strip import Strip

from tui.palette import SIXTEEN, ascii_of

Result = TypeVar("Result")
Piece = tuple[int, int, Strip]
"""(row, column, what stands there)"""

_SYSTEMS = {"standard": ColorSystem.STANDARD, "256": ColorSystem.EIGHT_BIT, "truecolor": ColorSystem.EIGHT_BIT}


class Look(NamedTuple):
    """A style as the numbers of an SGR sequence."""

    attributes: str
    front: str
    back: str

    @property
    def marks(self) -> bool:
        """Shows on a space too: underlined, blinking, reversed or struck through."""
        return any(number in self.attributes for number in "4579")


_OFF = {"1": "22", "2": "22", "3": "23", "4": "24", "5": "25", "7": "27", "9": "29"}
"""What ends an attribute."""
UNKNOWN = Look("?", "?", "?")
PLAIN = Look("", "39", "49")


class Painter:
    """The terminal's cells as they were last sent."""

    def __init__(self, color_system: str | None, ascii_only: bool = False) -> None:
        self.system = _SYSTEMS.get(color_system or "")
        self.ascii_only = ascii_only
        self.looks: dict[Style | None, Look] = {None: PLAIN}
        self.width = 0
        self.signs: list[list[str]] = []  # [row][column]; "" follows a sign two columns wide
        self.styles: list[list[Look]] = []

    def resize(self, width: int, height: int) -> None:
        """Another size empties the memory."""
        if (width, height) != (self.width, len(self.signs)):
            self.width = width
            self.signs = [["?"] * width for _ in range(height)]
            self.styles = [[UNKNOWN] * width for _ in range(height)]

    def forget(self) -> None:
        """The terminal may show anything now: the next update sends every cell."""
        self.resize(0, 0)

    def look(self, style: Style | None) -> Look:
        """The numbers of a style, in the terminal's colours."""
        found = self.looks.get(style)
        if found is None:
            assert style is not None
            flags = (style.bold, style.dim, style.italic, style.underline, style.blink, style.reverse, style.strike)
            numbers = ("1", "2", "3", "4", "5", "7", "9")
            attributes = ";".join(number for flag, number in zip(flags, numbers, strict=True) if flag)
            front = back = ""
            if self.system is not None:
                if style.color is not None:
                    front = ";".join(_nearest(style.color, self.system).get_ansi_codes(foreground=True))
                if style.bgcolor is not None:
                    back = ";".join(_nearest(style.bgcolor, self.system).get_ansi_codes(foreground=False))
            found = self.looks[style] = Look(attributes, front or "39", back or "49")
        return found

    def update(self, pieces: Iterator[Piece]) -> str:
        """Remember ``pieces`` and give what must be written to show them."""
        out: list[str] = []
        look: Look | None = None
        for row, column, strip in pieces:
            if not (0 <= row < len(self.signs) and 0 <= column < self.width):
                continue  # laid out for a larger terminal than this one has become meanwhile
            signs, styles = self._cells(strip, self.width - column)
            old_signs, old_styles = self.signs[row], self.styles[row]
            end = column + len(signs)
            if old_signs[column:end] == signs and old_styles[column:end] == styles:
                continue
            at = -1  # where the terminal's cursor is in this row
            for x, (sign, style) in enumerate(zip(signs, styles, strict=True), column):
                if old_signs[x] == sign and old_styles[x] == style:
                    continue
                old_signs[x], old_styles[x] = sign, style
                if not sign:
                    continue
                if at != x:
                    between = old_signs[at:x] if 0 <= at < x <= at + 3 else []
                    if between and all(between) and all(s == look for s in old_styles[at:x]):
                        out.append("".join(between))  # shorter than moving there
                    else:
                        out.append(f"\x1b[{row + 1};{x + 1}H" if at < 0 else f"\x1b[{x + 1}G")
                if sign == " " and look is not None and not (look.marks or style.marks):
                    style = Look(look.attributes, look.front, style.back)  # a space shows only its background
                if style != look:
                    out.append(_change(look, style))
                    look = style
                out.append(sign)
                at = x + (2 if x + 1 < end and not signs[x + 1 - column] else 1)
        if out:
            out.append("\x1b[m")
        return "".join(out)

    def _cells(self, strip: Strip, room: int) -> tuple[list[str], list[Look]]:
        signs: list[str] = []
        styles: list[Look] = []
        for text, style, _ in strip:
            look = self.look(style)
            if not text.isprintable():  # the last gate: nothing that commands a terminal ever gets to it
                text = "".join(sign if sign.isprintable() else " " * cell_len(sign) for sign in text)
            if self.ascii_only:
                text = ascii_of(text)
            if text.isascii() or cell_len(text) == len(text):
                signs.extend(text)
            else:
                for sign in text:
                    width = cell_len(sign)
                    if width:
                        signs.extend([sign, *[""] * (width - 1)])
                    elif signs:
                        signs[-1] += sign
            styles.extend([look] * (len(signs) - len(styles)))
        return signs[:room], styles[:room]


def _nearest(colour: Color, system: ColorSystem) -> Color:
    """The colour as the terminal has it."""
    triplet = colour.triplet
    if triplet and triplet.red == triplet.green == triplet.blue and triplet.red % 10 == 8 and triplet.red <= 238:
        found = Color.from_ansi(232 + triplet.red // 10)  # one of its greys; downgrading would shift it by one
    else:
        found = colour.downgrade(ColorSystem.EIGHT_BIT)
    if system is ColorSystem.STANDARD:
        own = SIXTEEN.get(found.number or 0)
        return found.downgrade(system) if own is None else Color.from_ansi(own)
    return found


def _change(old: Look | None, new: Look) -> str:
    """The shortest SGR sequence from one look to another."""
    if old is None:
        codes, old = ["0"], PLAIN
    else:
        codes = []
    before, after = set(filter(None, old.attributes.split(";"))), set(filter(None, new.attributes.split(";")))
    off = sorted({_OFF[attribute] for attribute in before - after})
    kept = {attribute for attribute in before & after if _OFF[attribute] not in off}  # bold and dim end together
    codes += off + sorted(after - kept)
    codes += [wanted for was, wanted in ((old.front, new.front), (old.back, new.back)) if was != wanted]
    return f"\x1b[{';'.join(codes)}m"


def pieces_of(update: RenderableType | None) -> Iterator[Piece] | None:
    """The strips of one of Textual's updates with their places; None for any other kind."""
    if isinstance(update, LayoutUpdate):
        return _layout_pieces(update)
    return _chop_pieces(update) if isinstance(update, ChopsUpdate) else None


def _layout_pieces(update: LayoutUpdate) -> Iterator[Piece]:
    for row, line in enumerate(update.strips, update.region.y):
        column = update.region.x
        for strip in line:
            yield row, column, strip
            column += strip.cell_length


def _chop_pieces(update: ChopsUpdate) -> Iterator[Piece]:
    for row, start, stop in update.spans:
        for end, (column, strip) in zip(update.chop_ends[row], update.chops[row].items(), strict=False):
            if strip is not None and column <= stop and end > start:
                yield row, column, strip


class PaintedApp(App[Result], Generic[Result]):
    """An app whose output goes through a ``Painter``."""

    painter: Painter | None = None
    ascii_only = False

    def redraw(self) -> None:
        """Send the whole screen again, for a terminal that shows something else."""
        if self.painter is not None:
            self.painter.forget()
        self.screen.refresh()

    def _display(self, screen: Screen[object], renderable: RenderableType | None) -> None:
        # the one place where Textual's private surface is used: its public drivers get finished strings only
        pieces = pieces_of(renderable)
        driver = self._driver
        if pieces is None or self._batch_count or not self._running or self.is_headless or driver is None:
            super()._display(screen, renderable)
            return
        if self.painter is None:
            self.painter = Painter(self.console.color_system, self.ascii_only)
        self.painter.resize(*self.size)
        text = self.painter.update(pieces)
        if text:
            self._begin_update()
            driver.write(text)
            self._end_update()
            driver.flush()
        self.post_display_hook()
