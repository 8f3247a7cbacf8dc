"""Settings of the passes of several arms: what all share, and what sets them apart."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from engine.arms import Arm
from engine.plan import Plan
from engine.report.words import NOT_KNOWN, Code, Text
from engine.tables import PassTable

NAMES = [name for name in Plan.model_fields if name in PassTable.model_fields and name != "seed"]


def settings(p: PassTable) -> dict[str, Any]:
    """Everything that a plan sets, as a pass had it."""
    found = {name: getattr(p, name) for name in NAMES}
    return found | {"corpus": [s.written for s in p.corpus], "targets": " ".join(p.targets.split())}


def differing(arms: Sequence[Arm]) -> dict[str, list[Any]]:
    """Settings that are not alike in all arms, with each arm's value."""
    each = [settings(arm.passes[0]) if arm.passes else None for arm in arms]
    known = [found for found in each if found]
    names = [name for name in NAMES if any(found[name] != known[0][name] for found in known)]
    return {name: [found[name] if found else None for found in each] for name in names}


def value_told(value: Any) -> Text:
    """A setting as it would stand in a plan."""
    match value:
        case None:
            return [NOT_KNOWN]
        case bool():
            return ["yes" if value else "no"]
        case list():
            return codes(map(str, value)) or ["none"]
        case str():
            return [Code(value)] if value else ["none"]
        case _:
            return [f"{value:g}" if isinstance(value, float) else str(value)]


def codes(names: Iterable[str]) -> list[str | Code]:
    """Names from outside, with commas between them."""
    out: list[str | Code] = []
    for name in names:
        out += [", "] if out else []
        out.append(Code(name))
    return out
