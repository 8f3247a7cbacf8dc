"""What a plan may do to the wording of a document: leave out rare words, or lay it out on one line.

A word is a maximal run of letters, digits and underscores, with the combining marks on them, that begins with a
letter; case does not count. So "don't" is two words, a number is none, and in scripts that put no blanks between
words a clause counts as one.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Mapping

_MARKS = "".join(chr(code) for code in range(0x300, 0x10000) if unicodedata.category(chr(code)).startswith("M"))
_WORD = rf"\b[^\W\d_](?:\w|[{_MARKS}])*+"
_WORDS = re.compile(_WORD)
_RUNS = re.compile(rf"((?<=\S)[ \t]++)?{_WORD}(?:[ \t]++{_WORD})*+")
"""Words with nothing but blanks between them, and the blanks before the first unless it begins a line."""
_IN_RUN = re.compile(rf"([ \t]*+)({_WORD})")
_SPACE = re.compile(r"\s+")


def count_words(texts: Iterable[str]) -> Counter[str]:
    """How often each word stands in the texts, case folded."""
    counts = Counter[str]()
    for text in texts:
        counts.update(word.casefold() for word in _WORDS.findall(text))
    return counts


def most_frequent(counts: Mapping[str, int], n: int) -> frozenset[str]:
    """The ``n`` words of the highest counts; of equal ones those that come first in the order of their letters."""
    return frozenset(sorted(counts, key=lambda word: (-counts[word], word))[:n])


def only_words(text: str, known: Collection[str]) -> str:
    """A text without the words that are not among ``known`` (case folded); all else in it stays.

    A word goes with the blanks between it and its neighbour, so that leaving words out doubles no blank, and joins or
    breaks no line.
    """

    def kept(run: re.Match[str]) -> str:
        words = [(blanks, word) for blanks, word in _IN_RUN.findall(run[0]) if word.casefold() in known]
        return (run[1] or "") + "".join(blanks + word for blanks, word in words).lstrip(" \t") if words else ""

    return _RUNS.sub(kept, text)


def one_line(text: str) -> str:
    """A text in which every run of white space is one space."""
    return _SPACE.sub(" ", text)
