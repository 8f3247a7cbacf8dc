"""From documents to samples: token ids by way of a cache on the disk, packed without padding."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
import weakref
from array import array
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import numpy as np
import platformdirs
import tokenizers
import torch
import transformers
from numpy.typing import NDArray
from torch import Tensor

from engine.errors import InputError
from engine.files import write_atomic
from engine.nn.reading import LONGEST, cut_at

Ids = NDArray[np.int32]

CACHE_BYTES = 4_000_000_000
SPARE_BYTES = 1_000_000_000
"""The cache leaves so much of the disk to sessions."""
PRUNE_EVERY = 256_000_000
BATCH = 2**16
"""Characters that a tokenizer gets at once."""
IN_MEMORY = 2**28
"""Bytes of tokens that may stay in memory where the disk takes none."""
DIGEST = hashlib.sha256().digest_size


def cache_folder() -> Path:
    """Where tokens are kept between sessions: the user's cache folder, or HEADSURGEON_CACHE."""
    return Path(os.environ.get("HEADSURGEON_CACHE") or platformdirs.user_cache_dir("headsurgeon")) / "tokens"


def fingerprint(tokenizer: Any) -> str:
    """A digest of all that decides which ids a text gets."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is not None:
        last_call = ("truncation", "padding")  # what the tokenizer was asked for then, no rule of its own
        rules = {name: rule for name, rule in json.loads(backend.to_str()).items() if name not in last_call}
    else:
        options = {name: str(value) for name, value in tokenizer.init_kwargs.items()}
        rules = {"vocabulary": tokenizer.get_vocab(), "options": options}
    about = [type(tokenizer).__name__, transformers.__version__, tokenizers.__version__, rules]
    return hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()


class Cache:
    """Token ids of runs of documents, a file each, named by the digest of what they were made from.

    Only ever a help: what cannot be read or written, or is damaged, counts as not there.
    A file: a sha256 of the rest; then int32s: the number of documents, the length of each, all ids.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.unpruned = 0
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # the tokens are the user's texts
        except OSError:
            return

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.tokens"

    def load(self, key: str) -> tuple[Ids, Ids] | None:
        """Lengths and ids, or None."""
        path = self._path(key)
        try:
            data = path.read_bytes()
            os.utime(path)
        except OSError:
            return None
        digest, body = data[:DIGEST], memoryview(data)[DIGEST:]
        if len(body) < 4 or len(body) % 4 or hashlib.sha256(body).digest() != digest:
            return None
        values: Ids = np.frombuffer(body, "<i4")
        n_documents = int(values[0])
        return values[1 : 1 + n_documents], values[1 + n_documents :]

    def save(self, key: str, lengths: Ids, ids: Ids) -> None:
        body = np.concatenate([np.array([len(lengths)], "<i4"), lengths, ids]).astype("<i4").tobytes()
        try:
            if shutil.disk_usage(self.folder).free < SPARE_BYTES + len(body):
                return
            write_atomic(self._path(key), lambda file: file.write(hashlib.sha256(body).digest() + body))
        except (OSError, InputError):
            return
        self.unpruned += len(body)
        if self.unpruned > PRUNE_EVERY:
            self.prune()

    def prune(self, limit: int | None = None) -> None:
        """Delete what was not used for longest until the rest is within ``limit`` bytes (CACHE_BYTES)."""
        self.unpruned = 0
        found = []
        for path in self.folder.glob("*.tokens*"):
            try:
                about = path.stat()
            except OSError:  # another process prunes too
                continue
            found.append((about.st_mtime_ns, about.st_size, path))
        total = sum(size for _, size, _ in found)
        for _, size, path in sorted(found):
            if total <= (CACHE_BYTES if limit is None else limit):
                return
            try:
                path.unlink(missing_ok=True)
            except OSError:
                return
            total -= size


class Encoder:
    """Documents to token ids, each with the blank line that parts it from the next."""

    def __init__(self, tokenizer: Any, cache: Cache) -> None:
        self.tokenizer = tokenizer
        self.cache = cache
        self.fingerprint = fingerprint(tokenizer)

    def encode(self, documents: list[str], working: Callable[[int], None]) -> tuple[Ids, Ids]:
        """Lengths per document and the ids of all, in order; ``working`` hears of tokens as they come."""
        digest = hashlib.sha256(self.fingerprint.encode())
        for document in documents:
            digest.update(document.encode("utf-8", "surrogatepass") + b"\0")
        key = digest.hexdigest()
        found = self.cache.load(key)
        if found is None:
            found = self._tokenize(documents, working)
            self.cache.save(key, *found)
        return found

    def _tokenize(self, documents: list[str], working: Callable[[int], None]) -> tuple[Ids, Ids]:
        lengths = np.zeros(len(documents), np.int32)
        ids: list[Ids] = []
        batch: list[tuple[int, str]] = []
        size = done = 0
        for place, document in enumerate(documents):
            for piece in _pieces(document + "\n\n"):
                batch.append((place, piece))
                size += len(piece)
            if size >= BATCH or place == len(documents) - 1:
                texts = [piece for _, piece in batch]
                found = self.tokenizer(texts, add_special_tokens=False, verbose=False, return_attention_mask=False)[
                    "input_ids"
                ]
                for (owner, _), row in zip(batch, found, strict=True):
                    lengths[owner] += len(row)
                    ids.append(np.array(row, np.int32))
                    done += len(row)
                batch, size = [], 0
                working(done)
        return lengths, np.concatenate(ids) if ids else np.zeros(0, np.int32)


def _pieces(text: str) -> list[str]:
    """A text in pieces that no tokenizer crawls over; nearly always one."""
    pieces = []
    while len(text) > LONGEST + 2:
        place = cut_at(text, LONGEST)
        pieces.append(text[:place])
        text = text[place:]
    return [*pieces, text]


def start_ids(tokenizer: Any) -> list[int]:
    """The ids that the tokenizer puts before every text."""
    whole = tokenizer("a")["input_ids"]
    body = tokenizer("a", add_special_tokens=False)["input_ids"]
    return list(whole[: len(whole) - len(body)]) if whole[-len(body) :] == body else []


class Samples:
    """Packed samples of one long line of tokens, gathered when they are asked for.

    The tokens lie in a scratch file without a name, which nobody else reads and which is gone with the
    process: a cached file may be deleted meanwhile, and mapped pages would count as memory of ours.
    """

    def __init__(self, start: list[int], length: int, folder: Path, at_most: int | None = None) -> None:
        self.start, self.length = start, length
        self.step = length - len(start)
        """New tokens of a sample; the others are those that every text starts with."""
        self.room = sys.maxsize if at_most is None else at_most * self.step
        """Tokens that the line still takes."""
        self.folder = folder
        self.tokens = 0
        self._file: IO[bytes] | None = None
        self._written = 0
        self._begins = array("q")  # of each part: its place in the line …
        self._places = array("q")  # … and in the file, in tokens; -1-k: the k-th of those in memory
        self._memory: list[Ids] = []

    def __len__(self) -> int:
        return self.tokens // self.step

    def add(self, ids: Ids, times: int = 1) -> None:
        """Lay tokens down at the end of the line, ``times`` over, until it is full.

        Raises:
            InputError: there is no room for them on the disk and in memory.
        """
        ids = ids[: self.room]
        if not len(ids):
            return
        place = self._store(np.ascontiguousarray(ids, np.int32))
        for _ in range(times):
            count = min(len(ids), self.room)
            if not count:
                return
            self._begins.append(self.tokens)
            self._places.append(place)
            self.tokens += count
            self.room -= count

    def _store(self, ids: Ids) -> int:
        try:
            if self._file is None:
                self._file = scratch_file(self.folder)
                weakref.finalize(self, self._file.close)
            if os.pwrite(self._file.fileno(), ids.data, 4 * self._written) != ids.nbytes:
                raise OSError(errno.ENOSPC, "no room")
        except OSError as error:
            if sum(kept.nbytes for kept in self._memory) + ids.nbytes > IN_MEMORY:
                raise InputError(
                    f"no room for the tokens of the corpus in {self.folder} ({error.strerror}), and they are too many "
                    "for the memory; free some space, or name a roomy folder with HEADSURGEON_CACHE"
                ) from error
            self._memory.append(ids.copy())
            return -len(self._memory)
        self._written += len(ids)
        return self._written - len(ids)

    def take(self, indices: list[int]) -> Tensor:
        """The samples at ``indices``  # (n, length) int64, on the CPU

        Raises:
            IndexError: there is no such sample.
        """
        rows = np.empty((len(indices), self.length), np.int64)
        rows[:, : len(self.start)] = self.start
        for row, index in zip(rows, indices, strict=True):
            if not 0 <= index < len(self):
                raise IndexError(f"sample {index} of {len(self)}")
            self._gather(index * self.step, row[len(self.start) :])
        return torch.from_numpy(rows)

    def _gather(self, place: int, into: NDArray[np.int64]) -> None:
        part = bisect_right(self._begins, place) - 1
        while len(into):
            end = self._begins[part + 1] if part + 1 < len(self._begins) else self.tokens
            count = min(end - place, len(into))
            into[:count] = self._part(part, place - self._begins[part], count)
            into, place, part = into[count:], place + count, part + 1

    def _part(self, part: int, first: int, count: int) -> Ids:
        place = self._places[part]
        if place < 0:
            return self._memory[-1 - place][first : first + count]
        assert self._file is not None
        return np.frombuffer(os.pread(self._file.fileno(), 4 * count, 4 * (place + first)), np.int32)


def scratch_file(folder: Path) -> IO[bytes]:
    """A file without a name, in ``folder`` or, where nothing can be written there, in the system's place."""
    try:
        return tempfile.TemporaryFile(dir=folder, buffering=0)
    except OSError:
        return tempfile.TemporaryFile(buffering=0)


def as_samples(ids: Ids, start: list[int], length: int) -> Tensor:
    """Tokens cut into samples; what is left over is dropped  # (n, length) int64"""
    step = length - len(start)
    rows = np.empty((len(ids) // step, length), np.int64)
    rows[:, : len(start)] = start
    rows[:, len(start) :] = ids[: len(rows) * step].reshape(-1, step)
    return torch.from_numpy(rows)


class Ticker:
    """Passes a number on to ``progress``, about twice a second and not more often."""

    def __init__(self, progress: Callable[[int], None], seconds: float = 0.5) -> None:
        self.progress, self.seconds = progress, seconds
        self.last = time.monotonic()

    def __call__(self, tokens: int) -> None:
        now = time.monotonic()
        if now - self.last >= self.seconds:
            self.last = now
            self.progress(tokens)
