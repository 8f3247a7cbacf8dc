from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
import torch

from engine.errors import InputError
from engine.nn.corpus import Order, Packer, documents, hub_name, is_heldout, read_corpus
from engine.nn.load import Patient, load
from engine.plan import Plan
from tests.engine.nn.patients import make_patient


def plan(*sources: Path, **values: object) -> Plan:
    return Plan.model_validate({"targets": "all", "corpus": [str(s) for s in sources], "length": 16, **values})


def read(patient: Patient, *sources: Path, **values: object):  # type: ignore[no-untyped-def]
    return read_corpus(patient, plan(*sources, **values), lambda tokens: None)


def test_paragraphs_lines_tables_and_folders_are_documents(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\nstill one\n\ntwo\n\n\nthree\n")
    (tmp_path / "b.jsonl").write_text('{"text": "four"}\n{"text": "five", "more": 1}\n')
    (tmp_path / "c.csv").write_text('text,n\n"six, or so",1\n')
    with gzip.open(tmp_path / "d.jsonl.gz", "wt") as file:
        file.write('{"text": "seven"}\n')
    (tmp_path / "e.png").write_bytes(b"no text")
    assert list(documents(str(tmp_path / "a.txt"))) == ["one\nstill one", "two", "three"]
    assert list(documents(str(tmp_path))) == ["one\nstill one", "two", "three", "four", "five", "six, or so", "seven"]


def test_what_cannot_be_read_gets_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"corpus not found: nowhere\.txt"):
        list(documents("nowhere.txt"))
    with pytest.raises(InputError, match="corpus not found"):
        list(documents(str(tmp_path / "missing")))
    (tmp_path / "x.jsonl").write_text('{"title": "no text here"}\n')
    with pytest.raises(InputError, match="no text column 'text'; it has title"):
        list(documents(str(tmp_path / "x.jsonl")))
    (tmp_path / "y.jsonl").write_text('{"text": "fine"}\n{"text": \n')
    with pytest.raises(InputError, match=r"y\.jsonl cannot be read"):
        list(documents(str(tmp_path / "y.jsonl")))
    (tmp_path / "z.pdf").write_text("")
    with pytest.raises(InputError, match="no corpus file"):
        list(documents(str(tmp_path / "z.pdf")))


def test_hub_names_carry_config_split_and_column() -> None:
    assert hub_name("allenai/c4:en:validation:text") == ("allenai/c4", "en", "validation", "text")
    assert hub_name("owner/data") == ("owner/data", None, "train", "text")
    assert hub_name("owner/data::test") == ("owner/data", None, "test", "text")


def test_no_document_is_on_both_sides_and_copies_stay_together(patient: Patient, tmp_path: Path) -> None:
    texts = [f"document number {i}: {'word ' * (i % 7)}" for i in range(300)]
    path = tmp_path / "twice.jsonl"
    path.write_text("".join(json.dumps({"text": t}) + "\n" for t in texts + texts))
    corpus = read(patient, path, heldout_samples=10_000)
    held = [t for t in texts if is_heldout(t, 0.1)]
    source = corpus.sources[0]
    assert source.heldout_documents == 2 * len(held)
    assert source.documents == 2 * (300 - len(held))
    assert 15 <= len(held) <= 45  # a tenth of 300, give or take three standard deviations


def test_samples_have_no_padding_start_with_the_first_token_and_lose_nothing(patient: Patient) -> None:
    packer = Packer(patient, 16)
    text = "abcdefghijklmnopqrstuvwxyz" * 3
    packer.add(text)
    samples = packer.packed()
    assert samples.shape == (5, 16)  # 78 letters and two line ends, 15 a sample behind <s>
    assert (samples[:, 0] == 1).all()
    assert (samples != 3).all()
    assert patient.tokenizer.decode(samples[:, 1:].flatten().tolist()) == (text + "\n\n")[:75]


def test_a_tokenizer_that_starts_with_nothing_is_left_so(tmp_path: Path) -> None:
    patient = load(str(make_patient(tmp_path / "bare", bos=False)), device="cpu")
    packer = Packer(patient, 4)
    packer.add("abcdefg")
    assert packer.start == []
    assert patient.tokenizer.decode(packer.packed()[0].tolist()) == "abcd"


def test_too_little_text_says_how_much_there_is(patient: Patient, tmp_path: Path) -> None:
    path = tmp_path / "short.txt"
    path.write_text("too short\n")
    with pytest.raises(InputError, match="shorter than one sample to train on: 11 tokens, and a sample has 16"):
        read(patient, path)


def test_samples_longer_than_the_context_are_refused(patient: Patient, corpus: Path) -> None:
    with pytest.raises(InputError, match="longer than the patient's context of 64"):
        read(patient, corpus, length=65)


def test_reading_stops_when_the_steps_are_served(patient: Patient, tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("\n\n".join(f"paragraph {i} of a long text" for i in range(5000)))
    corpus = read(patient, path, steps=2, micro_batch=2, accumulate=3, heldout_samples=4)
    assert 12 <= len(corpus.train) < 200
    assert len(corpus.heldout) == 4
    assert corpus.sources[0].documents < 200


def test_every_epoch_is_a_permutation_and_position_is_all_that_counts() -> None:
    order = Order(7, seed=1)
    epochs = [[order.at(7 * e + i) for i in range(7)] for e in range(3)]
    assert all(sorted(epoch) == list(range(7)) for epoch in epochs)
    assert len({tuple(e) for e in epochs}) == 3
    assert [Order(7, seed=1).at(i) for i in (20, 3)] == [epochs[2][6], epochs[0][3]]
    assert [Order(7, seed=2).at(i) for i in range(7)] != epochs[0]


def test_two_readings_are_equal(patient: Patient, corpus: Path) -> None:
    one, two = read(patient, corpus), read(patient, corpus)
    assert torch.equal(one.train, two.train)
    assert one.sources == two.sources
