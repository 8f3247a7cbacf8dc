"""A crash at every single write, sync and rename of a short pass leaves a session that resumes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from engine import events, files, journal, record
from engine.chart import gaps
from engine.journal import Reader
from engine.nn.worker import carry_out
from engine.plan import make_plan
from engine.session import Session, create_session


class Crash(BaseException):
    """The process dies here. Not an Exception, so that nothing in the program catches it."""


class Trap:
    """Counts writes, syncs and renames, and springs at the chosen one; of a write, half is done first."""

    def __init__(self, spring_at: int | None) -> None:
        self.spring_at, self.count = spring_at, 0

    def step(self, half: Callable[[], object] = lambda: None) -> None:
        self.count += 1
        if self.count == self.spring_at:
            half()
            raise Crash

    @property
    def sprung(self) -> bool:
        return self.spring_at is not None and self.count >= self.spring_at


@contextmanager
def trapped(trap: Trap) -> Iterator[None]:
    fsync, replace, unlink = os.fsync, Path.replace, Path.unlink
    atomic, append = files.write_atomic, journal._write

    def trapped_append(file: Any, path: Path, data: bytes) -> None:
        trap.step(lambda: file.write(data[: len(data) // 2]))
        append(file, path, data)

    def trapped_atomic(path: Path, write: Callable[[Any], object]) -> None:
        def torn_write(file: Any) -> None:
            trap.step(lambda: file.write(b"half a"))
            write(file)

        atomic(path, torn_write)

    def trapped_fsync(handle: int) -> None:
        trap.step()
        fsync(handle)

    def trapped_replace(self: Path, target: Path) -> Path:
        trap.step()
        return replace(self, target)

    def trapped_unlink(self: Path, missing_ok: bool = False) -> None:
        if not trap.sprung:  # a dead process tidies nothing up
            unlink(self, missing_ok)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "unlink", trapped_unlink)
        patch.setattr(os, "fsync", trapped_fsync)
        patch.setattr(Path, "replace", trapped_replace)
        patch.setattr(journal, "_write", trapped_append)
        for module in ("engine.files", "engine.nn.tensorfile", "engine.nn.tokens"):
            patch.setattr(f"{module}.write_atomic", trapped_atomic)
        yield


def begin(root: Path, folder: Path, corpus: Path, texts: Path) -> Session:
    plan = make_plan(
        {"targets": "L1-H0 | L2-H3", "corpus": [str(corpus)], "steps": 2, "check_every": 2, "lr": 1e-2}
        | {"length": 16, "micro_batch": 1, "accumulate": 1, "heldout_samples": 4, "generate": False}
    )
    request = events.Created(session="", model=str(folder), device="cpu", texts=str(texts), plans=[plan.model_dump()])
    return create_session(root, request)


def test_a_crash_anywhere_leaves_a_session_that_resumes(
    folder: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("a few words to measure on\n")
    whole = begin(tmp_path / "whole", folder, corpus, texts)
    counter = Trap(None)
    monkeypatch.setenv("HEADSURGEON_CACHE", str(tmp_path / "cache"))  # each time an empty one, which is written too
    with trapped(counter):
        carry_out(whole)
    assert counter.count > 50
    wanted, done = whole.patch(1).read_bytes(), record.load(whole).passes[0]
    for point in range(1, counter.count + 1):
        session = begin(tmp_path / f"{point}", folder, corpus, texts)
        monkeypatch.setenv("HEADSURGEON_CACHE", str(tmp_path / f"cache-{point}"))
        with trapped(Trap(point)), pytest.raises(Crash):
            carry_out(session)
        carry_out(session)
        assert session.patch(1).read_bytes() == wanted, point
        again = record.load(session).passes[0]
        assert again.outcome == "completed"
        assert [c.model_dump() for c in again.check] == [c.model_dump() for c in done.check], point
        assert gaps(list(Reader(session.journal).entries())) == [], point
        assert not list(session.folder.rglob("*.tmp")), point
