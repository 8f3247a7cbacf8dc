"""The operating corpus: documents from files, folders or the hub, split before they are packed.

Several sources are read in turns. A share of the documents, chosen by content, is held out; the rest
is packed into samples without padding. What is in memory does not grow with the sources but for eight
bytes a document, by which copies are found.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine import demo
from engine.errors import InputError
from engine.events import CorpusSource
from engine.nn.load import Patient
from engine.nn.reading import Findings, documents
from engine.nn.seeds import generator
from engine.nn.tokens import Cache, Encoder, Ids, Samples, Ticker, as_samples, cache_folder, start_ids
from engine.plan import Plan
from engine.sources import hub_name, split_repeat

CHUNK = 2**20
"""Characters of documents that are tokenized, and cached, together."""
TURNS = 8
"""Where the steps are counted, each turn of a source is such a part of its share, so that one that is
read first does not serve them alone."""
COMPARED = 2**20
"""Documents that are looked up at once among others."""


@dataclass
class Corpus:
    """Packed samples, ``length`` tokens each, starting as the tokenizer starts a text."""

    train: Samples
    heldout: dict[str, Tensor]
    """By source as written: its held-out samples  # (n, length) int64. Sources without a single one are left out."""
    sources: list[CorpusSource]

    @property
    def all_heldout(self) -> Tensor:
        """The held-out samples of all sources  # (n, length)"""
        return torch.cat(list(self.heldout.values()))


def is_heldout(document: str, share: float) -> bool:
    """Whether a document belongs to the held-out part: a matter of its content alone, so copies of a
    document are always on the same side."""
    return _mark(document.encode("utf-8", "surrogatepass")) < share * 2**64


def _mark(document: bytes) -> int:
    """64 bits that stand for a document."""
    return int.from_bytes(hashlib.sha256(document).digest()[:8], "big")


@dataclass
class _Chunk:
    """Documents that were read and tokenized but not yet taken in."""

    texts: list[bytes]
    marks: list[int]
    held: NDArray[np.bool_]  # (n,)
    lengths: NDArray[np.int64]  # (n,) tokens of each
    ids: Ids  # (sum of lengths,)


class _Source:
    """One source while it is read."""

    def __init__(self, source: str, plan: Plan, cap: int, step: int) -> None:
        self.source, self.cap, self.step, self.share = source, cap, step, plan.heldout_share
        self.name, self.repeat = split_repeat(source)
        self.findings = Findings(plan.strict)
        self.chunks = _chunks(documents(self.name, self.findings))
        self.chunk: _Chunk | None = None
        self.ended = False
        self.digest = hashlib.sha256()
        self.marks = array("Q")
        self.counts, self.tokens = [0, 0], [0, 0]  # of the trained and of the held-out documents
        self.held: list[Ids] = []

    @property
    def served(self) -> bool:
        """Whether nothing more is to be held out."""
        return self.ended or self.tokens[1] // self.step >= self.cap

    def fill(self, encoder: Encoder, working: Callable[[int], None]) -> None:
        """Have documents at hand, or be at the end."""
        if self.chunk is not None or self.ended:
            return
        texts = next(self.chunks, None)
        if texts is None:
            self.ended = True
            return
        lengths, ids = encoder.encode(texts, working)
        coded = [text.encode("utf-8", "surrogatepass") for text in texts]
        marks = [_mark(text) for text in coded]
        held = np.array([mark < self.share * 2**64 for mark in marks])
        self.chunk = _Chunk(coded, marks, held, lengths.astype(np.int64), ids)

    def turn(self, train: Samples, most: int | None, wanted: int | None) -> None:
        """Take documents in until they bring ``most`` tokens to train on (None: all at hand), or just so
        many that there are ``wanted`` samples and nothing more is to be held out here."""
        chunk = self.chunk
        if chunk is None:
            return
        to_train = np.cumsum(np.where(chunk.held, 0, chunk.lengths))  # (n,) after each document
        to_hold = self.tokens[1] + np.cumsum(np.where(chunk.held, chunk.lengths, 0))
        n = len(chunk.texts)
        if most is not None:
            n = min(n, int(np.searchsorted(to_train, most)) + 1)
        if wanted is not None:
            trained = (train.tokens + self.repeat * to_train) // self.step
            enough = (trained >= wanted) & (to_hold // self.step >= self.cap)
            n = min(n, int(enough.argmax()) + 1) if enough.any() else n
        self._take(chunk, n, to_hold, train)
        rest = slice(n, None)
        ids = chunk.ids[int(chunk.lengths[:n].sum()) :]
        left = _Chunk(chunk.texts[rest], chunk.marks[rest], chunk.held[rest], chunk.lengths[rest], ids)
        self.chunk = left if left.texts else None

    def _take(self, chunk: _Chunk, n: int, to_hold: NDArray[np.int64], train: Samples) -> None:
        lengths, held = chunk.lengths[:n], chunk.held[:n]
        ids = chunk.ids[: int(lengths.sum())]
        room = (to_hold[:n] - lengths) // self.step < self.cap  # what comes later is neither trained nor held out
        for side, used in enumerate((~held, held & room)):
            self.counts[side] += int(used.sum())
            self.tokens[side] += int(lengths[used].sum())
        train.add(ids[np.repeat(~held, lengths)], self.repeat)
        if room.any():
            self.held.append(ids[np.repeat(held & room, lengths)])
        for text in chunk.texts[:n]:
            self.digest.update(text + b"\0")
        self.marks.extend(chunk.marks[:n])

    def told(self, duplicates: int) -> CorpusSource:
        return CorpusSource(
            source=self.source,
            sha256=self.digest.hexdigest(),
            documents=self.counts[0],
            heldout_documents=self.counts[1],
            train_tokens=self.tokens[0],
            heldout_tokens=self.tokens[1],
            repeat=self.repeat,
            duplicates=duplicates,
            broken=self.findings.broken,
            broken_first=self.findings.first,
            encoding_errors=self.findings.encoding_errors,
        )


def _chunks(texts: Iterator[str]) -> Iterator[list[str]]:
    chunk: list[str] = []
    size = 0
    for text in texts:
        chunk.append(text)
        size += len(text)
        if size >= CHUNK:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def read_corpus(patient: Patient, plan: Plan, progress: Callable[[int], None]) -> Corpus:
    """Read, split and pack the plan's sources. Reading stops once the plan's steps are served.

    Args:
        progress: hears now and then how many tokens were read

    Raises:
        InputError: no source, a source that cannot be read, or too little text for one sample on
            either side.
    """
    check_sources(plan)
    if plan.length > patient.context:
        raise InputError(f"samples of {plan.length} tokens are longer than the patient's context of {patient.context}")
    cache, start = Cache(cache_folder()), start_ids(patient.tokenizer)
    if plan.length <= len(start):
        raise InputError(f"a sample of {plan.length} tokens has no room for text; give a larger --length")
    encoder, train = Encoder(patient.tokenizer, cache), Samples(start, plan.length, cache.folder)
    n, wanted = len(plan.corpus), plan.steps and plan.steps * plan.micro_batch * plan.accumulate
    caps = [max(1, plan.heldout_samples // n + (i < plan.heldout_samples % n)) for i in range(n)]
    sources = [_Source(source, plan, cap, train.step) for source, cap in zip(plan.corpus, caps, strict=True)]
    ticker = Ticker(progress)

    def working(more: int) -> None:
        ticker(sum(sum(source.tokens) for source in sources) + more)

    while not all(source.ended for source in sources) and not _served(sources, train, wanted):
        most = None
        if wanted and n > 1:
            most = max(train.step, max(wanted * train.step, train.tokens) // (TURNS * n))
        for source in sources:
            source.fill(encoder, working)
            last = all(other.served for other in sources if other is not source)
            source.turn(train, most, wanted if last else None)
            working(0)
            if _served(sources, train, wanted):
                break
    cache.prune()
    held = {
        source.source: as_samples(np.concatenate([*source.held, np.zeros(0, np.int32)]), start, plan.length)[:cap]
        for source, cap in zip(sources, caps, strict=True)
    }
    corpus = Corpus(train, {name: samples for name, samples in held.items() if len(samples)}, [])
    for samples, tokens, use in (
        (len(train), train.tokens, "to train on"),
        (len(corpus.heldout), sum(source.tokens[1] for source in sources), "to hold out"),
    ):
        if not samples:
            raise InputError(
                f"the corpus {', '.join(plan.corpus)} is shorter than one sample {use}: {tokens} tokens, "
                f"and a sample has {plan.length}; give more text or a smaller --length"
            )
    copies = count_duplicates([np.frombuffer(source.marks, np.uint64) for source in sources])
    corpus.sources = [source.told(n_copies) for source, n_copies in zip(sources, copies, strict=True)]
    return corpus


def _served(sources: list[_Source], train: Samples, wanted: int | None) -> bool:
    return wanted is not None and len(train) >= wanted and all(source.served for source in sources)


def count_duplicates(marks: list[NDArray[np.uint64]]) -> list[int]:
    """How many documents of each source stand in it, or in a source before it, already.

    Args:
        marks: of each source, one per document; they are sorted in place, which takes no memory
    """
    counts = []
    for place, own in enumerate(marks):
        own.sort()
        count = 0
        for first in range(0, len(own), COMPARED):
            some = own[first : first + COMPARED]
            seen = np.zeros(len(some), bool)
            seen[1:] = some[1:] == some[:-1]
            seen[0] = first > 0 and own[first - 1] == some[0]
            for earlier in marks[:place]:
                if len(earlier):
                    seen |= earlier[np.searchsorted(earlier, some).clip(max=len(earlier) - 1)] == some
            count += int(seen.sum())
        counts.append(count)
    return counts


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
        InputError: no source is named, or one is missing, of an unknown kind, or named twice.
    """
    if not plan.corpus:
        raise InputError("the plan names no corpus; give one with --corpus (a file, a folder or a hub name)")
    names = []
    for source in plan.corpus:
        name, _ = split_repeat(source)
        if name in names:
            raise InputError(f"the plan names the corpus {name} twice; to read it twice an epoch write {name}@2")
        names.append(name)
        if demo.corpus_path(name).exists():
            next(documents(name, Findings(plan.strict)), None)
        else:
            hub_name(name)
