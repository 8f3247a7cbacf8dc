"""One session, one folder: where its files are, who holds it, how to begin and list them."""

from __future__ import annotations

import fcntl
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any, TextIO

from engine import events
from engine.errors import InputError
from engine.journal import Writer, append_command, now

PATCH = "best.safetensors"
"""The slices that a pass kept, in its folder."""
PROTOCOL = "protocol.toml"
"""What makes a folder of sessions a trial."""


@dataclass(frozen=True)
class Session:
    """A session's folder. Every path of a session is made here, so none leads out of it."""

    folder: Path

    @property
    def id(self) -> str:
        """The folder's name; of a trial's session with the trial's before it."""
        trial = self.trial
        return f"{trial.name}/{self.folder.name}" if trial else self.folder.name

    @property
    def trial(self) -> Path | None:
        """The folder of the trial that it belongs to."""
        return self.folder.parent if is_trial(self.folder.parent) else None

    @property
    def record(self) -> Path:
        return self.folder / "session.toml"

    @property
    def journal(self) -> Path:
        return self.folder / "journal.jsonl"

    @property
    def commands(self) -> Path:
        return self.folder / "commands.jsonl"

    @property
    def lock_file(self) -> Path:
        return self.folder / "worker.lock"

    @property
    def log(self) -> Path:
        return self.folder / "worker.log"

    @property
    def exports(self) -> Path:
        return self.folder / "exports"

    def pass_folder(self, number: int) -> Path:
        return self.folder / f"pass-{number}"

    def patch(self, number: int) -> Path:
        return self.pass_folder(number) / PATCH

    def send(self, command: str, /, **values: Any) -> None:
        """Ask the worker for something."""
        append_command(self.commands, command, **values)

    def discard(self) -> None:
        """Remove the folder of a session in which nothing was begun."""
        shutil.rmtree(self.folder)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the session: only one process may own the patient.

        Raises:
            InputError: another live process holds it.
        """
        with self.lock_file.open("a+") as file:
            if not _lock(file):
                raise InputError(
                    f"session {self.id} is held by a live worker (process {self.holder() or 'unknown'}); "
                    f"watch it with `headsurgeon open {self.folder}` or stop it there first"
                )
            file.truncate(0)
            file.write(json.dumps({"pid": os.getpid(), "started": now()}) + "\n")
            file.flush()
            try:
                yield
            finally:
                file.truncate(0)

    def holder(self) -> int | None:
        """Process number of the live worker, None when nobody holds the session."""
        try:
            with self.lock_file.open("r+") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                except BlockingIOError:
                    found = re.search(r'"pid": (\d+)', file.read())
                    return int(found.group(1)) if found else 0
        except FileNotFoundError:
            pass
        return None

    def start_worker(self) -> subprocess.Popen[bytes]:
        """Start ``headsurgeon worker`` in a session of its own, out of reach of a hang-up.

        Its output goes to ``worker.log``; the caller need not wait for it.
        """
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "engine", "worker", str(self.folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )


def is_trial(folder: Path) -> bool:
    """Whether a folder holds a trial rather than a session."""
    return (folder / PROTOCOL).is_file()


def _lock(file: TextIO) -> bool:
    """Take the lock if no other process holds it. ``holder`` looks by holding it for an instant itself,
    so one refusal says nothing yet."""
    for _ in range(20):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.01)
        else:
            return True
    return False


def sessions_root(chosen: Path | None = None) -> Path:
    """Where sessions go: the chosen folder, ``HEADSURGEON_SESSIONS``, or ``./sessions``."""
    return chosen or Path(os.environ.get("HEADSURGEON_SESSIONS") or "sessions")


def create_session(root: Path, request: events.Created) -> Session:
    """Begin a session in ``root``; its id is made of the day, the model's name and four random digits."""
    session = Session(root / f"{date.today().isoformat()}-{made_name(request.model)}-{secrets.token_hex(2)}")
    begin(session, request)
    return session


def made_name(of: str) -> str:
    """A name, or a path's last part, as it may stand in a folder's name."""
    return re.sub(r"[^a-z0-9.]+", "-", Path(of).name.lower()).strip("-.")[:40] or "model"


def begin(session: Session, request: events.Created) -> None:
    """Write a session's first entry.

    Raises:
        InputError: its folder cannot be made.
    """
    try:
        session.folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"cannot make a session in {session.folder.parent}: {error.strerror}; choose another place with --sessions"
        ) from error
    writer = Writer(session.journal)
    writer.append(events.Created(**{**vars(request), "session": session.id}), durable=True)
    writer.close()


def open_session(folder: Path) -> Session:
    """An existing session.

    Raises:
        InputError: there is no such folder, or it holds no session.
    """
    session = Session(folder.resolve())
    if not folder.is_dir():
        raise InputError(f"session not found: {folder}; `headsurgeon sessions` lists what there is")
    if not session.journal.exists() and not session.record.exists():
        raise InputError(f"{folder} is no session: it holds neither session.toml nor journal.jsonl")
    return session


def list_sessions(root: Path) -> list[Session]:
    """All sessions in ``root``, those of its trials too, newest first by name."""
    if not root.is_dir():
        return []
    folders = list(root.iterdir())
    folders += [inner for f in folders if is_trial(f) for inner in f.iterdir()]
    found = [Session(f.resolve()) for f in folders if (f / "journal.jsonl").exists() or (f / "session.toml").exists()]
    return sorted(found, key=lambda s: s.id, reverse=True)
