"""What the model writes on the prompts, before and after."""

from __future__ import annotations

import re

from rich.cells import cell_len

from engine.events import Generated
from engine.generation import FIGURES, averages
from tui.figures import COLD, QUIET, STRONG, WARM, Line, line
from tui.live import Live
from tui.palette import plain
from tui.screens.lines import Sheet

RETURN = "¶"


def texts_window(live: Live, key: str) -> Sheet:
    """A sheet with the pairs of generated texts; ``key`` has more of them written, on the step below."""
    return Sheet("Generated texts", lambda width: text_pairs(live.chart.generated, width, key))


def text_pairs(generated: dict[str, Generated], width: int, key: str) -> list[Line]:
    """The figures of the stock model's texts beside the newest ones', then each prompt with both."""
    if not generated:
        return [line((f" none yet: {key} lets the model go on with the prompts", QUIET))]
    newest = list(generated.values())[-1]
    stock = generated.get("stock", newest)
    pairs = [stock] if newest is stock else [stock, newest]
    means = [averages(event.continuations) for event in pairs]
    how = f" temperature {newest.temperature:g}, top-p {newest.top_p:g}, {newest.new_tokens} tokens, seed {newest.seed}"
    stages = [(f"{plain(event.stage, 15):>16}", STRONG) for event in pairs]
    lines = [line((plain(how, width), QUIET)), line((f" {'':<22}", QUIET), *stages)]
    for name in ("texts", "tokens", *FIGURES):
        label = name.replace("_", " ")
        lines.append(line((f" {label:<22}", QUIET), *(f"{mean[name]:>16.3g}" for mean in means)))
    after = {c.prompt: c for c in newest.continuations}
    for before in stock.continuations:
        lines += [line(" "), *wrapped(before.prompt_text, width, before.category, QUIET)]
        lines += wrapped(before.text, width, stock.stage, COLD)
        other = after.get(before.prompt)
        if newest is not stock and other is not None:
            lines += wrapped(other.text, width, newest.stage, WARM)
    return lines


def wrapped(text: str, width: int, label: str, style: str) -> list[Line]:
    """Text from outside, broken to the width between words; nothing in it is obeyed."""
    rows = broken(plain(text.replace("\n", RETURN), 2000), max(10, width - 16))
    name = plain(label, 14)
    return [line((f" {name if i == 0 else '':<15}", QUIET), (part, style)) for i, part in enumerate(rows)]


def broken(text: str, room: int) -> list[str]:
    """The text in rows of at most ``room`` columns; only a word that is longer than a row is cut. The spaces
    at which a row ends are left out."""
    rows, used = [""], 0
    for piece in re.findall(r"\s+|[^\s¶]+¶*|¶+", text):
        if used + cell_len(piece) > room and rows[-1].strip() and not piece.isspace():
            rows, used = [*rows[:-1], rows[-1].rstrip(), ""], 0
        for sign in piece:
            if used + cell_len(sign) > room:
                if sign.isspace():
                    continue
                rows, used = [*rows, ""], 0
            rows[-1] += sign
            used += cell_len(sign)
    return rows
