"""What is shown of a long text read through windows: the arms side by side, the curve over the anchors, the answer.
Plain functions, no widget."""

from __future__ import annotations

import math
from dataclasses import dataclass

from engine.chart import Chart
from engine.errors import InputError
from engine.streaming import (
    Arm,
    ArmFigures,
    Passage,
    Read,
    answer,
    cache_size,
    curve,
    default_window,
    in_order,
    ratio_of,
    sides,
)
from tui.chartlines import Curves, number, plot
from tui.figures import QUIET, STRONG, Line, Part, line, paragraph
from tui.palette import plain
from tui.passview import ROLES
from tui.plans import absolute

TEXT, TOKENS = "demo:heldout-austen.txt", 1024
"""What the form begins with."""
NAME, SIDE = 18, 24
"""Columns of an arm's name, and of one state's figures."""
LEAST = 5
"""Rows that a curve is worth drawing in."""


@dataclass(frozen=True)
class Wanted:
    """What is to be read."""

    text: str
    window: int
    tokens: int


def first_wanted(chart: Chart) -> Wanted:
    """Where the form begins: what was read last, else what suits the patient."""
    if chart.streams:
        last = list(chart.streams)[-1]
        return Wanted(last.text, last.window, last.tokens + 1)
    return Wanted(TEXT, default_window(chart.loaded.context if chart.loaded else 2), TOKENS)


def read_wanted(text: str, window: str, tokens: str, context: int) -> Wanted:
    """The form's lines as values.

    Raises:
        InputError: one of them does not serve.
    """
    if not text:
        raise InputError("name a text: a file, a folder or a hub name")
    if not window.isdecimal() or not 2 <= int(window) <= context:
        raise InputError(f"the window is {window!r}; write a number of tokens from 2 to the context of {context}")
    if not tokens.isdecimal() or not int(window) + 2 <= int(tokens) <= 10**9:
        raise InputError(f"tokens are {tokens!r}; write a number from {int(window) + 2} on, past the window")
    return Wanted(absolute(text), int(window), int(tokens))


def passage_lines(passage: Passage, read: Read, width: int, rows: int, glyphs: str) -> list[Line]:
    """Everything about one text, within so many rows where they are enough."""
    named = sides(read)
    past = passage.tokens - passage.window
    shown = plain(passage.text, max(10, width - 44))
    lines = [line((f" {shown}", STRONG), f": {past} tokens past a window of {passage.window}"), *table(named)]
    told = answer(named)
    lines += paragraph(told or "whether it needs its anchors shows once the arms without and with them are done", width,
                       "" if told else QUIET)  # fmt: skip
    return lines + anchor_curve(named, width, rows - len(lines), glyphs)


def table(named: Read) -> list[Line]:
    """A row per arm; × is how many times as fast as the window run anew."""
    heads: list[Part] = [(f"{name:>{SIDE}}", STRONG) for name in named]
    columns = f"{'perplexity':>11}{'tok/s':>7}{'×':>6}"
    lines = [
        line((f" {'':<{NAME}}", QUIET), *heads),
        line((f" {'':<{NAME}}", QUIET), *((f"{columns}", QUIET) for _ in named), (f"{'cache':>8}", QUIET)),
    ]
    for arm in in_order(named):
        cells = [_cells(arm, found) for found in named.values()]
        held = next(found[arm].cache_bytes for found in named.values() if arm in found)
        lines.append(line(f" {arm.name:<{NAME}}", *cells, (f"{cache_size(held) if held else '–':>8}", QUIET)))
    return lines


def _cells(arm: Arm, found: dict[Arm, ArmFigures]) -> str:
    figures, ratio = found.get(arm), ratio_of(arm, found) if arm in found else None
    if figures is None:
        return f"{'–':>11}{'':>{SIDE - 11}}"
    times = "" if ratio is None else f"{ratio:.1f}"
    return f"{number(figures.perplexity):>11}{figures.tokens_per_second:>7.0f}{times:>6}"


def anchor_curve(named: Read, width: int, rows: int, glyphs: str) -> list[Line]:
    """Perplexity over the number of anchors; dotted is the stock model's full attention, where it was read."""
    curves = {name: points for name, found in named.items() if len(points := curve(found)) > 1}
    if not curves or rows < LEAST + 1:
        return []
    *_, (name, newest) = curves.items()
    first = next(iter(named.values()))
    level = first[Arm("full")].perplexity if Arm("full") in first else min(value for _, value in newest)
    drawn = Curves(
        steps=max(anchors for points in curves.values() for anchors, _ in points),
        stock=level,
        train=[(anchors, math.log(value)) for anchors, value in curves["stock"]] if len(curves) > 1 else (),
        heldout=newest,
    )
    legend: list[Part] = [(" perplexity by anchors: ", QUIET)]
    if len(curves) > 1:
        legend += [("stock", ROLES["train"]), ", "]
    legend.append((name, ROLES["heldout"]))
    if Arm("full") in first:
        legend.append((f"; dotted: full attention, {next(iter(named))}", QUIET))
    plotted = plot(drawn, width, rows - 1, glyphs)
    return [line(*legend), *(line(*((text, ROLES[role]) for text, role in pieces)) for pieces in plotted)]
