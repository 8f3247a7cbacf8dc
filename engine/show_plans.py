"""Protocols in words for the command line."""

from __future__ import annotations

import textwrap

from engine.protocol import Protocol, told_of

WIDTH = 80
LABEL = 10


def plans_text(protocols: list[Protocol]) -> str:
    """``headsurgeon plans``: what each asks and the arms it runs."""
    blocks = []
    for protocol in protocols:
        lines = [f"{protocol.name}: {protocol.title}"]
        for label, text in told_of(protocol):
            first, *rest = textwrap.wrap(text, WIDTH - LABEL - 2) or [""]
            lines += [f"  {label:<{LABEL}}{first}", *(" " * (LABEL + 2) + part for part in rest)]
        blocks.append("\n".join(lines))
    way = "headsurgeon operate MODEL --plan NAME runs one; headsurgeon plans NAME prints it, to be changed in a copy"
    return "\n\n".join([*blocks, textwrap.fill(way, WIDTH)])
