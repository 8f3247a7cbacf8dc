"""The one way files are written: to a temporary name beside the target, synced, then renamed.

A reader sees the old content or the new, never a half; after a crash the old one is still there.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from engine.errors import InputError


def disk_full(path: Path, error: OSError) -> InputError | None:
    """The sentence for a full disk or quota, or None where ``error`` is something else."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return InputError(
            f"no room left on the disk while writing {path}: nothing was replaced; free some space and resume"
        )
    return None


def write_atomic(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Replace ``path`` by what ``write`` puts into the open file, or leave it as it was.

    Raises:
        InputError: the disk is full.
    """
    temporary = path.with_name(f".{path.name}.tmp")  # one name, so that what a kill left is replaced by the next
    try:
        with temporary.open("wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)
    except OSError as error:
        full = disk_full(path, error)
        if full is not None:
            raise full from error
        raise
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Replace a text file atomically (UTF-8; what it cannot hold, as in some file names, becomes ``?``)."""
    data = text.encode("utf-8", "replace")
    write_atomic(path, lambda file: file.write(data))


def sync_folder(folder: Path) -> None:
    """Make a rename in ``folder`` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def require_space(folder: Path, needed: int, what: str) -> None:
    """Refuse before anything is written when ``needed`` bytes do not fit.

    Raises:
        InputError: less than ``needed`` bytes are free where ``folder`` lies.
    """
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise InputError(
            f"{what} needs {needed / 1e6:.0f} MB in {folder} and only {free / 1e6:.0f} MB are free; "
            "free some space or choose another place with --sessions"
        )


def sha256_of(path: Path) -> str:
    """Hex digest of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
