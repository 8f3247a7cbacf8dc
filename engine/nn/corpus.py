"""The operating corpus: documents from files, folders or the hub, split before they are packed.

Several sources are read in turns. A share of the documents, chosen by content, is held out as it is
written; the rest, in the wording and the layout that the plan asks for, is packed into samples without
padding. What is in memory does not grow with the sources but for eight bytes a document, by which copies
are found.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter
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
from engine.wording import count_words, most_frequent, one_line, only_words

CHUNK = 2**20
"""Characters of documents that are tokenized, and cached, together."""
TURNS = 8
"""Where the steps are counted, each turn of a source is such a part of its share, so that one that is
read first does not serve them alone."""
COMPARED = 2**20
"""Documents that are looked up at once among others."""
COUNTED = 4_000_000
"""Characters from the beginning of what is trained on of a source, in which its words are counted."""


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
    used: NDArray[np.bool_]  # (n,) not those that nothing is left of, nor those that there is no room for
    lengths: NDArray[np.int64]  # (n,) tokens of each; 0: not used
    ids: Ids  # (sum of lengths,)


class _Source:
    """One source while it is read."""

    def __init__(self, source: str, plan: Plan, cap: int, step: int, worded: Callable[[str], str]) -> None:
        self.source, self.cap, self.step, self.share, self.worded = source, cap, step, plan.heldout_share, worded
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

    def fill(self, encoder: Encoder, working: Callable[[int], None], held_only: bool) -> None:
        """Have documents at hand, or be at the end; where nothing is trained on any more, the others are not
        tokenized."""
        if self.chunk is not None or self.ended:
            return
        texts = next(self.chunks, None)
        if texts is None:
            self.ended = True
            return
        coded = [text.encode("utf-8", "surrogatepass") for text in texts]
        marks = [_mark(text) for text in coded]
        held = np.array([mark < self.share * 2**64 for mark in marks])
        for i in np.flatnonzero(~held):
            texts[i] = "" if held_only else self.worded(texts[i])
        used = np.array([bool(text) and not text.isspace() for text in texts])
        lengths = np.zeros(len(texts), np.int64)
        lengths[used], ids = encoder.encode([texts[i] for i in np.flatnonzero(used)], working)
        self.chunk = _Chunk(coded, marks, held, used, lengths, ids)

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
        left = _Chunk(
            chunk.texts[rest], chunk.marks[rest], chunk.held[rest], chunk.used[rest], chunk.lengths[rest], ids
        )
        self.chunk = left if left.texts else None

    def _take(self, chunk: _Chunk, n: int, to_hold: NDArray[np.int64], train: Samples) -> None:
        lengths, held = chunk.lengths[:n], chunk.held[:n]
        ids = chunk.ids[: int(lengths.sum())]
        room = (to_hold[:n] - lengths) // self.step < self.cap  # what comes later is neither trained nor held out
        to_train = np.cumsum(np.where(held, 0, lengths))  # (n,) after each document
        begun = chunk.used[:n] & (to_train - lengths < train.room)  # the last of them may find room for its beginning
        for side, used in enumerate((~held & begun, held & room)):
            self.counts[side] += int(used.sum())
            self.tokens[side] += int(lengths[used].sum())
        self.tokens[0] -= max(0, int(to_train[begun & ~held].max(initial=0)) - train.room)
        train.add(ids[np.repeat(~held, lengths)], self.repeat)
        if room.any():
            self.held.append(ids[np.repeat(held & room, lengths)])
        for text in chunk.texts[:n]:
            self.digest.update(text + b"\0")
        self.marks.extend(chunk.marks[:n])

    def samples(self, start: list[int], length: int) -> Tensor:
        """What was held out, at most ``cap`` samples  # (n, length) int64"""
        return as_samples(np.concatenate([*self.held, np.zeros(0, np.int32)]), start, length)[: self.cap]

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
    """Read, split and pack the plan's sources. Reading stops once the plan's steps, or so many different
    samples as it allows, are served. The held-out part depends on neither, nor on wording and layout.

    Args:
        progress: hears now and then how many tokens were read

    Raises:
        InputError: no source, a source that cannot be read, or too little text for one sample on
            either side.
    """
    check_sources(plan)
    encoder, train = _packing(patient, plan, plan.samples)
    n = len(plan.corpus)
    needed = [plan.steps and plan.steps * plan.micro_batch * plan.accumulate, plan.samples]
    wanted = min((count for count in needed if count), default=None)
    caps = [max(1, plan.heldout_samples // n + (i < plan.heldout_samples % n)) for i in range(n)]
    worded = _wording(plan)
    sources = [_Source(source, plan, cap, train.step, worded) for source, cap in zip(plan.corpus, caps, strict=True)]
    ticker = Ticker(progress)

    def working(more: int) -> None:
        ticker(sum(sum(source.tokens) for source in sources) + more)

    while not all(source.ended for source in sources) and not _served(sources, train, wanted):
        most = None
        if wanted and n > 1:
            most = max(train.step, max(wanted * train.step, train.tokens) // (TURNS * n))
        for source in sources:
            if source.served and not train.room:
                continue
            source.fill(encoder, working, not train.room)
            last = all(other.served for other in sources if other is not source)
            source.turn(train, most, wanted if last else None)
            working(0)
            if _served(sources, train, wanted):
                break
    encoder.cache.prune()
    held = {source.source: source.samples(train.start, plan.length) for source in sources}
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


def heldout_part(patient: Patient, plan: Plan, source: str, progress: Callable[[int], None]) -> Tensor:
    """The held-out samples of a source as a plan has them that trains on this source alone and is otherwise
    like ``plan``. Nothing else of the source is tokenized, and it is read no further.  # (n, length) int64

    Args:
        progress: hears now and then how many tokens were read

    Raises:
        InputError: the source cannot be read, or has too little text for one sample.
    """
    encoder, nothing = _packing(patient, plan, 0)
    reading = _Source(source, plan, plan.heldout_samples, nothing.step, str)
    ticker = Ticker(progress)
    while not reading.served:
        reading.fill(encoder, lambda more: ticker(reading.tokens[1] + more), held_only=True)
        reading.turn(nothing, None, 0)
    samples = reading.samples(nothing.start, plan.length)
    if not len(samples):
        raise InputError(
            f"the held-out part of {source} is shorter than one sample: {reading.tokens[1]} tokens, and a sample has "
            f"{plan.length}; watch a longer text, or give a smaller --length"
        )
    return samples


def _packing(patient: Patient, plan: Plan, at_most: int | None) -> tuple[Encoder, Samples]:
    """What makes samples of text, and the line of those to train on, ``at_most`` so many."""
    before = len(patient.before)
    if plan.length > patient.context - before:
        raise InputError(
            f"samples of {plan.length} tokens are longer than the patient's context of {patient.context}"
            + (", of which the placeholder takes one" if before else "")
        )
    cache, start = Cache(cache_folder()), start_ids(patient.tokenizer)
    if plan.length <= len(start):
        raise InputError(f"a sample of {plan.length} tokens has no room for text; give a larger --length")
    return Encoder(patient.tokenizer, cache), Samples(start, plan.length, cache.folder, at_most)


def _wording(plan: Plan) -> Callable[[str], str]:
    """What becomes of a document that is trained on. The words that stay are counted over the beginning of
    each source, as often as the source is read."""
    counts = Counter[str]()
    for source in plan.corpus if plan.vocabulary else ():
        name, repeat = split_repeat(source)
        for word, count in count_words(_beginning(name, plan)).items():
            counts[word] += repeat * count
    known = most_frequent(counts, plan.vocabulary)

    def worded(document: str) -> str:
        document = only_words(document, known) if plan.vocabulary else document
        return one_line(document) if plan.layout == "one_line" else document

    return worded


def _beginning(name: str, plan: Plan) -> Iterator[str]:
    """The first documents of a source that are trained on."""
    size = 0
    for document in documents(name, Findings(plan.strict)):
        if not is_heldout(document, plan.heldout_share):
            yield document
            size += len(document)
            if size >= COUNTED:
                return


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
        InputError: no source is named, or one is missing, of an unknown kind, or named twice; also of those
            that are only watched.
    """
    if not plan.corpus:
        raise InputError("the plan names no corpus; give one with --corpus (a file, a folder or a hub name)")
    names = []
    for source in plan.corpus:
        name, _ = split_repeat(source)
        if name in names:
            raise InputError(f"the plan names the corpus {name} twice; to read it twice an epoch write {name}@2")
        names.append(name)
    for name in [*names, *plan.watch, *(split_repeat(source)[0] for source in plan.watch_heldout)]:
        if demo.corpus_path(name).exists():
            next(documents(name, Findings(plan.strict)), None)
        else:
            hub_name(name)
