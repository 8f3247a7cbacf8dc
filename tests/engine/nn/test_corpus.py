from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from engine.errors import InputError
from engine.nn import corpus as module
from engine.nn import tokens
from engine.nn.corpus import Corpus, Order, check_sources, count_duplicates, is_heldout, read_corpus
from engine.nn.load import Patient, load
from engine.plan import Plan
from tests.engine.nn.patients import make_patient


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Patient:
    """One for all: reading changes nothing about it."""
    return load(str(make_patient(tmp_path_factory.mktemp("tiny"))), device="cpu")


@pytest.fixture(autouse=True)
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HEADSURGEON_CACHE", str(tmp_path / "cache"))
    yield


def plan(*sources: object, **values: object) -> Plan:
    return Plan.model_validate({"targets": "all", "corpus": [str(s) for s in sources], "length": 16, **values})


def read(patient: Patient, *sources: object, **values: object) -> Corpus:
    return read_corpus(patient, plan(*sources, **values), lambda tokens: None)


def train(corpus: Corpus) -> torch.Tensor:
    return corpus.train.take(list(range(len(corpus.train))))


def write(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def text_of(patient: Patient, samples: torch.Tensor) -> str:
    """What stands in samples, without the <s> that starts each."""
    return str(patient.tokenizer.decode(samples[:, 1:].flatten().tolist()))


def test_samples_are_the_documents_joined_by_blank_lines_and_cut(patient: Patient, tmp_path: Path) -> None:
    """Against the plainest packing of the same text: nothing is padded, nothing is lost."""
    texts = [f"document number {i}: {'word ' * (i % 7)}." for i in range(300)]
    (tmp_path / "a.txt").write_text("\n\n".join(texts))
    corpus = read(patient, tmp_path / "a.txt", heldout_samples=10_000)
    for samples, side in ((train(corpus), False), (corpus.all_heldout, True)):
        ids = patient.tokenizer("".join(t + "\n\n" for t in texts if is_heldout(t, 0.1) == side))["input_ids"][1:]
        rows = [[1, *ids[i : i + 15]] for i in range(0, len(ids) // 15 * 15, 15)]
        assert samples.tolist() == rows


def test_a_tokenizer_that_starts_with_nothing_is_left_so(tmp_path: Path) -> None:
    bare = load(str(make_patient(tmp_path / "bare", bos=False)), device="cpu")
    corpus = read(bare, write(tmp_path / "a.jsonl", [f"abcdefgh{i}" for i in range(40)]), length=4)
    assert bare.tokenizer.decode(train(corpus)[0].tolist()) == "abcd"


def test_no_document_is_on_both_sides_and_copies_stay_together(patient: Patient, tmp_path: Path) -> None:
    texts = [f"document number {i}: {'word ' * (i % 7)}" for i in range(300)]
    corpus = read(patient, write(tmp_path / "twice.jsonl", texts + texts), heldout_samples=10_000)
    held = [t for t in texts if is_heldout(t, 0.1)]
    source = corpus.sources[0]
    assert source.heldout_documents == 2 * len(held)
    assert source.documents == 2 * (300 - len(held))
    assert source.duplicates == 300
    assert 15 <= len(held) <= 45  # a tenth of 300, give or take three standard deviations


def test_copies_in_another_source_are_counted_there(patient: Patient, tmp_path: Path) -> None:
    texts = [f"document number {i}" for i in range(200)]
    one = write(tmp_path / "one.jsonl", [*texts, texts[0]])
    two = write(tmp_path / "two.jsonl", [*texts[:50], *(f"another {i}" for i in range(100)), "another 3"])
    corpus = read(patient, one, f"{two}@3")
    assert [source.duplicates for source in corpus.sources] == [1, 51]


def test_duplicates_are_exact_across_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMPARED", 7)
    draw = np.random.default_rng(0)
    sources = [draw.integers(0, 60, n).astype(np.uint64) for n in (50, 0, 80, 33)]
    seen: set[int] = set()
    expected = []
    for source in sources:
        count = 0
        for mark in source.tolist():
            count += mark in seen
            seen.add(mark)
        expected.append(count)
    assert count_duplicates(sources) == expected


def test_a_repeated_source_is_trained_on_as_often_and_held_out_once(patient: Patient, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [f"document number {i}" for i in range(100)])
    once, thrice = read(patient, path), read(patient, f"{path}@3")
    one = once.train.tokens
    assert thrice.train.tokens == 3 * one
    text = text_of(patient, train(once))
    assert text_of(patient, train(thrice)).count(text) >= 2  # the third may lack its end
    assert torch.equal(once.all_heldout, thrice.all_heldout)
    told = thrice.sources[0]
    assert (told.repeat, told.train_tokens, told.duplicates) == (3, one, 0)
    with pytest.raises(InputError, match="a whole number of times"):
        check_sources(plan(f"{path}@0"))
    with pytest.raises(InputError, match=r"names the corpus .*a\.jsonl twice; .*a\.jsonl@2"):
        check_sources(plan(path, path))


def test_sources_share_the_held_out_samples_and_keep_their_names(patient: Patient, tmp_path: Path) -> None:
    one = write(tmp_path / "one.jsonl", [f"one {i} " + "a" * 30 for i in range(400)])
    two = write(tmp_path / "two.jsonl", [f"two {i} " + "b" * 30 for i in range(400)])
    corpus = read(patient, one, f"{two}@2", heldout_samples=11)
    assert {name: len(samples) for name, samples in corpus.heldout.items()} == {str(one): 6, f"{two}@2": 5}
    assert corpus.all_heldout.shape == (11, 16)
    assert "b" not in text_of(patient, corpus.heldout[str(one)])
    assert "a" not in text_of(patient, corpus.heldout[f"{two}@2"])
    assert [source.source for source in corpus.sources] == [str(one), f"{two}@2"]


@pytest.mark.parametrize("count", [1, 3])
def test_counted_steps_take_from_every_source_its_share(patient: Patient, tmp_path: Path, count: int) -> None:
    """Though what is tokenized at once of the first alone would serve them."""
    one = write(tmp_path / "one.jsonl", [f"{i:>08}" + "a" * 30 for i in range(3000)])
    two = write(tmp_path / "two.jsonl", [f"{i:>08}" + "b" * 30 for i in range(3000)])
    corpus = read(patient, one, f"{two}@{count}", steps=100, micro_batch=2, accumulate=5, heldout_samples=4)
    assert 1000 <= len(corpus.train) < 1500
    text = text_of(patient, train(corpus))
    assert text.count("b") / text.count("a") == pytest.approx(count, rel=0.35)
    assert all(source.documents < 500 for source in corpus.sources)


def test_without_steps_everything_is_read_chunk_by_chunk_in_turns(
    patient: Patient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "CHUNK", 200)
    texts = {letter: [f"{i:>03} " + letter * 96 for i in range(40)] for letter in "ab"}
    kept = {letter: [t for t in some if not is_heldout(t, 0.1)] for letter, some in texts.items()}
    held = [t for t in texts["b"] if is_heldout(t, 0.1)]
    one = write(tmp_path / "one.jsonl", kept["a"][:8])
    two = write(tmp_path / "two.jsonl", kept["b"][:4] + held)
    corpus = read(patient, one, two)
    found = text_of(patient, train(corpus))
    letters = [letter for letter in found if letter in "ab"]
    runs = [letter for letter, before in zip(letters, [" ", *letters], strict=False) if letter != before]
    assert runs == ["a", "b", "a", "b", "a"]
    assert [source.documents for source in corpus.sources] == [8, 4]


def test_what_a_chunk_holds_changes_no_sample(
    patient: Patient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "a.jsonl", [f"document number {i}" for i in range(500)])
    values = [{}, {"steps": 3, "micro_batch": 2, "accumulate": 2, "heldout_samples": 5}]
    whole = [read(patient, path, **v) for v in values]
    monkeypatch.setattr(module, "CHUNK", 100)
    for v, expected in zip(values, whole, strict=True):
        small = read(patient, path, **v)
        assert torch.equal(train(small), train(expected))
        assert torch.equal(small.all_heldout, expected.all_heldout)
        assert small.sources == expected.sources


def test_reading_stops_when_the_steps_are_served(patient: Patient, tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("\n\n".join(f"paragraph {i} of a long text" for i in range(5000)))
    corpus = read(patient, path, steps=2, micro_batch=2, accumulate=3, heldout_samples=4)
    assert 12 <= len(corpus.train) < 200
    assert len(corpus.all_heldout) == 4
    assert corpus.sources[0].documents < 200


def test_an_endless_source_serves_counted_steps(
    patient: Patient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A source larger than any memory is read no further than it must be."""
    given = []

    def endless(source: str, findings: object = None) -> Iterator[str]:
        for i in range(10**12):
            given.append(i)
            yield f"paragraph {i} of a text without an end"

    monkeypatch.setattr(module, "documents", endless)
    monkeypatch.setattr(module, "CHUNK", 10_000)
    (tmp_path / "a.txt").touch()
    corpus = read(patient, tmp_path / "a.txt", steps=2)
    assert len(corpus.train) >= 16
    assert len(given) < 5000


def test_broken_lines_are_told_and_strict_refuses_them(patient: Patient, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [f"document number {i}" for i in range(100)])
    with path.open("ab") as file:
        file.write(b'{"text": 1}\n{"text": "caf\xe9"}\n')
    told = read(patient, path).sources[0]
    assert (told.broken, told.encoding_errors) == (1, 1)
    assert told.broken_first == [
        f"{path}:101: 'text' is no string",
        f"{path}:102: holds what is no character of its encoding",
    ]
    with pytest.raises(InputError, match=r"a\.jsonl:101: 'text' is no string"):
        read(patient, path, strict=True)


def test_a_second_reading_is_equal_and_tokenizes_nothing(
    patient: Patient, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = read(patient, corpus)

    def refuse(*args: object) -> None:
        raise AssertionError("tokenized again")

    monkeypatch.setattr(tokens.Encoder, "_tokenize", refuse)
    two = read(patient, corpus)
    assert torch.equal(train(one), train(two))
    assert torch.equal(one.all_heldout, two.all_heldout)
    assert one.sources == two.sources
    with pytest.raises(AssertionError, match="tokenized again"):
        corpus.write_text(corpus.read_text() + "\n\nmore")
        read(patient, corpus)


def test_an_unwritable_cache_stops_nothing(
    patient: Patient, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = train(read(patient, corpus))
    (tmp_path / "file").touch()
    monkeypatch.setenv("HEADSURGEON_CACHE", str(tmp_path / "file"))
    assert torch.equal(train(read(patient, corpus)), expected)


def test_progress_counts_the_tokens_read(patient: Patient, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens.Ticker, "__call__", lambda ticker, tokens: ticker.progress(tokens))
    told: list[int] = []
    found = read_corpus(patient, plan(corpus), told.append)
    assert told == sorted(told)
    assert told[-1] == sum(source.train_tokens + source.heldout_tokens for source in found.sources) > 0


def test_too_little_text_says_how_much_there_is(patient: Patient, tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_text("too short\n")
    with pytest.raises(InputError, match="shorter than one sample to train on: 11 tokens, and a sample has 16"):
        read(patient, path)


def test_samples_that_cannot_be_are_refused(patient: Patient, corpus: Path) -> None:
    with pytest.raises(InputError, match="longer than the patient's context of 64"):
        read(patient, corpus, length=65)
    with pytest.raises(InputError, match="the plan names no corpus"):
        read(patient)


def test_every_epoch_is_a_permutation_and_position_is_all_that_counts() -> None:
    order = Order(7, seed=1)
    epochs = [[order.at(7 * e + i) for i in range(7)] for e in range(3)]
    assert all(sorted(epoch) == list(range(7)) for epoch in epochs)
    assert len({tuple(e) for e in epochs}) == 3
    assert [Order(7, seed=1).at(i) for i in (20, 3)] == [epochs[2][6], epochs[0][3]]
    assert [Order(7, seed=2).at(i) for i in range(7)] != epochs[0]


# --- what a plan makes of its corpus ---------------------------------------------------------------

TEXTS = [f"Number {i}:  birds\nand {'tall ' * (i % 2)}trees{i % 40} by\tthe river." for i in range(300)]


def trained(texts: list[str]) -> list[str]:
    return [text for text in texts if not is_heldout(text, 0.1)]


@pytest.mark.parametrize(
    "values",
    [
        {"samples": 3},
        {"samples": 9, "steps": 50},
        {"vocabulary": 4},
        {"vocabulary": 1, "samples": 2, "layout": "one_line"},
    ],
)
def test_the_held_out_part_is_the_same_whatever_is_made_of_the_rest(
    patient: Patient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: dict[str, object]
) -> None:
    """Else the perplexities of two such plans could not be compared."""
    monkeypatch.setattr(module, "CHUNK", 1000)
    paths = [write(tmp_path / "one.jsonl", TEXTS), write(tmp_path / "two.jsonl", [t[::-1] for t in TEXTS])]
    plain, other = read(patient, *paths, heldout_samples=13), read(patient, *paths, heldout_samples=13, **values)
    assert list(plain.heldout) == list(other.heldout)
    assert torch.equal(plain.all_heldout, other.all_heldout)
    for one, two in zip(plain.sources, other.sources, strict=True):
        assert (one.heldout_documents, one.heldout_tokens) == (two.heldout_documents, two.heldout_tokens)
    assert train(plain).tolist() != train(other).tolist()


def test_so_many_different_samples_from_the_beginning_and_what_is_told_of_them(
    patient: Patient, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.jsonl", TEXTS)
    few, all_ = read(patient, path, samples=7), read(patient, path)
    assert len(few.train) == 7
    assert torch.equal(train(few), train(all_)[:7])
    ends = np.cumsum([len(text) + 2 for text in trained(TEXTS)])  # a token a character, and the blank line
    told = few.sources[0]
    assert (told.documents, told.train_tokens) == (int(np.searchsorted(ends, 7 * 15)) + 1, 7 * 15)
    assert len(read(patient, path, samples=10_000).train) == len(all_.train)
    assert len(read(patient, path, samples=7, steps=100).train) == 7
    stepped = read(patient, path, samples=10_000, steps=1, heldout_samples=4)  # no more than the step needs
    assert 8 <= len(stepped.train) < 50


def test_samples_come_from_every_source_and_count_what_is_repeated(patient: Patient, tmp_path: Path) -> None:
    one = write(tmp_path / "one.jsonl", [f"{i:>08}" + "a" * 30 for i in range(3000)])
    two = write(tmp_path / "two.jsonl", [f"{i:>08}" + "b" * 30 for i in range(3000)])
    corpus = read(patient, one, f"{two}@3", samples=1000, heldout_samples=4)
    text = text_of(patient, train(corpus))
    assert len(corpus.train) == 1000
    assert text.count("b") / text.count("a") == pytest.approx(3, rel=0.35)
    first, second = corpus.sources
    assert first.train_tokens + 3 * second.train_tokens == pytest.approx(15_000, rel=0.2)
    cut = read(patient, f"{two}@3", samples=4, heldout_samples=4)  # full before the first reading ends
    assert text_of(patient, train(cut)) == f"00000000{'b' * 30}\n\n00000002{'b' * 12}"
    assert (cut.sources[0].documents, cut.sources[0].train_tokens) == (2, 60)


def test_what_nothing_trains_on_is_not_tokenized(
    patient: Patient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = []
    encode = tokens.Encoder.encode

    def listening(encoder: tokens.Encoder, documents: list[str], working: object) -> object:
        given.extend(documents)
        return encode(encoder, documents, working)  # type: ignore[arg-type]

    monkeypatch.setattr(tokens.Encoder, "encode", listening)
    monkeypatch.setattr(module, "CHUNK", 300)
    held = [text for text in TEXTS if is_heldout(text, 0.1)]
    path = write(tmp_path / "a.jsonl", TEXTS)
    corpus = read(patient, path, samples=1, heldout_samples=10_000)
    assert set(held) < set(given)
    assert len(given) < len(held) + 20
    given.clear()
    part = module.heldout_part(patient, plan(heldout_samples=6), str(path), lambda tokens: None)
    assert torch.equal(part, corpus.all_heldout[:6])
    assert given == held[: len(given)]
    assert sum(len(text) + 2 for text in given) < 6 * 15 + 300


def test_the_held_out_part_alone_is_that_of_a_plan_on_its_source(patient: Patient, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", TEXTS)
    for values in ({}, {"length": 32, "heldout_share": 0.3}, {"heldout_samples": 10_000}):
        expected = read(patient, path, **values).all_heldout
        other = plan("elsewhere.txt", steps=3, samples=1, vocabulary=2, **values)
        for written in (str(path), f"{path}@5"):
            assert torch.equal(module.heldout_part(patient, other, written, lambda tokens: None), expected)
    (tmp_path / "short.txt").write_text("too short")
    with pytest.raises(InputError, match=r"held-out part of .*short\.txt is shorter than one sample: 0 tokens"):
        module.heldout_part(patient, other, str(tmp_path / "short.txt"), lambda tokens: None)


def test_what_is_trained_on_in_one_line_and_in_few_words(patient: Patient, tmp_path: Path) -> None:
    rare = ["Zebras!", "zebras"]  # documents of which the second leaves nothing
    assert trained(rare) == rare
    path = write(tmp_path / "a.jsonl", [*TEXTS, *rare])
    plain = read(patient, path)
    lines = read(patient, path, layout="one_line")
    expected = "".join(" ".join(text.split()) + "\n\n" for text in trained([*TEXTS, *rare]))
    assert text_of(patient, train(lines)) == expected[: 15 * len(lines.train)]
    words = read(patient, path, vocabulary=6)  # and, birds, by, number, river, the; tall stands in every other one
    found = text_of(patient, train(words))
    assert found.startswith("Number 1:  birds\nand by\tthe river.\n\nNumber 2:  birds\nand by")
    assert "tall" not in found
    assert "trees" not in found
    assert "river.\n\n!\n\n" in found + "\n\n"
    both = text_of(patient, train(read(patient, path, vocabulary=6, layout="one_line")))
    assert both.startswith("Number 1: birds and by the river.\n\nNumber 2: birds and by the")
    assert [c.sources[0].documents - plain.sources[0].documents for c in (lines, words)] == [0, -1]
    assert {c.sources[0].sha256 for c in (plain, lines, words)} == {plain.sources[0].sha256}
    assert torch.equal(train(read(patient, path)), train(plain))  # though the same documents were cached otherwise
    assert torch.equal(train(read(patient, path, vocabulary=6)), train(words))


def test_words_are_counted_where_they_are_trained_on_and_as_often(
    patient: Patient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = trained([f"ant {i}" for i in range(60)])[:20]
    held = [text for text in (f"cow {i}" for i in range(900)) if is_heldout(text, 0.1)]
    one = write(tmp_path / "one.jsonl", held + kept)
    two = write(tmp_path / "two.jsonl", trained([f"bee {i}" for i in range(60)])[:15])
    assert len(held) > 40

    def letters(*sources: object) -> str:
        text = text_of(patient, train(read(patient, *sources, vocabulary=1, length=8)))
        return "".join(word for word in ("ant", "bee", "cow") if word in text)

    assert letters(one, two) == "ant"
    assert letters(one, f"{two}@2") == "bee"
    monkeypatch.setattr(module, "COUNTED", 10)  # no more than the first two of each
    assert letters(one, f"{two}@2") == "bee"
    assert letters(two, one) == "ant"  # as often, and before it in the order of letters


def test_watched_sources_are_looked_for_before_anything_is_done(corpus: Path) -> None:
    for name in ("watch", "watch_heldout"):
        with pytest.raises(InputError, match=r"corpus not found: nowhere\.txt"):
            check_sources(plan(corpus, **{name: [str(corpus), "nowhere.txt"]}))
    check_sources(plan(corpus, watch=[str(corpus)], watch_heldout=[f"{corpus}@2"]))
