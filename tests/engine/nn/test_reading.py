from __future__ import annotations

import gzip
import json
import socket
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from engine.errors import InputError
from engine.nn import reading
from engine.nn.reading import Findings, cut_at, documents, running_text


def read(path: Path, strict: bool = False) -> tuple[list[str], Findings]:
    findings = Findings(strict)
    return list(documents(str(path), findings)), findings


def parquet(path: Path, **columns: Any) -> Path:
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def pack(path: Path, kind: str, text: str) -> Path:
    with pyarrow.CompressedOutputStream(str(path), kind) as file:
        file.write(text.encode())
    return path


def fill(folder: Path) -> Path:
    """One file of each format."""
    folder.mkdir()
    (folder / "a.txt").write_text("one\nstill one\n\ntwo\n\n\nthree\n")
    (folder / "b.jsonl").write_text('{"text": "four"}\n\n{"text": "five", "more": 1}\n')
    (folder / "c.csv").write_text('text,n\n"six, or so",1\n"two\nlines",2\n')
    pack(folder / "d.jsonl.gz", "gzip", '{"text": "seven"}\n')
    pack(folder / "e.txt.zst", "zstd", "eight\n\nnine")
    parquet(folder / "f [old] *.parquet", text=["ten", "eleven"], n=[1, 2])
    (folder / "g.json").write_text('[{"text": "twelve"},\n {"text": "thirteen"}]')
    (folder / "h.png").write_bytes(b"no text")
    return folder


ALL = ["one\nstill one", "two", "three", "four", "five", "six, or so", "two\nlines", "seven", "eight", "nine", "ten"]
ALL += ["eleven", "twelve", "thirteen"]


def test_paragraphs_lines_tables_and_folders_are_documents(tmp_path: Path) -> None:
    folder = fill(tmp_path / "all")
    assert list(documents(str(folder / "a.txt"))) == ["one\nstill one", "two", "three"]
    found, findings = read(folder)
    assert found == ALL
    assert (findings.broken, findings.encoding_errors, findings.first) == (0, 0, [])


def test_local_files_are_read_without_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    asked = []

    def refuse(*args: Any, **kwargs: Any) -> None:
        asked.append(args)
        raise OSError("no network here")

    for name in ("connect", "connect_ex", "sendto"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert list(documents(str(fill(tmp_path / "all")))) == ALL
    assert asked == []


def test_what_is_not_there_gets_a_sentence_before_the_hub_is_asked(tmp_path: Path) -> None:
    for missing in ("nowhere.txt", str(tmp_path / "missing"), f"{tmp_path}/sub/file.txt", "a/b/c"):
        with pytest.raises(InputError, match="corpus not found: "):
            list(documents(missing))
    (tmp_path / "z.pdf").write_text("")
    with pytest.raises(InputError, match="no corpus file"):
        list(documents(str(tmp_path / "z.pdf")))
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="holds no corpus file"):
        list(documents(str(tmp_path / "empty")))


def test_broken_lines_are_counted_and_named_and_the_rest_is_read(tmp_path: Path) -> None:
    lines = ['{"text": "fine"}', '{"text": ', '"no object"', '{"title": "x"}', '{"text": 7}', "[" * 100_000, "{}"]
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join([*lines, '{"text": "good"}']))
    found, findings = read(path)
    assert found == ["fine", "good"]
    assert findings.broken == 6
    whys = ["is no JSON (Expecting value)", "is no JSON object", "has no 'text'", "'text' is no string"]
    assert findings.first[:4] == [f"{path}:{number}: {why}" for number, why in enumerate(whys, 2)]
    assert len(findings.first) == reading.NAMED  # six are counted, five named
    with pytest.raises(InputError, match=r"x\.jsonl:2: is no JSON .* without --strict"):
        read(path, strict=True)


def test_broken_rows_of_a_table_are_counted_at_their_line(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('n,text\n1,"two\nlines"\n2\n3,a,b\n4,"good"x"\n5,last\n')
    found, findings = read(path)
    assert found == ["two\nlines", "last"]
    assert findings.broken == 3
    assert [first.partition(": ")[0] for first in findings.first] == [f"{path}:{line}" for line in (4, 5, 6)]
    assert findings.first[0].endswith("has 1 fields under a header of 2")
    table = parquet(tmp_path / "x.parquet", text=["a", None, "b"])
    found, findings = read(table)
    assert (found, findings.first) == (["a", "b"], [f"{table}:2: 'text' is no string"])


def test_nothing_whole_is_an_error_that_says_what_there_is(tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text('{"title": "no text here", "body": 1}\n{"title": "nor here"}\n')
    (tmp_path / "x.csv").write_text("title,body\na,b\n")
    parquet(tmp_path / "x.parquet", title=["a"], body=["b"])
    (tmp_path / "x.json").write_text('[{"title": "a", "body": "b"}]')
    for name in ("x.jsonl", "x.csv", "x.parquet", "x.json"):
        with pytest.raises(InputError, match="has no text column 'text'; it has title, body"):
            read(tmp_path / name)
    (tmp_path / "y.jsonl").write_text('{"text": 1}\nnothing\n')
    with pytest.raises(InputError, match=r"every line of the corpus .*; the first is .*:1: .text. is no string"):
        read(tmp_path / "y.jsonl")


def test_bytes_of_another_encoding_are_counted_and_a_mark_at_the_start_is_obeyed(tmp_path: Path) -> None:
    path = tmp_path / "latin.txt"
    path.write_bytes("plain\n\nna\u00efve caf\u00e9\nmore\n\n".encode("latin-1") + "fine \u00e9 \ufffd".encode())
    found, findings = read(path)
    assert found == ["plain", "na\ufffdve caf\ufffd\nmore", "fine \u00e9 \ufffd"]
    assert findings.encoding_errors == 1
    assert findings.first == [f"{path}:3: holds what is no character of its encoding"]
    assert findings.broken == 0
    with pytest.raises(InputError, match=r"latin\.txt:3"):
        read(path, strict=True)
    for encoding in ("utf-8-sig", "utf-16", "utf-32"):
        path.write_bytes("caf\u00e9\r\n\r\nna\u00efve \U0001f426".encode(encoding))
        found, findings = read(path)
        assert (found, findings.encoding_errors) == (["caf\u00e9", "na\u00efve \U0001f426"], 0)
    path.write_bytes("caf\u00e9 au lait".encode("utf-16")[:-1])
    assert read(path)[1].encoding_errors == 1


def test_half_a_character_in_json_is_counted_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text('{"text": "bird \\ud83d\\udc26"}\n{"text": "half \\ud83d."}\n')
    found, findings = read(path)
    assert found == ["bird \U0001f426", "half \ufffd."]
    assert (findings.encoding_errors, findings.broken) == (1, 0)


def test_a_giant_paragraph_or_line_comes_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LONGEST", 100)
    words = [f"word{i}" for i in range(200)]
    for joint in (" ", "\n"):  # one line without an end, one paragraph without a blank line
        (tmp_path / "x.txt").write_text(joint.join(words))
        found, _ = read(tmp_path / "x.txt")
        assert max(map(len, found)) <= 100
        assert len(found) < 30
        assert " ".join(found).split() == words
    (tmp_path / "x.txt").write_text("x" * 1000)
    assert [len(piece) for piece in read(tmp_path / "x.txt")[0]] == [100] * 10
    assert cut_at("aaa bbb ccc", 9) == 7
    assert cut_at("a bbbbbbbb", 8) == 8  # a blank so early would leave crumbs


def test_a_giant_line_of_a_table_is_broken_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LONGEST_LINE", 100)
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(json.dumps({"text": text}) for text in ("a", "b" * 500, "c")))
    found, findings = read(path)
    assert (found, findings.broken) == (["a", "c"], 1)
    assert findings.first == [f"{path}:2: is longer than 100 characters"]


def test_packed_files_may_be_joined_and_must_be_whole(tmp_path: Path) -> None:
    for kind, suffix in (("gzip", "gz"), ("zstd", "zst")):
        path = pack(tmp_path / f"x.txt.{suffix}", kind, "one\n\n")
        path.write_bytes(path.read_bytes() * 2)
        assert read(path)[0] == ["one", "one"]
        pack(path, kind, "\n\n".join(str(i**3) for i in range(9000)))
        path.write_bytes(path.read_bytes()[:-2000])
        with pytest.raises(InputError, match=rf"x\.txt\.{suffix} cannot be read"):
            read(path)
    (tmp_path / "y.txt.gz").write_text("not packed at all")
    with pytest.raises(InputError, match=r"y\.txt\.gz cannot be read"):
        read(tmp_path / "y.txt.gz")
    array = tmp_path / "z.json.gz"
    array.write_bytes(gzip.compress(b'[{"text": "one"}]'))
    assert read(array)[0] == ["one"]


def test_a_hub_corpus_is_asked_for_by_config_split_and_column(tmp_path: Path) -> None:
    """A folder laid out as the hub lays out a data set, read by the call that reads the hub."""
    (tmp_path / "README.md").write_text(
        "---\nconfigs:\n- config_name: en\n  data_files:\n  - split: train\n    path: train.jsonl\n"
        "  - split: validation\n    path: valid.jsonl\n---\n"
    )
    (tmp_path / "train.jsonl").write_text('{"body": "wrong split", "text": "x"}\n')
    (tmp_path / "valid.jsonl").write_text('{"body": "one", "text": "wrong column"}\n{"body": "two", "text": "x"}\n')
    found = Findings()
    stream = reading._stream
    assert list(stream("here", "body", found, str(tmp_path), "en", split="validation")) == ["one", "two"]
    with pytest.raises(InputError, match="here has no text column 'title'; it has body, text"):
        list(stream("here", "title", found, str(tmp_path), "en", split="validation"))
    with pytest.raises(InputError, match="here cannot be read: "):
        list(stream("here", "body", found, str(tmp_path), "en", split="test"))


def test_where_blocks_of_a_text_end_changes_no_document_and_no_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.txt"
    path.write_bytes(b"\n\n".join(b"%d bird \xff\n\xe9t\xe9 %d" % (i, i) for i in range(20)))
    whole = [f"{i} bird \ufffd\n\ufffdt\ufffd {i}" for i in range(20)]
    for longest in (2**20, 61, 30, 29):
        monkeypatch.setattr(reading, "LONGEST", longest)
        found, findings = read(path)
        assert found == whole
        assert findings.encoding_errors == 40
        assert [first.split(":")[1] for first in findings.first] == ["1", "2", "4", "5", "7"]


def test_a_text_file_is_read_on_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "def f():\n    return 1\n\n\n\ndef g():\n\treturn 2 \n\n\n"
    (tmp_path / "code.txt").write_text(text)
    assert "".join(running_text(str(tmp_path / "code.txt"))) == text
    monkeypatch.setattr(reading, "LONGEST", 7)
    pieces = list(running_text(str(tmp_path / "code.txt")))
    assert "".join(pieces) == text
    assert len(pieces) > 3
    (tmp_path / "two.jsonl").write_text('{"text": "one"}\n{"text": "two"}\n')
    assert "".join(running_text(str(tmp_path / "two.jsonl"))) == "one\n\ntwo\n\n"
    with pytest.raises(InputError, match="corpus not found"):
        list(running_text("nowhere.txt"))
