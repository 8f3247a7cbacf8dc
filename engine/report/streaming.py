"""The section of a report on long texts read through windows, with and without anchors."""

from __future__ import annotations

from engine.record import streams_of
from engine.report.axes import LEFT, WIDTH, Axes, legend
from engine.report.blocks import Block, Facts, Figure, Figures, Heading, Paragraph, Table
from engine.report.material import Material
from engine.report.svg import BLUE, ORANGE, picture, tag, words
from engine.report.tables import csv_text, shown
from engine.report.words import NOT_KNOWN, Code, Text, figure, grouped, perplexity
from engine.streaming import PUBLISHED_RATIO, Arm, Passage, Read, answer, cache_size, curve, in_order, ratio_of, sides


def streaming(m: Material) -> list[Block]:
    """What the record knows of it, text by text; nothing where none was read."""
    streams = streams_of(m.record)
    if not streams:
        return []
    blocks: list[Block] = [
        Heading(2, ["A long text through a window"]),
        Paragraph(
            [
                "A window holds so many tokens and forgets the oldest; anchors are first tokens of the text that stay "
                "in it. Positions go by slot in the window. Recomputed is the window run anew for every token, without "
                "a cache; × says how many times as fast as that an arm is (published: up to "
                f"{PUBLISHED_RATIO:g}, on models of 7 to 70 billion parameters). All perplexities are over the same "
                "tokens, those past the first window. Speeds are of the machine as busy as it was."
            ]
        ),
    ]
    for number, (passage, read) in enumerate(streams.items(), 1):
        blocks += _passage(number, passage, sides(read))
    return blocks


def _passage(number: int, passage: Passage, named: Read) -> list[Block]:
    told = answer(named)
    past = passage.tokens - passage.window
    facts: list[tuple[str, Text]] = [
        ("text", [Code(passage.text)]),
        ("tokens", [f"{grouped(past)} past a window of {grouped(passage.window)}"]),
        ("token ids sha256", [Code(passage.sha256)]),
    ]
    return [
        Facts(facts),
        _table(named),
        *([Paragraph([told])] if told else []),
        *_pictures(number, passage, named),
    ]


def _table(named: Read) -> Table:
    head = [""]
    for name in named:
        head += [f"{name}: perplexity", "tokens/s", "×"]
    rows: list[list[Text]] = []
    for arm in in_order(named):
        row: list[Text] = [[arm.name]]
        for found in named.values():
            figures, ratio = found.get(arm), ratio_of(arm, found) if arm in found else None
            row += [
                [perplexity(figures.perplexity if figures else None)],
                [figure(figures.tokens_per_second if figures else None, 0)],
                [figure(ratio, 1)],
            ]
        held = next(found[arm].cache_bytes for found in named.values() if arm in found)
        rows.append([*row, [cache_size(held) if held else NOT_KNOWN]])
    return Table([*head, "cache"], rows)


def _pictures(number: int, passage: Passage, named: Read) -> list[Block]:
    if all(len(curve(found)) < 2 for found in named.values()):
        return []
    title = f"Perplexity by anchors, window of {passage.window}"
    caption = (
        f"Perplexity past the first window by the number of anchors in a window of {passage.window}; the dashed lines "
        "are full attention."
    )
    return [Figures([Figure(f"anchors-{number}.svg", anchors_picture(named, title), caption)])]


def anchors_picture(named: Read, title: str) -> str:
    """Perplexity over the number of anchors, a line for each state of the model."""
    curves = {name: curve(found) for name, found in named.items()}
    full = {name: found[Arm("full")].perplexity for name, found in named.items() if Arm("full") in found}
    values = [value for points in curves.values() for _, value in points] + list(full.values())
    most = max(anchors for points in curves.values() for anchors, _ in points)
    margin = 0.06 * (max(values) - min(values)) or 0.05 * max(values)
    axes = Axes((0, most), (min(values) - margin, max(values) + margin))
    colours = dict(zip(named, (BLUE, ORANGE), strict=False))
    entries = [(name, colours[name], 2.0, "none") for name in named]
    parts = [words(LEFT, 18, title, font_size=13, font_weight="bold"), *axes.grid("anchors", "perplexity")]
    parts += legend(entries)[0]
    for name, points in curves.items():
        colour = colours[name]
        parts.append(axes.line(points, colour, 2))
        parts += [tag("circle", cx=axes.x(anchors), cy=axes.y(value), r=3, fill=colour) for anchors, value in points]
        if name in full:
            path = f"M{LEFT} {axes.y(full[name]):.1f}h{axes.width}"
            parts.append(tag("path", d=path, stroke=colour, stroke_width=1.2, stroke_dasharray="6 4"))
    return picture(WIDTH, axes.floor + 44, f"{title}: a line for each of {', '.join(named)}", parts)


def stream_csv(m: Material) -> str:
    """Every arm of every long text, in every state of the model."""
    header = ["text", "tokens", "window", "stage", "kind", "anchors", "perplexity", "tokens_per_second", "cache_bytes"]
    rows: list[list[object]] = [
        [
            *(shown(t.text), t.tokens, t.window, shown(t.stage), shown(arm.kind)),
            *(arm.anchors, arm.perplexity, arm.tokens_per_second, arm.cache_bytes),
        ]
        for t in m.record.stream
        for arm in t.arm
    ]
    return csv_text(header, rows)
