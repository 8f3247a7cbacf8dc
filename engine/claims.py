"""A claim of a record, and what it says beside what was found."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel


@dataclass(frozen=True)
class Claim:
    """One thing that a record says."""

    name: str
    """The record's own name of it."""
    where: str
    """``session``, ``patient``, ``diagnosis stock``, ``pass 1``, ``pass 1 check 20`` …"""
    holds: bool | None
    """None: it cannot be checked here."""
    detail: str
    """The figures, or why it cannot be checked."""


def compared(where: str, name: str, said: Any, found: Any, tolerance: float = 0.0) -> Claim:
    """The claim that ``said``, in the record, is what was ``found``."""
    wrong = next(differences(said, found, name, tolerance), None)
    if wrong is None:
        return Claim(name, where, True, shown(found))
    path, its, other = wrong
    return Claim(name, where, False, f"{path}: the record says {shown(its)}, computed anew it is {shown(other)}")


def differences(said: Any, found: Any, path: str = "", tolerance: float = 0.0) -> Iterator[tuple[str, Any, Any]]:
    """(path, said, found) of everything that differs. Of tables only the fields that are known count:
    a later program may have written more."""
    match said, found:
        case BaseModel(), BaseModel():
            for name, field in type(said).model_fields.items():
                inner = f"{path}.{field.alias or name}".lstrip(".")
                yield from differences(getattr(said, name), getattr(found, name), inner, tolerance)
        case dict(), dict():
            for key in dict.fromkeys([*said, *found]):
                yield from differences(said.get(key), found.get(key), f"{path}.{key}", tolerance)
        case [*ours], [*theirs] if len(ours) == len(theirs):
            for index, (our, their) in enumerate(zip(ours, theirs, strict=True)):
                yield from differences(our, their, f"{path}[{index}]", tolerance)
        case ((int() | float()), (int() | float())) if math.isclose(said, found, rel_tol=tolerance):
            pass
        case _ if said != found:
            yield path, said, found


def shown(value: Any) -> str:
    """A value in a sentence; a long one by its beginning."""
    match value:
        case None:
            text = "missing"
        case dict():
            text = ", ".join(f"{key} {shown(inner)}" for key, inner in value.items())
        case list() | tuple():
            text = "none" if not value else f"{' '.join(map(shown, value[:40]))}"
        case BaseModel():
            text = shown(value.model_dump())
        case _:
            text = str(value)
    return text if len(text) <= 120 else f"{text[:119]}…"
