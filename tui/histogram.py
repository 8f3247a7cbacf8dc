"""How BOS mass is spread over the heads, and where the sick ones are: plain functions from a head map to
lines."""

from __future__ import annotations

from collections.abc import Sequence

from engine.heads import Head, HeadMap
from tui.figures import COLD, QUIET, STRONG, WARM, Line, Part, line, percent

BARS = " ▁▂▃▄▅▆▇█"
"""A cell filled by so many eighths."""
BINS = 20
WIDE = 3
"""Columns per bin."""


def histogram(map_: HeadMap, height: int) -> list[Line]:
    """BOS mass in bins of 0.05, with the limits of the classes, in ``height`` rows and three below."""
    found = bins([map_.mass(head) for head in map_.heads()])
    t = map_.thresholds
    styles = [WARM if (index + 0.5) / BINS > t.bos_sink else COLD for index in range(BINS)]
    limits = {round(limit * BINS) for limit in (t.bos_sink, t.dead)}
    lines = [line((f" BOS mass of {sum(found)} heads", STRONG))]
    for text in columns([float(n) for n in found], height):
        parts: list[Part] = [" "]
        for index, sign in enumerate(text):
            parts += [("|" if index in limits else " ", QUIET), (sign * (WIDE - 1), styles[index])]
        lines.append(line(*parts))
    even, odd = ("".join(f"{n if n and i % 2 == side else '':>{WIDE}}" for i, n in enumerate(found)) for side in (0, 1))
    scale = "".join(f"{f'{index / BINS:.1f}' if index % 4 == 0 else '':<{WIDE}}" for index in range(BINS))
    lines += [line(f" {even}"), line(f" {odd}")]  # in two rows, so that neighbours do not run together
    lines.append(line((f" {scale}1.0", QUIET)))
    lines.append(line((f" | limits: over {t.bos_sink:.2f} BOS-sink, over {t.dead:.2f} dead", QUIET)))
    return lines


def bins(values: Sequence[float]) -> list[int]:
    """How many values lie in each of ``BINS`` equal parts of 0 to 1; a value on an edge belongs below it, as
    a head on a limit is not over it."""
    found = [0] * BINS
    for value in values:
        index = int(value * BINS)
        found[min(BINS - 1, max(0, index - 1 if index and index / BINS == value else index))] += 1
    return found


def columns(values: Sequence[float], height: int, top: float = 0.0) -> list[str]:
    """Upright bars, one sign per value and row; what is not zero shows."""
    top = top or max(values, default=0.0) or 1.0
    eighths = [max(1, round(8 * height * value / top)) if value > 0 else 0 for value in values]
    return ["".join(BARS[max(0, min(8, n - 8 * row))] for n in eighths) for row in range(height - 1, -1, -1)]


def rate_lines(map_: HeadMap, width: int, height: int = 3) -> list[Line]:
    """Share of sick heads per head index, with the band marked, and per layer."""
    band, rates = map_.band(), map_.sick_rates()
    layers = [
        sum(map_.is_sick(Head(layer, index)) for index in range(map_.n_heads)) / map_.n_heads
        for layer in range(map_.n_layers)
    ]
    where = f"band H{band[0]}–H{band[1]}" if band else "no band"
    share = 100 * map_.thresholds.band_rate
    title = f" sick layers per head index: {where}, over {share:.0f} % of layers"
    worst = max(range(len(layers)), key=layers.__getitem__, default=0)
    sick = sum(map_.is_sick(head) for head in map_.heads())
    most = f": most in L{worst}, {100 * layers[worst]:.0f} %" if sick else ""
    whole = map_.n_layers * map_.n_heads
    return [
        line((title, STRONG)),
        *bars(rates, "H", width, height, band),
        line((" sick heads per layer", STRONG), most),
        *bars(layers, "L", width, height, None),
        line((f" {sick} of {whole} sick, {percent(sick, whole)}", QUIET)),
    ]


def bars(rates: Sequence[float], letter: str, width: int, height: int, band: tuple[int, int] | None) -> list[Line]:
    """Bars of shares between 0 and 1 with their indices below; broken into rows where they are too many."""
    room = max(8, width - 7)
    pitch = next((p for p in (3, 2) if len(rates) * p <= room), 1)
    per_row = room // pitch
    lines = []
    for start in range(0, len(rates), per_row):
        shown = rates[start : start + per_row]
        for row, text in enumerate(columns(shown, height, top=1.0)):
            label = "100 %" if row == 0 else "  0 %" if row == height - 1 else "     "
            drawn = "".join(f"{sign * max(1, pitch - 1):<{pitch}}" for sign in text)
            lines.append(line((f" {label} ", QUIET), (drawn, WARM)))
        marks = [" "] * (len(shown) * pitch + 5)
        for index in range(start, start + len(shown)):
            at = (index - start) * pitch
            if index % (4 if pitch > 1 else 8) == 0:
                marks[at : at + len(f"{letter}{index}")] = f"{letter}{index}"
        if band and band[1] >= start and band[0] < start + len(shown):
            first, last = max(band[0], start) - start, min(band[1], start + len(shown) - 1) - start
            under = " " * first * pitch + "=" * ((last - first) * pitch + max(1, pitch - 1))
            lines.append(line(("       " + under, WARM)))
        lines.append(line(("       " + "".join(marks).rstrip(), QUIET)))
    return lines
