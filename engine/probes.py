"""The texts that heads are measured on: a varied built-in set, or the operator's own file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import InputError

BUILT_IN = Path(__file__).parent / "probes.jsonl"
BETWEEN_PARTS = "\n\n"


@dataclass(frozen=True)
class Probe:
    """One text and what to call it."""

    name: str
    text: str
    tokens: int | None = None
    """Only so many first tokens are measured; None: as many as the patient's context holds."""


def read_probes(path: str = "") -> list[Probe]:
    """The built-in texts, or those of a file: one text a line, or JSONL objects.

    A JSONL object holds ``text``, or ``parts``: names of texts above it that are joined, which makes
    long texts of short ones. ``name`` and ``tokens`` (measure the first so many tokens) are free.

    Raises:
        InputError: the file is missing, holds no text, or a JSONL line is wrong.
    """
    file = Path(path) if path else BUILT_IN
    try:
        lines = file.read_text("utf-8-sig").split("\n")  # splitlines would also break at signs inside a text
    except (FileNotFoundError, IsADirectoryError) as error:
        raise InputError(f"file of texts not found: {path}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error}") from error
    probes, above = list[Probe](), dict[str, str]()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if file.suffix == ".jsonl":
            probes.append(_from_json(line, f"line {number}", file, above))
            above[probes[-1].name] = probes[-1].text
        else:
            probes.append(Probe(f"line {number}", line))
    if not probes:
        raise InputError(f"{path} holds no text; write one text a line, or JSONL objects with a `text`")
    return probes


def _from_json(line: str, place: str, file: Path, above: dict[str, str]) -> Probe:
    try:
        data = json.loads(line)
        text = data["text"] if "parts" not in data else _joined(data["parts"], above)
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{place} of {file} is no JSON object with a `text`, or `parts` named above it") from error
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"{place} of {file} has an empty `text`")
    tokens = data.get("tokens")
    if tokens is not None and (type(tokens) is not int or tokens < 1):
        raise InputError(f"{place} of {file} has `tokens` {tokens!r}; write a whole number from 1, or leave it out")
    return Probe(str(data.get("name", place)), text, tokens)


def _joined(parts: Any, above: dict[str, str]) -> str:
    return BETWEEN_PARTS.join(above[name] for name in parts)
