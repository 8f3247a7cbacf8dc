"""A new session: on which device, in which dtype."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from engine.printable import size
from tui.devices import Device
from tui.drylook import DTYPES, DryLook, free_line, needs, shape_line
from tui.figures import QUIET, STRONG, WARM, Line, Part, joined, line
from tui.palette import plain
from tui.screens.lines import CLOSE

Choice = tuple[str, str]
"""(device, dtype)"""


class BeginWindow(ModalScreen[Choice | None]):
    """The dry look, and two rows of choices."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *CLOSE,
        Binding("enter", "begin", "begin", show=False),
        Binding("up,k", "row(-1)", "row before", show=False),
        Binding("down,j", "row(1)", "next row", show=False),
        Binding("left,h", "turn(-1)", "choice before", show=False),
        Binding("right,l", "turn(1)", "next choice", show=False),
    ]

    def __init__(self, found: DryLook, devices: list[Device]) -> None:
        super().__init__()
        self.found, self.devices = found, devices
        self.rows = (["auto", *(device.name for device in devices)], list(DTYPES))
        self.at = [0, 0]
        self.row = 0

    def compose(self) -> ComposeResult:
        with Vertical(classes="ask"):
            yield Static(id="begin")

    def on_mount(self) -> None:
        self.show()

    def show(self) -> None:
        lines: list[Line] = [line((f"New session on {plain(self.found.model, 50)}", STRONG)), shape_line(self.found)]
        lines.append(free_line(self.devices))
        lines.append(line(" "))
        for index, (name, choices) in enumerate(zip(("device", "dtype"), self.rows, strict=True)):
            parts: list[Part] = [
                (f"{'>' if index == self.row else ' '}{name:<9}", STRONG if index == self.row else QUIET)
            ]
            for number, choice in enumerate(choices):
                chosen = number == self.at[index]
                parts += [(f"[{choice}]" if chosen else f" {choice} ", STRONG if chosen else QUIET), " "]
            lines.append(line(*parts))
        lines += [self._needed(), line(" "), line(("↑↓ row   ←→ choose   enter begins   esc drops", QUIET))]
        self.query_one("#begin", Static).update(joined(lines))

    def _needed(self) -> Line:
        """What the choice takes, beside what is free there."""
        if self.found.anatomy is None:
            return line(" ")
        device, dtype = (row[at] for row, at in zip(self.rows, self.at, strict=True))
        dtype = (self.found.dtype or "float32") if dtype == "auto" else dtype
        where = next((d for d in self.devices if d.name == device), None) or auto(self.devices)
        held, most = needs(self.found, dtype)
        free = f" of {size(where.free)} free on {where.name}" if where else ""
        short = where is not None and held > where.free
        return line(
            (" needs    ", QUIET), (size(held), WARM if short else STRONG), free,
            (" — too little" if short else f"; a pass up to {size(most)}", WARM if short else QUIET),
        )  # fmt: skip

    def action_row(self, step: int) -> None:
        self.row = (self.row + step) % 2
        self.show()

    def action_turn(self, step: int) -> None:
        self.at[self.row] = (self.at[self.row] + step) % len(self.rows[self.row])
        self.show()

    def action_begin(self) -> None:
        device, dtype = (row[at] for row, at in zip(self.rows, self.at, strict=True))
        self.dismiss((device, dtype))

    def action_close(self) -> None:
        self.dismiss(None)


def auto(devices: list[Device]) -> Device | None:
    """What ``auto`` takes: the first GPU, else the CPU."""
    return next((d for d in devices if d.name != "cpu"), devices[0] if devices else None)
