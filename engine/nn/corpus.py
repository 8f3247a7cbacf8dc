"""The operating corpus: documents from files, folders or the hub, split before they are packed.

Documents are read one by one through ``datasets`` (streaming, so a large source costs no memory);
a share of them, chosen by content, is held out; the rest is packed into samples without padding.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from engine import demo
from engine.errors import InputError
from engine.events import CorpusSource
from engine.nn.load import Patient
from engine.nn.seeds import generator
from engine.plan import Plan

PACKED = (".gz", ".zst")
FORMATS = {".txt": "text", ".md": "text", ".jsonl": "json", ".json": "json", ".csv": "csv", ".parquet": "parquet"}


@dataclass
class Corpus:
    """Packed samples, ``length`` tokens each, starting as the tokenizer starts a text."""

    train: Tensor  # (n_train, length) int64, on the CPU
    heldout: Tensor  # (n_heldout, length)
    sources: list[CorpusSource]


def documents(source: str) -> Iterator[str]:
    """The documents of one source, in order.

    A text file's documents are its paragraphs (blank lines between them); JSON lines, CSV and Parquet
    give their ``text`` column; a folder gives all its files; anything else is a hub name, written
    ``owner/name[:config[:split[:column]]]``.

    Raises:
        InputError: the source is missing or unreadable, or lacks the column.
    """
    path = demo.corpus_path(source)
    if path.is_dir():
        files = sorted(f for f in path.rglob("*") if _format(f) and f.is_file())
        if not files:
            raise InputError(f"the folder {source} holds no corpus file ({', '.join(FORMATS)})")
        for file in files:
            yield from _file_documents(file)
    elif path.is_file():
        yield from _file_documents(path)
    else:
        yield from _hub_documents(source)


def _format(path: Path) -> str | None:
    return FORMATS.get(Path(path.stem).suffix if path.suffix in PACKED else path.suffix)


def _file_documents(path: Path) -> Iterator[str]:
    kind = _format(path)
    if kind is None:
        raise InputError(f"{path} is no corpus file; there are {', '.join(FORMATS)}, also with .gz or .zst")
    options: dict[str, Any] = {"sample_by": "paragraph"} if kind == "text" else {}
    yield from _stream(str(path), "text", kind, data_files=str(path), split="train", **options)


def hub_name(source: str) -> tuple[str, str | None, str, str]:
    """Name, config, split and column of a hub corpus.

    Raises:
        InputError: it cannot be one, so a file or folder was meant that is not there.
    """
    name, *rest = source.split(":")
    could_be = re.fullmatch(r"[\w-][\w.-]*/[\w.-]+", name) and not Path(name).parent.is_dir()
    if not could_be or len(rest) > 3:
        raise InputError(f"corpus not found: {source}; a hub corpus is written like allenai/c4:en:validation:text")
    config, split, column = [*rest, *[""] * (3 - len(rest))]
    return name, config or None, split or "train", column or "text"


def _hub_documents(source: str) -> Iterator[str]:
    name, config, split, column = hub_name(source)
    yield from _stream(source, column, name, config, split=split)


def _stream(source: str, column: str, *args: Any, **options: Any) -> Iterator[str]:
    import datasets

    datasets.disable_progress_bars()
    try:
        for row in datasets.load_dataset(*args, streaming=True, **options):
            if not isinstance(row.get(column), str):
                raise InputError(f"{source} has no text column {column!r}; it has {', '.join(row)}")
            if row[column].strip():
                yield row[column].strip("\n")
    except InputError:
        raise
    except Exception as error:  # the library raises dozens of types for unreadable data
        reason = str(error.__cause__ or error).strip().splitlines() or [type(error).__name__]
        raise InputError(f"the corpus {source} cannot be read: {reason[0]}") from error


def is_heldout(document: str, share: float) -> bool:
    """Whether a document belongs to the held-out part: a matter of its content alone, so copies of a
    document are always on the same side."""
    digest = hashlib.sha256(document.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") < share * 2**64


class Packer:
    """Joins documents with a blank line and cuts them into samples of ``length`` tokens."""

    def __init__(self, patient: Patient, length: int) -> None:
        self.tokenizer = patient.tokenizer
        prefix = self.tokenizer("a")["input_ids"]
        body = self.tokenizer("a", add_special_tokens=False)["input_ids"]
        self.start: list[int] = prefix[: len(prefix) - len(body)] if prefix[-len(body) :] == body else []
        self.length = length
        self.samples: list[list[int]] = []
        self.rest: list[int] = []
        self.tokens = 0

    def add(self, document: str) -> int:
        """Take a document in; the number of tokens it came to."""
        ids = self.tokenizer(document + "\n\n", add_special_tokens=False, verbose=False)["input_ids"]
        self.rest += ids
        step = self.length - len(self.start)
        while len(self.rest) >= step:
            self.samples.append(self.start + self.rest[:step])
            self.rest = self.rest[step:]
        self.tokens += len(ids)
        return len(ids)

    def packed(self) -> Tensor:
        return torch.tensor(self.samples, dtype=torch.long).view(-1, self.length)  # (n, length)


def read_corpus(patient: Patient, plan: Plan, progress: Callable[[int], None]) -> Corpus:
    """Read, split and pack the plan's sources. Reading stops once the plan's steps are served.

    Raises:
        InputError: no source, a source that cannot be read, or too little text for one sample on
            either side.
    """
    check_sources(plan)
    if plan.length > patient.context:
        raise InputError(f"samples of {plan.length} tokens are longer than the patient's context of {patient.context}")
    train, heldout = Packer(patient, plan.length), Packer(patient, plan.length)
    wanted = plan.steps * plan.micro_batch * plan.accumulate if plan.steps else None
    sources = []
    for source in plan.corpus:
        digest, counts, tokens = hashlib.sha256(), [0, 0], [0, 0]
        for document in documents(source):
            digest.update(document.encode("utf-8", "surrogatepass") + b"\0")
            side = is_heldout(document, plan.heldout_share)
            if side and len(heldout.samples) >= plan.heldout_samples:
                continue
            counts[side] += 1
            tokens[side] += (heldout if side else train).add(document)
            if sum(counts) % 200 == 0:
                progress(train.tokens + heldout.tokens)
            if wanted and len(train.samples) >= wanted and len(heldout.samples) >= plan.heldout_samples:
                break
        sources.append(
            CorpusSource(
                source=source,
                sha256=digest.hexdigest(),
                documents=counts[0],
                heldout_documents=counts[1],
                train_tokens=tokens[0],
                heldout_tokens=tokens[1],
            )
        )
    for packer, use in ((train, "to train on"), (heldout, "to hold out")):
        if not packer.samples:
            raise InputError(
                f"the corpus {', '.join(plan.corpus)} is shorter than one sample {use}: {packer.tokens} tokens, "
                f"and a sample has {plan.length}; give more text or a smaller --length"
            )
    return Corpus(train.packed(), heldout.packed()[: plan.heldout_samples], sources)


class Order:
    """The order of samples: every epoch a permutation of its own, a pure function of seed and position,
    so that a resumed pass sees what the uninterrupted one would have seen."""

    def __init__(self, n_samples: int, seed: int) -> None:
        self.n_samples, self.seed = n_samples, seed
        self.epoch, self.permutation = -1, torch.empty(0)

    def at(self, position: int) -> int:
        """Index of the sample that stands at ``position`` of the endless sequence."""
        epoch, place = divmod(position, self.n_samples)
        if epoch != self.epoch:
            shuffle = generator(f"order/{epoch}", self.seed)
            self.epoch, self.permutation = epoch, torch.randperm(self.n_samples, generator=shuffle)
        return int(self.permutation[place])


def check_sources(plan: Plan) -> None:
    """Complain about a source that is not there, before anything else is done.

    Raises:
        InputError: no source is named, or one is missing or of an unknown kind.
    """
    if not plan.corpus:
        raise InputError("the plan names no corpus; give one with --corpus (a file, a folder or a hub name)")
    for source in plan.corpus:
        if demo.corpus_path(source).exists():
            next(documents(source), None)
        else:
            hub_name(source)
