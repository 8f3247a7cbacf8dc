"""Which tokens one head looks at, as lines: plain functions over an ``Attention`` event."""

from __future__ import annotations

from rich.cells import cell_len

from engine.events import Attention
from engine.heads import Head, HeadMap
from tui.figures import COLD, QUIET, STRONG, WARM, Line, Part, line
from tui.palette import fit, plain, token

BAR = "█"
HALF_BAR = "▌"
ARROW = "→"


def picture(att: Attention, width: int) -> list[Line]:
    """A row per token: how much attention it receives, and which earlier tokens it looks at most."""
    most = max(att.received, default=0.0) or 1.0
    long = 4 if width < 60 else 12
    lines = []
    for index, text in enumerate(att.tokens):
        got = att.received[index] if index < len(att.received) else 0.0
        looks: list[Part] = []
        used = 26 + long
        for key, weight in att.top[index] if index < len(att.top) else ():
            at = int(key)
            shown = f" {token(att.tokens[at])} {share(weight)}" if at < len(att.tokens) else ""
            used += cell_len(shown)
            if used > width:
                break
            looks.append((shown, WARM if at == 0 else COLD))
        lines.append(
            line(
                (f" {index:>3} ", QUIET), fit(token(text), 13), (f"{bar(got / most, long):<{long}}", WARM),
                (f" {share(got)} {ARROW}", QUIET), *looks,
            )
        )  # fmt: skip
    return lines


def share(value: float) -> str:
    """A share in three columns: ``.62``, ``1.0``."""
    return "1.0" if value >= 0.995 else f"{value:.2f}"[1:]


def bar(share: float, width: int) -> str:
    """A level bar of at most ``width`` columns; what is not zero shows."""
    halves = min(2 * width, round(2 * width * share)) if share > 0 else 0
    return BAR * (halves // 2) + (HALF_BAR if halves % 2 or (share > 0 and halves == 0) else "")


def text_lines(head: Head, map_: HeadMap, width: int, chosen: int = -1) -> list[Line]:
    """The head's BOS mass on each of the texts, with names and tokens."""
    lines = []
    for index, (text, rows) in enumerate(zip(map_.texts, map_.by_text, strict=False)):
        mass = rows[head.layer][head.head]
        sick = mass > map_.thresholds.bos_sink
        name = f"{'>' if index == chosen else ' '}{plain(text.name, 11):<11}"
        parts: list[Part] = [(name, STRONG if index == chosen else "")]
        parts += [(f"{text.tokens:>5} ", QUIET), (f"{mass:.2f}", WARM if sick else ""), ("!" if sick else " ", WARM)]
        room = width - 25
        if room >= 3:
            parts.append((f"{bar(mass, room):<{room}}", WARM if sick else COLD))
        lines.append(line(*parts))
    return lines
