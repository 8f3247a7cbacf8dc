"""The texts that heads are measured on: a varied built-in set, or the operator's own file."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from engine.errors import InputError

BUILT_IN = Path(__file__).parent / "probes.jsonl"


@dataclass(frozen=True)
class Probe:
    """One text and what to call it."""

    name: str
    text: str


def read_probes(path: str = "") -> list[Probe]:
    """The built-in texts, or those of a file: one text a line, or JSONL objects with ``text``.

    Raises:
        InputError: the file is missing, holds no text, or a JSONL line is wrong.
    """
    file = Path(path) if path else BUILT_IN
    try:
        lines = file.read_text("utf-8").splitlines()
    except (FileNotFoundError, IsADirectoryError) as error:
        raise InputError(f"file of texts not found: {path}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error}") from error
    probes = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if file.suffix == ".jsonl":
            probes.append(_from_json(line, number, file))
        else:
            probes.append(Probe(f"line {number}", line))
    if not probes:
        raise InputError(f"{path} holds no text; write one text a line, or JSONL objects with a `text`")
    return probes


def _from_json(line: str, number: int, file: Path) -> Probe:
    try:
        data = json.loads(line)
        text = data["text"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"line {number} of {file} is no JSON object with a `text`") from error
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"line {number} of {file} has an empty `text`")
    return Probe(str(data.get("name", f"line {number}")), text)
