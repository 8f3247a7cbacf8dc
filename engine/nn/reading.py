"""Documents out of files, folders and the hub, one after the other, in bounded memory.

Tables and the hub are read through ``datasets``, streaming. Lines are read here, because its builders
know no line numbers, give up at the first broken line and take a line of any length in whole.
"""

from __future__ import annotations

import csv
import glob
import io
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow

from engine import demo
from engine.errors import InputError
from engine.sources import COLUMN, hub_name

PACKED = {".gz": "gzip", ".zst": "zstd"}
FORMATS = {".txt": "text", ".md": "text", ".jsonl": "lines", ".json": "json", ".csv": "csv", ".parquet": "parquet"}
LONGEST = 2**20
"""Characters; a longer paragraph is read as several documents, so that a file without a blank line, or
without a line end, needs no more memory than another."""
LONGEST_LINE = 2**26
"""Characters; a longer line of JSON or CSV counts as broken."""
NAMED = 5
"""Broken lines that are named, of all that are counted."""
BOMS = (
    (b"\xff\xfe\x00\x00", "utf-32"),
    (b"\x00\x00\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
    (b"\xef\xbb\xbf", "utf-8-sig"),
)
ESCAPED = re.compile("[\ud800-\udfff]")
REPLACED = re.compile("\ufffd")


@dataclass
class Findings:
    """What was wrong in one source."""

    strict: bool = False
    """The first broken line ends the reading."""
    broken: int = 0
    first: list[str] = field(default_factory=list)
    """The first of them, as ``file:line: why``."""
    encoding_errors: int = 0
    """Lines with characters that could not be read; they stand as U+FFFD."""
    columns: list[str] = field(default_factory=list)
    """Those of the first row that lacks the column."""
    lacking: int = 0
    """Rows that lack it."""

    def add(self, where: str, why: str) -> None:
        """Count a broken line.

        Raises:
            InputError: nothing broken is let pass.
        """
        self.broken += 1
        self._name(where, why)

    def add_encoding(self, where: str) -> None:
        """Count a line in a wrong encoding. Raises: as ``add``."""
        self.encoding_errors += 1
        self._name(where, "holds what is no character of its encoding")

    def _name(self, where: str, why: str) -> None:
        if self.strict:
            raise InputError(f"{where}: {why}; mend it, or read on past it without --strict")
        if len(self.first) < NAMED:
            self.first.append(f"{where}: {why}")

    def text_of(self, row: dict[str, Any], column: str, where: str) -> str | None:
        """The document of a row; None, and counted, where it has none."""
        if column not in row:
            self.columns = self.columns or [str(name) for name in row]
            self.lacking += 1
            self.add(where, f"has no {column!r}")
        elif not isinstance(row[column], str):
            self.add(where, f"{column!r} is no string")
        else:
            return str(row[column])
        return None


def documents(source: str, findings: Findings | None = None) -> Iterator[str]:
    """The documents of one source (without a repeat count), in order.

    A text file's documents are its paragraphs (blank lines between them); JSON lines, CSV and Parquet
    give their ``text`` column; a folder gives all its files; anything else is a hub name, written
    ``owner/name[:config[:split[:column]]]``. Local files are read without the network.

    Raises:
        InputError: the source is missing or unreadable, or nothing in it is whole.
    """
    findings = findings if findings is not None else Findings()
    path = demo.corpus_path(source)
    any_ = False
    for document in _all(source, path, findings):
        any_ = True
        yield document
    if findings.broken and not any_:
        if findings.lacking == findings.broken:
            raise InputError(f"{source} has no text column {COLUMN!r}; it has {', '.join(findings.columns) or 'none'}")
        raise InputError(f"every line of the corpus {source} is broken; the first is {findings.first[0]}")


def running_text(source: str) -> Iterator[str]:
    """A source as one text to be read on and on, in pieces: a text file as it stands, to the last blank; of
    any other source its documents with a blank line after each.

    Raises:
        InputError: as for ``documents``.
    """
    path = demo.corpus_path(source)
    if not path.is_file() or _format(path) != "text":
        yield from (document + "\n\n" for document in documents(source))
        return
    rest = ""
    try:
        for block in _blocks(path, Findings()):
            text = rest + block
            place = text.rfind("\n") + 1 or len(text)
            yield text[:place]
            rest = text[place:]
    except (OSError, pyarrow.ArrowException) as error:
        raise InputError(f"the text {path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if rest:
        yield rest


def _all(source: str, path: Path, findings: Findings) -> Iterator[str]:
    if path.is_dir():
        files = sorted(f for f in path.rglob("*") if _format(f) and f.is_file())
        if not files:
            raise InputError(f"the folder {source} holds no corpus file ({', '.join(FORMATS)})")
        for file in files:
            yield from _file_documents(file, findings)
    elif path.exists():
        yield from _file_documents(path, findings)
    else:
        name, config, split, column = hub_name(source)
        yield from _stream(source, column, findings, name, config, split=split)


def _format(path: Path) -> str | None:
    packed = path.suffix.lower() in PACKED
    return FORMATS.get((Path(path.stem).suffix if packed else path.suffix).lower())


def _file_documents(path: Path, findings: Findings) -> Iterator[str]:
    kind = _format(path)
    if kind is None:
        raise InputError(f"{path} is no corpus file; there are {', '.join(FORMATS)}, also with .gz or .zst")
    try:
        if kind == "parquet" or (kind == "json" and _is_array(path)):
            # the library expands the signs of a pattern in a name, and these files mean themselves
            yield from _stream(
                str(path), COLUMN, findings, kind, data_files=glob.escape(str(path.resolve())), split="train"
            )
        else:
            read = {"text": _paragraphs, "csv": _table_rows}.get(kind, _json_lines)
            for document in read(path, findings):
                if document.strip():
                    yield document.strip("\n")
    except (OSError, UnicodeError, pyarrow.ArrowException) as error:
        raise InputError(f"the corpus {path} cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _open(path: Path, errors: str) -> io.TextIOWrapper:
    """A file, unpacked, as text; UTF-8 unless its first bytes say otherwise."""
    packed = PACKED.get(path.suffix.lower())
    with pyarrow.input_stream(str(path), compression=packed) as file:
        start = file.read(4)
    encoding = next((name for bom, name in BOMS if start.startswith(bom)), "utf-8")
    errors = errors if encoding.startswith("utf-8") else "replace"  # the others have no way to escape
    return io.TextIOWrapper(pyarrow.input_stream(str(path), compression=packed), encoding, errors)


def _is_array(path: Path) -> bool:
    with _open(path, "replace") as file:
        return file.read(1000).lstrip().startswith("[")


def _lines(path: Path, findings: Findings, longest: int) -> Iterator[tuple[int, str]]:
    """Numbered lines with their ends; a line longer than ``longest`` comes in pieces of that length."""
    with _open(path, "surrogateescape") as file:
        unread = ESCAPED if file.errors == "surrogateescape" else REPLACED
        number, begun = 0, False
        while line := file.readline(longest):
            number += not begun
            begun = not line.endswith("\n")
            if not line.isascii() and unread.search(line):
                findings.add_encoding(f"{path}:{number}")
                line = _repaired(line)
            yield number, line


def _repaired(text: str) -> str:
    """A text with U+FFFD for every byte that was no character."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def cut_at(text: str, longest: int) -> int:
    """Where to cut a text that is longer than ``longest``: before a blank in its later half, if any."""
    place = max(text.rfind(blank, longest // 2, longest) for blank in " \n\t")
    return place if place > 0 else longest


def _paragraphs(path: Path, findings: Findings) -> Iterator[str]:
    rest = ""
    for block in _blocks(path, findings):
        *whole, rest = (rest + block).split("\n\n")
        for paragraph in whole:
            yield from _cut(paragraph)
        *pieces, rest = _cut(rest)
        yield from pieces
    yield rest


def _blocks(path: Path, findings: Findings) -> Iterator[str]:
    """The text of a file, so much at a time as a document may have."""
    with _open(path, "surrogateescape") as file:
        unread = ESCAPED if file.errors == "surrogateescape" else REPLACED
        number, named = 1, 0
        while block := file.read(LONGEST):
            if not block.isascii() and unread.search(block):
                for line in (n for n, line in enumerate(block.split("\n"), number) if unread.search(line)):
                    if line != named:  # else it began in the block before
                        findings.add_encoding(f"{path}:{line}")
                    named = line
                block = _repaired(block)
            number += block.count("\n")
            yield block


def _cut(text: str) -> Iterator[str]:
    """A text in pieces of the longest length that a document may have; nearly always one."""
    while len(text) > LONGEST:
        place = cut_at(text, LONGEST)
        yield text[:place]
        text = text[place:].lstrip()
    yield text


def _whole_lines(path: Path, findings: Findings) -> Iterator[tuple[int, str]]:
    """Lines that are no longer than they may be; the others are counted as broken."""
    broken = 0
    for number, line in _lines(path, findings, LONGEST_LINE):
        if len(line) == LONGEST_LINE and not line.endswith("\n") and number != broken:
            broken = number
            findings.add(f"{path}:{number}", f"is longer than {LONGEST_LINE} characters")
        if number != broken:
            yield number, line


def _json_lines(path: Path, findings: Findings) -> Iterator[str]:
    for number, line in _whole_lines(path, findings):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            findings.add(where, f"is no JSON ({getattr(error, 'msg', 'nested too deeply')})")
            continue
        if not isinstance(row, dict):
            findings.add(where, "is no JSON object")
            continue
        text = findings.text_of(row, COLUMN, where)
        if text is not None:
            yield _sound(text, findings, where)


def _sound(text: str, findings: Findings, where: str) -> str:
    """A text without halves of characters, which JSON can write and no tokenizer reads."""
    if text.isascii() or not ESCAPED.search(text):
        return text
    findings.add_encoding(where)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _table_rows(path: Path, findings: Findings) -> Iterator[str]:
    csv.field_size_limit(LONGEST_LINE)  # the module's own is shorter than many a document
    reader = csv.reader((line for _, line in _whole_lines(path, findings)), strict=True)
    header: list[str] | None = None
    while True:
        where = f"{path}:{reader.line_num + 1}"
        try:
            row = next(reader, None)
        except csv.Error as error:
            findings.add(where, f"is no row of CSV ({error})")
            continue
        if row is None:
            return
        if not row:
            continue
        if header is None:
            header = row
        elif len(row) != len(header):
            findings.add(where, f"has {len(row)} fields under a header of {len(header)}")
        else:
            text = findings.text_of(dict(zip(header, row, strict=True)), COLUMN, where)
            if text is not None:
                yield text


def _stream(source: str, column: str, findings: Findings, *args: Any, **options: Any) -> Iterator[str]:
    """Rows by way of the library, which fetches, unpacks and parses."""
    import datasets

    if args[0] == "parquet":  # else a whole row group of documents is in memory at once
        options["batch_size"] = 64
    datasets.disable_progress_bars()
    datasets.config.HF_UPDATE_DOWNLOAD_COUNTS = False  # or a server hears of every local file that is opened
    try:
        for number, row in enumerate(datasets.load_dataset(*args, streaming=True, **options), 1):
            if column not in row:  # every row has the same ones
                raise InputError(f"{source} has no text column {column!r}; it has {', '.join(row)}")
            text = findings.text_of(row, column, f"{source}:{number}")
            if text is not None and text.strip():
                yield _sound(text.strip("\n"), findings, f"{source}:{number}")
    except InputError:
        raise
    except Exception as error:  # the library raises dozens of types for unreadable data
        reason = str(error.__cause__ or error).strip().splitlines() or [type(error).__name__]
        raise InputError(f"the corpus {source} cannot be read: {reason[0]}") from error
