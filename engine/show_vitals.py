"""What the commands on a model's vitals print. All take what ``--json`` prints."""

from __future__ import annotations

from typing import Any

from engine.generation import FIGURES
from engine.printable import printable


def perplexity_text(found: dict[str, Any]) -> str:
    """``perplexity`` for people: a line per source, then all sources as one text."""
    stock, after = found["stock"], found["after"]
    names = list(stock["sources"])
    rows: list[tuple[str, ...]] = [("text", "tokens", "stock", "after")]
    rows += [_sides(printable(name), stock["sources"][name], after and after["sources"][name]) for name in names]
    if len(names) > 1:
        rows.append(_sides("pooled by tokens", stock["pooled"], after and after["pooled"]))
    return "\n".join([_model(found), *_table(rows, after is not None)])


def _sides(name: str, stock: dict[str, Any], after: dict[str, Any] | None) -> tuple[str, str, str, str]:
    return name, f"{stock['tokens']:,}", f"{stock['perplexity']:.3f}", f"{after['perplexity']:.3f}" if after else ""


def dormancy_text(found: dict[str, Any]) -> str:
    """``dormancy`` for people: share of sleeping MLP neurons, per layer and of the model."""
    layers = [f"{f'L{layer}':<6}{100 * share:7.2f} %" for layer, share in enumerate(found["layers"])]
    limit, whole = found["threshold"], f"{found['dormant']:,} of {found['neurons']:,}"
    return "\n".join(
        [
            f"{printable(found['model'])}: MLP neurons whose weight norms multiply to less than {limit}",
            *layers,
            f"{'all':<6}{100 * found['overall']:7.2f} %  ({whole})",
        ]
    )


def ablate_text(found: dict[str, Any]) -> str:
    """``ablate`` for people: what the loss gains when the heads fall silent."""
    stock, after = found["stock"], found["after"]
    rows: list[tuple[str, ...]] = [("silent", "", "stock", "after")]
    sides = [stock, after] if after else [stock]
    rows.append(("all together", "", *(f"{side['group']:+.6f}" for side in sides)))
    for head in found["target_heads"]:
        rows.append((head, "", *(f"{side['heads'][head]:+.6f}" for side in sides)))
    losses = " → ".join(f"{side['loss']:.6f}" for side in sides)
    return "\n".join(
        [
            _model(found),
            f"loss {losses} nats per token over {found['tokens']:,} predicted tokens; silent heads add to it:",
            *_table([(*row, "")[:4] for row in rows], after is not None),
        ]
    )


def generate_text(found: dict[str, Any]) -> str:
    """``generate`` for people: every prompt with what was written, then the figures."""
    lines = [_model(found)]
    stages = ("stock", "after") if found["figures"]["after"] else ("stock",)
    for pair in found["texts"]:
        lines += ["", f"── {printable(pair['prompt'])} ({printable(pair['category'])})", *_prose(pair["prompt_text"])]
        for stage in stages:
            lines += [f"{stage}:{_flags(pair[stage])}", *_prose(pair[stage]["text"])]
    lines += ["", "means over the texts; of flags the share of texts that bear them"]
    for stage in stages:
        figures = found["figures"][stage]
        groups = {**figures["category"], "all": figures["all"]} if len(figures["category"]) > 1 else figures["category"]
        lines += ["", f"{stage:<18}" + "".join(f"{printable(name)[:14]:>16}" for name in groups)]
        for name in ("texts", "tokens", *FIGURES):
            lines.append(f"{name:<18}" + "".join(f"{group[name]:>16.4g}" for group in groups.values()))
    return "\n".join(lines)


def _flags(written: dict[str, Any]) -> str:
    flags = [*written["markup"], *(name for name in ("code", "language_switched", "empty") if written[name])]
    if written["script_switched"]:
        flags.append(f"script_switched {written['script_switched']:.2f}")
    if written["repeated_ngrams"]:
        flags.append(f"repeated_ngrams {written['repeated_ngrams']:.2f}")
    return f" [{', '.join(flags)}]" if flags else ""


def _prose(text: str) -> list[str]:
    return ["  " + printable(line) for line in text.split("\n")]


def _model(found: dict[str, Any]) -> str:
    patched = f", after: with {printable(found['patch'])}" if found["patch"] else ""
    return f"{printable(found['model'])}, {found['dtype']}{patched}"


def _table(rows: list[tuple[str, ...]], after: bool) -> list[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines = []
    for row in rows:
        cells = [f"{row[0]:<{widths[0]}}", *(f"{row[i]:>{widths[i]}}" for i in range(1, 4 if after else 3))]
        lines.append("  ".join(cell for cell in cells if cell).rstrip())
    return lines
