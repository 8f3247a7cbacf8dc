import errno
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine import events
from engine.errors import InputError
from engine.journal import Reader, Tail, Writer, append_command
from tests.engine import story

NOTES = [events.Note(text="ä first one\nof two lines"), story.step(1), events.Note(text="last")]


def write(path, told):
    writer = Writer(path)
    for event in told:
        writer.append(event)
    writer.close()


def read(path):
    return list(Reader(path).entries())


def test_events_are_numbered_and_come_back_in_order(tmp_path):
    path = tmp_path / "journal.jsonl"
    write(path, NOTES)
    entries = read(path)
    assert [entry.event for entry in entries] == NOTES
    assert [entry.seq for entry in entries] == [1, 2, 3]
    assert all(entry.time.endswith("+00:00") for entry in entries)


def test_a_line_of_the_journal(tmp_path):
    path = tmp_path / "journal.jsonl"
    write(path, [events.Note(text="ä")])
    line = json.loads(path.read_text("utf-8"))
    assert list(line) == ["seq", "time", "kind", "text"]
    assert (line["seq"], line["kind"], line["text"]) == (1, "note", "ä")


def test_the_next_writer_goes_on_counting(tmp_path):
    path = tmp_path / "journal.jsonl"
    write(path, NOTES)
    write(path, [events.Closed()])
    assert [entry.seq for entry in read(path)] == [1, 2, 3, 4]


def test_a_journal_torn_at_any_byte_is_read_as_far_as_its_lines_are_whole_and_goes_on(tmp_path):
    path = tmp_path / "journal.jsonl"
    write(path, NOTES)
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    ends = [sum(map(len, lines[:n])) for n in range(len(lines) + 1)]
    for cut in range(len(data) + 1):
        path.write_bytes(data[:cut])
        whole = max(n for n, end in enumerate(ends) if end <= cut)
        assert [entry.event for entry in read(path)] == NOTES[:whole], cut

        write(path, [events.Closed()])
        entries = read(path)
        # a line that lacked nothing but its newline is whole once the newline is there
        kept = next(n for n in (whole, whole + 1) if len(entries) == n + 1)
        assert kept == whole or cut == ends[kept] - 1
        assert [entry.event for entry in entries] == [*NOTES[:kept], events.Closed()], cut
        assert [entry.seq for entry in entries] == list(range(1, kept + 2)), cut
        assert path.read_bytes().startswith(data[:cut])  # nothing is ever rewritten


@given(st.lists(st.integers(0, 400), max_size=8))
def test_a_reader_that_follows_sees_every_line_once(tmp_path_factory, cuts):
    folder = tmp_path_factory.mktemp("journal")
    write(folder / "whole.jsonl", NOTES)
    data = (folder / "whole.jsonl").read_bytes()
    path, seen = folder / "growing.jsonl", []
    reader = Reader(path)
    for cut in [*sorted(cuts), len(data)]:
        seen += reader.entries()
        path.write_bytes(data[:cut])
    seen += reader.entries()
    assert [entry.event for entry in seen] == NOTES


def test_foreign_lines_are_passed_over(tmp_path):
    path = tmp_path / "journal.jsonl"
    write(path, NOTES[:1])
    with path.open("ab") as file:
        file.write(
            b'\n[]\n7\nnot json\n\xff\xfe\n{"seq":2}\n{"seq":3,"kind":"from_the_future"}\n{"seq":"x","kind":"closed"}\n'
        )
    assert [entry.event for entry in read(path)] == NOTES[:1]


def test_no_journal_no_entries(tmp_path):
    assert read(tmp_path / "none.jsonl") == []


@pytest.mark.parametrize("number", [float("nan"), float("inf"), -float("inf")])
def test_no_nan_reaches_a_journal(tmp_path, number):
    path = tmp_path / "journal.jsonl"
    writer = Writer(path)
    with pytest.raises(ValueError):
        writer.append(story.step(1, loss=number))
    writer.append(events.Closed())
    writer.close()
    assert [(entry.seq, entry.event) for entry in read(path)] == [(1, events.Closed())]


class FullDisk:
    """A file on a disk with so many bytes left."""

    def __init__(self, file, left):
        self.file, self.left = file, left

    def __getattr__(self, name):
        return getattr(self.file, name)

    def write(self, data):
        if not self.left:
            raise OSError(errno.ENOSPC, "No space left on device")
        part = data[: self.left]
        self.left -= len(part)
        return self.file.write(part)


@pytest.mark.parametrize("left", [0, 1, 20])
def test_a_full_disk_is_told_in_words_and_the_journal_goes_on_later(tmp_path, left):
    path = tmp_path / "journal.jsonl"
    writer = Writer(path)
    writer.append(NOTES[0])
    disk, writer.file = writer.file, FullDisk(writer.file, left)
    for _ in range(2):
        with pytest.raises(InputError, match="no room left on the disk"):
            writer.append(NOTES[1])
    writer.file = disk  # some space was made
    writer.append(NOTES[2])
    writer.close()
    write(path, [events.Closed()])
    entries = [(entry.seq, entry.event) for entry in read(path)]
    assert entries == [(1, NOTES[0]), (2, NOTES[2]), (3, events.Closed())]


def test_a_torn_journal_on_a_full_disk_is_told_in_words(tmp_path, monkeypatch):
    path = tmp_path / "journal.jsonl"
    path.write_bytes(b'{"seq":')
    real = Path.open
    monkeypatch.setattr(Path, "open", lambda self, mode, **other: FullDisk(real(self, mode, **other), 0))
    with pytest.raises(InputError, match="no room left on the disk"):
        Writer(path)


def test_what_utf_8_cannot_hold_is_no_reason_to_stop(tmp_path):
    path = tmp_path / "journal.jsonl"
    write(path, [events.Note(text="file \udcff")])
    assert [entry.event for entry in read(path)] == [events.Note(text="file ?")]


def test_commands_are_lines_of_their_own(tmp_path):
    path = tmp_path / "commands.jsonl"
    append_command(path, "pause")
    with path.open("ab") as file:
        file.write(b'{"command": "to')  # torn
    append_command(path, "note", text="two\nlines")
    found = list(Tail(path).lines())
    assert [(line["command"], line.get("text")) for line in found] == [("pause", None), ("note", "two\nlines")]


def test_a_tail_may_begin_where_the_file_ended(tmp_path):
    path = tmp_path / "commands.jsonl"
    append_command(path, "pause")
    tail = Tail(path, offset=path.stat().st_size)
    append_command(path, "resume")
    assert [line["command"] for line in tail.lines()] == ["resume"]
    assert list(tail.lines()) == []
