"""The panels' text: plain functions from a chart to lines. Text from outside is never read as markup."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING

from textual.content import Content

from tui.chartlines import number
from tui.palette import EDGES, LEVELS, WHITE, ink, level, plain, token, visible

if TYPE_CHECKING:
    from engine.chart import Chart
    from engine.drift import Drift
    from engine.events import Loaded
    from engine.heads import Head, HeadMap

Line = Content
Part = str | tuple[str, str]
QUIET, STRONG, WARM, COLD = "$quiet", "$strong bold", "$warm", "$cold"


def line(*parts: Part) -> Line:
    """One line of parts; a part is text, or (text, style). What would command a terminal becomes a dot."""
    return Content.assemble(
        *(visible(part) if isinstance(part, str) else (visible(part[0]), part[1]) for part in parts)
    )


def joined(lines: Iterable[Line]) -> Content:
    """Lines as one block."""
    return Content("\n").join(lines)


def side_by_side(left: list[Line], right: list[Line], width: int) -> list[Line]:
    """Two blocks of lines, the right one from column ``width`` on."""
    rows = max(len(left), len(right))
    empty = Content("")
    padded = [*left, *[empty] * (rows - len(left))], [*right, *[empty] * (rows - len(right))]
    return [
        Content.assemble(a, " " * max(1, width - a.cell_length), b) if b.cell_length else a
        for a, b in zip(*padded, strict=True)
    ]


def row(name: str, *parts: Part, width: int = 11) -> Line:
    """A named figure."""
    return line((f" {name:<{width}}", QUIET), *parts)


def wrapped(label: str, text: str, width: int, style: str) -> list[Line]:
    """A named text, broken to the width."""
    return [row(plain(label, 10) if i == 0 else "", (part, style)) for i, part in enumerate(_parts(text, width - 12))]


def paragraph(text: str, width: int, style: str = "") -> list[Line]:
    """A text on lines of its own, broken to the width."""
    return [line((f" {part}", style)) for part in _parts(text, width - 1)]


def _parts(text: str, room: int) -> list[str]:
    whole = plain(" ".join(text.split()), 2000)
    return textwrap.wrap(whole, max(20, room), break_on_hyphens=False) or [""]


def rule(width: int) -> Line:
    return line((" " + "─" * (width - 1), "$rule"))


def swatch(mass: float) -> Part:
    """The colour of a BOS mass as it is in the grid."""
    return "  ", f"on {cube(LEVELS[level(mass)])}"


def ink_on(index: int) -> str:
    """Hex value of a sign that is readable on level ``index``."""
    return "#ffffff" if ink(index) == WHITE else "#000000"


def cube(colour: int) -> str:
    """Hex value of a colour number of the 6×6×6 cube."""
    steps = (0, 95, 135, 175, 215, 255)
    red, green, blue = (colour - 16) // 36, (colour - 16) // 6 % 6, (colour - 16) % 6
    return f"#{steps[red]:02x}{steps[green]:02x}{steps[blue]:02x}"


def percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else ""


def amount(value: float) -> str:
    """A count of parameters: ``113.3 M``."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.2f} {unit}" if value < 10 * limit else f"{value / limit:.1f} {unit}"
    return f"{value:.0f}"


def class_style(name: str) -> str:
    return WARM if name in ("bos_sink", "dead") else COLD


def patient_line(chart: Chart) -> str:
    """``bloom-1b7 bf16 cuda:0 24×16``, as far as it is known."""
    created, loaded = chart.created, chart.loaded
    name = plain(created.model if created else "").rstrip("/").rsplit("/", 1)[-1]
    if loaded is None:
        return name
    dtype = {"bfloat16": "bf16", "float32": "fp32", "float16": "fp16"}.get(loaded.dtype, loaded.dtype)
    return f"{name} {dtype} {loaded.device} {loaded.n_layers}×{loaded.n_heads}"


def head_title(head: Head, map_: HeadMap) -> Line:
    """``L16-H4  bos_sink, borderline``."""
    name = map_.class_of(head)
    border = ", borderline" if map_.is_borderline(head) else ""
    return line((f" {head!s:<9}", STRONG), swatch(map_.mass(head)), " ", (name, class_style(name)), border)


def head_figures(head: Head, map_: HeadMap, loaded: Loaded | None, width: int, value: str = "") -> list[Line]:
    """Everything measured at one head; ``value``: its figure in the view that is shown."""
    low, high = map_.interval(head)
    e_low, e_high = map_.entropy_interval(head)
    lines = [
        row("BOS mass", (f"{map_.mass(head):.3f}", STRONG), f"   95 % {low:.3f}–{high:.3f}"),
        row("uniform", f"{map_.uniform(head.layer):.3f}", (f"   {len(map_.texts)} texts, {map_.tokens} tokens", QUIET)),
        row(
            "entropy", f"{map_.entropy[head.layer][head.head]:.2f} nats",
            (f"   {e_low:.2f}–{e_high:.2f}" if e_high > e_low else "", QUIET),
        ),
    ]  # fmt: skip
    if map_.sink_mass:
        share = map_.sink_mass[head.layer][head.head]
        lines.append(row("sink logit", f"{share:.3f}", ("   of each row, no key", QUIET)))
    if map_.reach(head.layer) < 1:
        out = 100 * (1 - map_.reach(head.layer))
        lines.append(row("window", f"{map_.window(head.layer)}", (f" keys; {out:.0f} % not reachable", QUIET)))
    if loaded is not None and loaded.slopes:
        slope, (mean, _) = loaded.slopes[head.head], map_.distances()
        lines.append(row("slope", f"{slope:.4f}", ("   ALiBi, nats per token", QUIET)))
        penalty = f"−{mean * slope:.2f} nats" if mean else f"−{100 * slope:.2f} nats"
        lines.append(row("penalty", penalty, (f" at mean {mean or 100:.0f} tokens", QUIET)))
    if value:
        lines.append(row("shown", (value, STRONG)))
    elif map_.by_text:
        values = [rows[head.layer][head.head] for rows in map_.by_text]
        lines.append(row("by text", *spread(values, (width - 12) // 5)))
    firsts = list(dict.fromkeys(text.first_token for text in map_.texts))
    shown = " ".join(token(text) for text in firsts)
    lines.append(row("position 0", plain(shown, width - 12)))
    return lines


def spread(values: list[float], room: int) -> list[Part]:
    """As many figures as there is room for; the lowest and the highest where there is not."""
    if len(values) <= room:
        return [" ".join(f"{value:.2f}" for value in values)]
    return [f"{min(values):.2f} to {max(values):.2f} over {len(values)} texts"]


def counts(map_: HeadMap) -> list[Line]:
    """Heads per class, band and sensitivity."""
    total, found = map_.n_layers * map_.n_heads, map_.counts()
    lines = [
        row(name, (f"{found[name]:>5}", STRONG if found[name] else QUIET), f"  {percent(found[name], total):>7}")
        for name in ("healthy", "bos_sink", "dead", "low_entropy")
    ]
    borderline = sum(map(map_.is_borderline, map_.heads()))
    band, rate = map_.band(), map_.thresholds.band_rate
    lines.append(row("borderline", f"{borderline:>5}", (f"  {percent(borderline, total):>7}", QUIET)))
    where = f"H{band[0]}–H{band[1]}" if band else "none"
    lines.append(row("sick band", where, (f"  over {100 * rate:.0f} % of layers", QUIET)))
    sick = map_.sensitivity()
    lines.append(row("sick at", "/".join(sick), "  ", ("/".join(map(str, sick.values())), STRONG)))
    return lines


def legend(map_: HeadMap) -> list[Line]:
    """What the colours mean, on two lines of 37 columns."""
    blocks: list[Part] = [("    ", f"on {cube(colour)}") for colour in LEVELS]
    edges = "".join(f"{f'{edge:.2f}'.lstrip('0'):<4}" for edge in (0.0, *EDGES)).replace(".00 ", "0   ", 1)
    t = map_.thresholds
    return [
        line((" BOS mass", QUIET), (f"   >{t.bos_sink:.2f} sink  >{t.dead:.2f} dead", QUIET)),
        line(" ", *blocks),
        line((f" {edges}", QUIET)),
    ]


def drift_table(cut: Drift | None, training: Drift | None, both: Drift | None) -> list[Line]:
    """Drift of heads that were left alone: two zones side by side, the cut apart from the training."""
    known = both or cut
    outside = f"outside {known.outside.heads}" if known else "outside"
    inside = f"in-band frozen {known.in_band_frozen.heads}" if known else "in-band frozen"
    lines = [
        line((" drift        ", QUIET), (f"{outside:<32}", STRONG), (inside, STRONG)),
        line((" " * 14 + "drifting mean|δ| worst          " * 2, QUIET)),
    ]
    for name, drift in (("since stock", both or cut), ("of the cut", cut), ("of training", training)):
        parts: list[Part] = []
        for zone in (drift.outside, drift.in_band_frozen) if drift else ():
            if zone.heads:
                worst = f"{zone.worst:.3f} {zone.worst_head}"
                parts.append((f"{zone.drifting:>8} {zone.mean:.4f}  {worst:<15}", ""))
            else:
                parts.append((f"{'no heads':>8} {'':<23}", QUIET))
        lines.append(line((f" {name:<13}", QUIET), *parts))
    return lines


def change(before: float | None, after: float | None) -> str:
    """``128.98 → 55.20``; a dash for what is not known."""
    return f"{number(before) if before is not None else '–'} → {number(after) if after is not None else '–'}"


def source_name(source: str) -> str:
    """A text's source in a word: the file's name without folder and ending; a hub name as it is."""
    name = source.removeprefix("demo:")
    return name.rsplit("/", 1)[-1].removesuffix(".txt").removeprefix("heldout-") if name.endswith(".txt") else name
