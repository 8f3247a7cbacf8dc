from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.errors import InputError
from engine.nn import tokens
from engine.nn.tokens import Cache, Encoder, Samples, Ticker, as_samples, cache_folder, fingerprint, start_ids
from tests.engine.nn.patients import tokenizer


class Counting:
    """A real tokenizer that counts the texts it is asked for."""

    def __init__(self) -> None:
        self.real = tokenizer()
        self.backend_tokenizer = self.real.backend_tokenizer
        self.texts = 0

    def __call__(self, texts: list[str], **options: Any) -> Any:
        self.texts += len(texts)
        return self.real(texts, **options)


def encode(folder: Path, documents: list[str]) -> tuple[list[int], list[int], int]:
    """Lengths, ids, and how many texts were tokenized for them."""
    counting = Counting()
    lengths, ids = Encoder(counting, Cache(folder)).encode(documents, lambda done: None)
    return lengths.tolist(), ids.tolist(), counting.texts


def test_tokens_come_from_the_cache_the_second_time(tmp_path: Path) -> None:
    documents = ["abc", "defgh"]
    expected = tokenizer()("abc\n\ndefgh\n\n", add_special_tokens=False)["input_ids"]
    assert encode(tmp_path, documents) == ([5, 7], expected, 2)
    assert encode(tmp_path, documents) == ([5, 7], expected, 0)
    assert encode(tmp_path, ["abcd", "efgh"])[2] == 2  # the same letters, parted elsewhere
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("harm", ["cut", "flipped", "emptied"])
def test_a_damaged_cache_file_is_noticed_and_made_anew(tmp_path: Path, harm: str) -> None:
    documents = ["abc", "defgh"]
    whole = encode(tmp_path, documents)
    (path,) = tmp_path.iterdir()
    good = path.read_bytes()
    flipped = good[:-6] + bytes([good[-6] ^ 1]) + good[-5:]
    path.write_bytes({"cut": good[:-4], "flipped": flipped, "emptied": b""}[harm])
    assert encode(tmp_path, documents) == whole
    assert path.read_bytes() == good


def test_the_fingerprint_is_of_the_rules_and_not_of_the_last_call() -> None:
    one = tokenizer()
    before = fingerprint(one)
    one("a long text", truncation=True, max_length=3)
    one(["a", "text"], padding=True)
    assert fingerprint(one) == before == fingerprint(tokenizer())
    assert fingerprint(tokenizer(bos=False)) != before
    one.add_tokens(["birds"])
    assert fingerprint(one) != before


def test_the_cache_keeps_within_its_size_and_the_oldest_go(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    ids = np.zeros(100, np.int32)
    for age, key in enumerate("abcd"):
        cache.save(key, ids[:1], ids)
        os.utime(cache._path(key), (1000 + age, 1000 + age))
    (tmp_path / "of somebody else").write_text("kept")
    assert cache.load("a") is not None  # used now, so the youngest
    size = cache._path("a").stat().st_size
    cache.prune(2 * size)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.tokens", "d.tokens", "of somebody else"]
    cache.prune(2 * size - 1)
    assert cache.load("d") is None
    assert cache.load("a") is not None


def test_a_long_writing_prunes_on_its_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "PRUNE_EVERY", 1000)
    monkeypatch.setattr(tokens, "CACHE_BYTES", 2000)
    cache = Cache(tmp_path)
    for key in range(40):
        cache.save(str(key), np.zeros(1, np.int32), np.zeros(100, np.int32))
    assert 1 <= len(list(tmp_path.iterdir())) <= 7


def test_the_cache_leaves_room_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "SPARE_BYTES", 10**18)
    Cache(tmp_path).save("a", np.zeros(1, np.int32), np.zeros(1, np.int32))
    assert list(tmp_path.iterdir()) == []


def test_where_nothing_can_be_cached_the_work_goes_on(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    whole = encode(tmp_path / "good", ["abc"])
    assert encode(tmp_path / "file" / "tokens", ["abc"]) == whole


def test_the_cache_is_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADSURGEON_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path / "tokens"
    monkeypatch.delenv("HEADSURGEON_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder().parent.name == "headsurgeon"


def test_a_document_too_long_for_a_tokenizer_goes_in_in_pieces_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "LONGEST", 100)
    document = "word " * 30
    lengths, ids, texts = encode(tmp_path, ["abc", document])
    assert texts == 3
    assert lengths == [5, 152]
    assert tokenizer().decode(ids[5:]) == document + "\n\n"


# --- samples ---------------------------------------------------------------------------------------


def line(samples: Samples) -> list[int]:
    """All tokens of the samples without what each starts with."""
    return samples.take(list(range(len(samples))))[:, len(samples.start) :].flatten().tolist()


def test_samples_are_cut_across_parts_and_lose_nothing_but_the_end(tmp_path: Path) -> None:
    samples = Samples([1], 5, tmp_path)
    generator = np.random.default_rng(0)
    expected: list[int] = []
    for size in (3, 0, 1, 9, 4, 2, 17):
        ids = generator.integers(0, 250_000, size).astype(np.int32)
        samples.add(ids)
        expected += ids.tolist()
    assert len(samples) == 9  # 36 tokens, 4 a sample behind the first
    assert line(samples) == expected
    picked = samples.take([8, 0, 3])
    assert picked.dtype == torch.long
    assert picked.tolist() == [[1, *expected[4 * i : 4 * i + 4]] for i in (8, 0, 3)]
    assert samples.take([]).shape == (0, 5)
    for wrong in (9, -1):
        with pytest.raises(IndexError):
            samples.take([wrong])


def test_repeated_tokens_stand_in_the_line_again_and_on_the_disk_once(tmp_path: Path) -> None:
    samples = Samples([], 2, tmp_path)
    samples.add(np.array([1, 2, 3], np.int32), times=3)
    samples.add(np.array([4], np.int32))
    assert line(samples) == [1, 2, 3] * 3 + [4]
    assert samples._written == 4
    assert list(tmp_path.iterdir()) == []  # the scratch file has no name


def test_a_full_line_takes_no_more(tmp_path: Path) -> None:
    samples = Samples([9], 3, tmp_path, at_most=3)
    samples.add(np.array([1, 2, 3, 4], np.int32), times=3)  # there is room for one and a half of it
    assert samples.room == 0
    samples.add(np.array([5], np.int32))
    assert (len(samples), samples.tokens, line(samples)) == (3, 6, [1, 2, 3, 4, 1, 2])
    assert samples.take([2]).tolist() == [[9, 1, 2]]
    none = Samples([9], 3, tmp_path, at_most=0)
    none.add(np.array([1, 2], np.int32))
    assert (len(none), none._written) == (0, 0)


def test_what_the_disk_does_not_take_stays_in_memory_within_bounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "IN_MEMORY", 20)
    samples = Samples([], 2, tmp_path)
    samples.add(np.array([1, 2, 3], np.int32))
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", lambda file, data, place: 1)  # as a full disk does
        samples.add(np.array([4, 5], np.int32), times=2)
        samples.add(np.array([6, 7, 8], np.int32))
        with pytest.raises(InputError, match=r"no room for the tokens of the corpus .* HEADSURGEON_CACHE"):
            samples.add(np.array([9], np.int32))
    samples.add(np.array([10], np.int32))
    assert line(samples) == [1, 2, 3, 4, 5, 4, 5, 6, 7, 8]  # and 10, which fills no sample


def test_without_a_folder_of_its_own_the_scratch_file_lies_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = Samples([], 2, tmp_path / "missing")
    samples.add(np.array([1, 2], np.int32))
    assert (line(samples), samples._written) == ([1, 2], 2)

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise OSError("read-only")

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    kept = Samples([], 2, tmp_path)
    kept.add(np.array([1, 2], np.int32))
    assert (line(kept), kept._written) == ([1, 2], 0)


def test_tokens_of_one_text_become_samples() -> None:
    assert as_samples(np.arange(8, dtype=np.int32), [9], 4).tolist() == [[9, 0, 1, 2], [9, 3, 4, 5]]
    assert as_samples(np.arange(2, dtype=np.int32), [9], 4).shape == (0, 4)


def test_what_a_tokenizer_starts_with_is_found() -> None:
    assert start_ids(tokenizer()) == [1]
    assert start_ids(tokenizer(bos=False)) == []


def test_progress_is_told_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([10.0, 10.1, 10.6, 10.7, 11.0, 11.2])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    told: list[int] = []
    ticker = Ticker(told.append)
    for done in range(5):
        ticker(done)
    assert told == [1, 4]
