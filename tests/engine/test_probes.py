import unicodedata

import pytest

from engine.errors import InputError
from engine.probes import BETWEEN_PARTS, Probe, read_probes


@pytest.fixture
def written(tmp_path):
    def write(text, name="texts.jsonl"):
        path = tmp_path / name
        path.write_bytes(text.encode("utf-8"))
        return str(path)

    return write


def test_the_built_in_texts_are_many_long_and_of_several_scripts():
    probes = read_probes()
    assert len({probe.name for probe in probes}) == len(probes) >= 30
    caps = [probe.tokens for probe in probes]
    assert min(caps) == 32 and {512, 1024, 2048} <= set(caps)
    whole = next(probe.text for probe in probes if probe.tokens == 2048)
    assert len(whole.encode()) > 14_000  # enough for 2048 tokens of seven bytes
    scripts = {unicodedata.name(c, "").split()[0] for c in whole if c.isalpha()}
    assert {"LATIN", "ARABIC", "CJK", "DEVANAGARI", "CYRILLIC", "GREEK", "HIRAGANA"} <= scripts
    short = [probe for probe in probes if probe.tokens < 512]
    assert all(probe.text in whole for probe in short)


def test_what_is_measured_on_a_bloom_stays_affordable():
    assert sum(probe.tokens for probe in read_probes()) < 8000


def test_one_text_a_line(written):
    path = written("first line\r\n\n  \nsecond\u2028still second\n", "texts.txt")
    assert read_probes(path) == [Probe("line 1", "first line"), Probe("line 4", "second\u2028still second")]


def test_jsonl_with_names_and_lengths(written):
    path = written('\ufeff{"text": "one"}\n{"name": "b", "text": "two\\nlines", "tokens": 32}\n')
    assert read_probes(path) == [Probe("line 1", "one"), Probe("b", "two\nlines", 32)]


def test_parts_join_texts_above(written):
    path = written('{"name": "a", "text": "x"}\n{"text": "y"}\n{"name": "ab", "parts": ["line 2", "a"], "tokens": 9}\n')
    assert read_probes(path)[2] == Probe("ab", f"y{BETWEEN_PARTS}x", 9)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("", "holds no text"),
        ("\n \n", "holds no text"),
        ("{", "line 1 of .* is no JSON object with a `text`"),
        ("3", "line 1 of .* is no JSON object with a `text`"),
        ('["text"]', "line 1 of .* is no JSON object with a `text`"),
        ('\n{"name": "a"}', "line 2 of .* is no JSON object with a `text`"),
        ('{"parts": ["below"]}\n{"name": "below", "text": "x"}', "`parts` named above it"),
        ('{"parts": 3}', "`parts` named above it"),
        ('{"parts": [[]]}', "`parts` named above it"),
        ('{"parts": []}', "empty `text`"),
        ('{"text": " "}', "empty `text`"),
        ('{"text": 3}', "empty `text`"),
        ('{"text": "x", "tokens": 0}', "`tokens` 0; write a whole number from 1"),
        ('{"text": "x", "tokens": true}', "`tokens` True"),
        ('{"text": "x", "tokens": "32"}', "`tokens` '32'"),
    ],
)
def test_a_wrong_line_is_named(written, content, sentence):
    with pytest.raises(InputError, match=sentence):
        read_probes(written(content))


def test_a_missing_file_and_one_that_is_no_text(tmp_path):
    with pytest.raises(InputError, match="not found"):
        read_probes(str(tmp_path / "none.txt"))
    with pytest.raises(InputError, match="not found"):
        read_probes(str(tmp_path))
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match="not UTF-8"):
        read_probes(str(tmp_path / "bytes.txt"))
