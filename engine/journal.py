"""The session's append-only files: ``journal.jsonl`` (events) and ``commands.jsonl`` (what the screen asks).

Lines are whole JSON objects. A torn last line, left by a kill in mid-write, is skipped by readers and
closed with a newline by the next writer; nothing is ever rewritten.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from engine import events
from engine.drift import Drift, ZoneDrift
from engine.errors import InputError
from engine.files import disk_full
from engine.generation import Continuation
from engine.heads import HeadMap, known

KINDS: dict[str, type[events.Event]] = {event.kind: event for event in events.Event.__subclasses__()}


def to_dict(event: events.Event) -> dict[str, Any]:
    """Plain values for one journal line, ``kind`` first."""
    return {"kind": event.kind, **asdict(event)}


def from_dict(data: dict[str, Any]) -> events.Event | None:
    """Inverse of ``to_dict``. Unknown fields are dropped; an unknown kind, or a line that lacks a
    field or holds something else in it, gives None: a newer program wrote it."""
    type_ = KINDS.get(str(data.get("kind")))
    if type_ is None:
        return None
    values = known(type_, data)
    try:
        for name, value in values.items():
            if name == "head_map":
                values[name] = HeadMap.from_dict(value)
            elif name in ("drift", "drift_training"):
                zones = known(Drift, value).items()
                values[name] = Drift(**{zone: ZoneDrift(**known(ZoneDrift, figures)) for zone, figures in zones})
            elif name == "corpus":
                values[name] = [events.CorpusSource(**known(events.CorpusSource, source)) for source in value]
            elif name == "continuations":
                values[name] = [Continuation(**known(Continuation, written)) for written in value]
            elif name in ("zone_layers", "zone_heads"):
                values[name] = (int(value[0]), int(value[1]))
        return type_(**values)
    except (TypeError, KeyError, AttributeError, IndexError, ValueError):
        return None


@dataclass(frozen=True)
class Entry:
    """One line of the journal."""

    seq: int
    time: str
    """ISO 8601 in UTC."""
    event: events.Event


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Tail:
    """Reads the whole lines that were appended to a file since the last look."""

    def __init__(self, path: Path, offset: int = 0) -> None:
        self.path = path
        self.offset = offset

    def lines(self) -> Iterator[dict[str, Any]]:
        """New lines as objects; what is not a whole JSON object is skipped."""
        try:
            with self.path.open("rb") as file:
                file.seek(self.offset)
                data = file.read()
        except FileNotFoundError:
            return
        end = data.rfind(b"\n") + 1
        self.offset += end
        for line in data[:end].splitlines():
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict):
                yield value


class Reader:
    """Reads a journal from the start and then follows it: attach, resume, replay and recovery alike."""

    def __init__(self, path: Path) -> None:
        self.tail = Tail(path)

    def entries(self) -> Iterator[Entry]:
        """Entries appended since the last call, in order."""
        for line in self.tail.lines():
            event = from_dict(line)
            if event is not None and isinstance(line.get("seq"), int):
                yield Entry(line["seq"], str(line.get("time", "")), event)


class Writer:
    """Appends events. Only the process that holds the session's lock may have one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = _open_to_append(path)  # first: a line torn just before its newline becomes a whole one
        self.seq = max((entry.seq for entry in Reader(path).entries()), default=0)
        self.torn = False

    def append(self, event: events.Event, durable: bool = False) -> Entry:
        """Write one event; ``durable`` also waits until it is on the disk.

        Raises:
            InputError: the disk is full.
            ValueError: a number is not finite; no NaN ever reaches a journal.
        """
        entry = Entry(self.seq + 1, now(), event)
        line = _line({"seq": entry.seq, "time": entry.time, **to_dict(event)})
        torn, self.torn = self.torn, True  # should the disk be full, the next line begins anew
        _write(self.file, self.path, b"\n" + line if torn else line)
        self.torn, self.seq = False, entry.seq
        if durable:
            os.fsync(self.file.fileno())
        return entry

    def close(self) -> None:
        self.file.close()


def append_command(path: Path, command: str, /, **values: Any) -> None:
    """Ask the worker for something: ``{"time", "command", …}``."""
    with _open_to_append(path) as file:
        _write(file, path, _line({"time": now(), "command": command, **values}))


def _open_to_append(path: Path) -> BinaryIO:
    file = path.open("a+b", buffering=0)
    if file.seek(0, os.SEEK_END) > 0:
        file.seek(-1, os.SEEK_END)
        if file.read(1) != b"\n":
            _write(file, path, b"\n")  # closes a line that a kill has torn
    return file


def _line(values: dict[str, Any]) -> bytes:
    text = json.dumps(values, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode("utf-8", "replace") + b"\n"  # a file name may hold what UTF-8 cannot


def _write(file: BinaryIO, path: Path, data: bytes) -> None:
    try:
        written = file.write(data)
    except OSError as error:
        full = disk_full(path, error)
        if full is not None:
            raise full from error
        raise
    if written != len(data):  # how a full disk begins
        raise InputError(f"no room left on the disk while writing {path}; free some space and resume")
