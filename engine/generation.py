"""Texts that a patient writes: the prompts, the sampling, and figures that tell a degenerate text.

No torch here. ``engine.nn.generate`` lets a patient continue the prompts; what is written is judged
by plain rules. Each rule says what it can see and what it cannot; none replaces reading the texts.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engine.errors import InputError

BUILT_IN = Path(__file__).parent / "prompts.jsonl"
CATEGORIES = ("conceptual", "technical", "narrative", "code", "french_spanish")
"""Of the built-in prompts, ten of each (the categories of arXiv 2603.09616)."""
OWN = "own"
"""Category of prompts from a file that names none."""
LONGEST_UNIT = 16
"""Words in the longest unit that is looked for as a loop."""


@dataclass(frozen=True)
class Prompt:
    """What a patient is asked to continue."""

    name: str
    text: str
    category: str = OWN
    language: str = ""
    """``en``, ``fr``, ``es`` …, ``code``; empty: whatever the prompt's own text shows."""


@dataclass(frozen=True)
class Sampling:
    """How the next token is drawn (arXiv 2603.09616: no repetition penalty)."""

    temperature: float = 0.7
    top_p: float = 0.92
    """Drawn from the smallest set of likeliest tokens whose probabilities reach this share."""
    new_tokens: int = 100
    seed: int = 42

    def __post_init__(self) -> None:
        if not (0 < self.temperature < float("inf") and 0 < self.top_p <= 1 and self.new_tokens >= 1):
            raise InputError("sampling needs a temperature above 0, a top-p above 0 and up to 1, and 1 token or more")


@dataclass(frozen=True)
class Continuation:
    """What a patient wrote after one prompt, and how it looks."""

    prompt: str
    """The prompt's name."""
    category: str
    language: str
    """As the prompt states it; empty where it states none."""
    prompt_text: str
    text: str
    """The new text alone, without special tokens."""
    tokens: int
    """New tokens; fewer than asked for where the patient ended the text or its context was full."""
    repeated_ngrams: float
    longest_loop: int
    markup: list[str]
    code: bool
    script_switched: float
    language_switched: bool
    empty: bool


FIGURES = (
    "repeated_ngrams",
    "longest_loop",
    "markup",
    "code",
    "script_switched",
    "language_switched",
    "empty",
)
"""Fields of a ``Continuation`` that are averaged; a flag counts 1, a list 1 where it holds anything."""


def judge(prompt: Prompt, text: str, tokens: int) -> Continuation:
    """All figures of one continuation."""
    text = text.encode("utf-8", "replace").decode()  # a lone surrogate would be no text in any file
    return Continuation(
        prompt=prompt.name,
        category=prompt.category,
        language=prompt.language,
        prompt_text=prompt.text,
        text=text,
        tokens=tokens,
        repeated_ngrams=repeated_ngrams(text),
        longest_loop=longest_loop(text),
        markup=markup(prompt, text),
        code=looks_like_code(prompt, text),
        script_switched=script_switched(prompt, text),
        language_switched=language_switched(prompt, text),
        empty=is_empty(text),
    )


def averages(continuations: Iterable[Continuation]) -> dict[str, float]:
    """Number of texts, mean tokens, and the mean of every figure: for flags the share of texts that bear it."""
    texts = list(continuations)
    n = max(1, len(texts))
    out: dict[str, float] = {"texts": len(texts), "tokens": round(sum(c.tokens for c in texts) / n, 2)}
    for name in FIGURES:
        values = [getattr(c, name) for c in texts]
        out[name] = round(sum(float(bool(v) if name == "markup" else v) for v in values) / n, 4)
    return out


def by_category(continuations: Iterable[Continuation]) -> dict[str, dict[str, float]]:
    """``averages`` of each category, in the order in which categories first appear."""
    groups: dict[str, list[Continuation]] = {}
    for continuation in continuations:
        groups.setdefault(continuation.category, []).append(continuation)
    return {category: averages(group) for category, group in groups.items()}


# --- the figures -----------------------------------------------------------------------------------


def words(text: str) -> list[str]:
    """Words in lower case, punctuation marks and Chinese or Japanese characters each by themselves."""
    return re.findall(r"[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+|[^\w\s]", text.lower())


def repeated_ngrams(text: str, n: int = 4) -> float:
    """Share of the n-grams of words that occurred before in the same text (0 to 1).

    Sees phrases that come back anywhere, word for word. Does not see a thought that is repeated in
    other words, nor repetition inside of one long word; a refrain or code counts as well.

    >>> repeated_ngrams("a b c d a b c d")  # 5 four-grams, the last of them repeats the first
    0.2
    """
    found = words(text)
    grams = [tuple(found[i : i + n]) for i in range(len(found) - n + 1)]
    return round((len(grams) - len(set(grams))) / len(grams), 4) if grams else 0.0


def longest_loop(text: str) -> int:
    """Words in the longest stretch that says one unit (of up to 16 words) twice or more in a row; 0: none.

    Sees ``no no no`` (3) and a sentence told over and over. Does not see a loop whose turns differ
    by a word (a counter, say), nor one inside of a word; "had had" counts 2, so small values are no
    alarm.

    >>> longest_loop("so it goes, so it goes, so it")  # the unit is "so it goes ,"
    10
    """
    found, longest = words(text), 0
    for period in range(1, LONGEST_UNIT + 1):
        run = 0
        for i in range(period, len(found)):
            run = run + 1 if found[i] == found[i - period] else 0
            if run >= period:
                longest = max(longest, run + period)
    return longest


_MARKUP = {
    "tag": re.compile(
        r"</?[a-zA-Z][\w:-]*(?:\s+[\w:-]+(?:\s*=\s*(?:\"[^\"]*\"|'[^']*'|[^\s<>]+))?)*\s*/?>|<!--|<!DOCTYPE"
    ),
    "entity": re.compile(r"&(?:[a-zA-Z]{2,8}|#\d{2,6}|#[xX][0-9a-fA-F]{2,5});"),
    "latex": re.compile(r"\\(?:begin|end|frac|section|subsection|cite|ref|label|textbf|textit|emph|item|sqrt)\b"),
    "table": re.compile(r"^\s*\|.*\|.*\|\s*$|^\s*\|?(?:\s*:?-{3,}:?\s*\|)+", re.MULTILINE),
    "markdown": re.compile(r"^ {0,3}#{1,6} \S|\[[^\]\n]+\]\([^)\s]+\)|^```", re.MULTILINE),
    "wiki": re.compile(r"\[\[[^\]\n]+\]\]|\{\{[^}\n]+\}\}|^==+ .+ ==+$", re.MULTILINE),
}


def markup(prompt: Prompt, text: str) -> list[str]:
    """Kinds of markup in a text whose prompt shows none of that kind: ``tag`` (HTML, XML), ``entity``
    (``&amp;``), ``latex``, ``table``, ``markdown``, ``wiki``.

    Sees what is spelled by the rules of each kind. Does not see markup cut off before its first sign
    is whole, nor plain-text lists and headings. After a prompt of code only entities count, because
    ``List<String>`` and ``# title`` are code there.
    """
    kinds = ["entity"] if prompt.language == "code" else list(_MARKUP)
    return [kind for kind in kinds if _MARKUP[kind].search(text) and not _MARKUP[kind].search(prompt.text)]


_SURE = re.compile(
    r"""^\s*(?:
        (?:async\ )?def\ +\w+\s*\( | class\ +\w+\s*(?:\(.*\))?\s*[:{]\s*$ | from\ +[\w.]+\ +import\ +[\w(*]
      | import\ +[\w.]+(?:\ as\ \w+)?;?\s*$ | \#include\s*[<"] | \#!/ | function\b\ *\w*\s*\( | package\ +[\w.]+;\s*$
      | (?:public|private|protected|static)(?:\ +[\w<>\[\]]+){1,4}(?:\(|\s*[={]) | (?:const|let|var)\ +\w+\s*=
      | SELECT\ .+\ FROM\ \w+ | if\ __name__
    )""",
    re.VERBOSE,
)
_LIKELY = re.compile(
    r"""^\s*(?:(?:el)?if\ .*:\s*$ | (?:else|try|finally)\s*:\s*$ | for\ .+\ in\ .+:\s*$ | (?:while|with|except)\b.*:\s*$
        | self\.\w+ | assert\ .*[=<>(] | raise\ \w+\( | @\w+(?:\.\w+)*(?:\(.*\))?\s*$ | >>>\ )
      | ^(?:\t|\ {2,})return\b | ^return\ *[\w.]*;?\s*$ | ^\s*[\w.\[\]]+\s*[-+*/|&]?=\s*[^\s=]
      | [)\]}]\s*;\s*$ | [{}]\s*$ | \w\(.*\)\s*[;:]?\s*$
      | \w\s*(?:==|!=|\+=)\s*\w | => | -> | := | && | \|\|
    """,
    re.VERBOSE,
)


def looks_like_code(prompt: Prompt, text: str) -> bool:
    """Whether a text turns into program code after a prompt that is none.

    One line that only a program has (``def f(``, ``#include <``, ``from x import``) is enough, or two
    that look like it (``x = y``, a line that ends in ``);`` or a brace, ``f(x)``). Sees the usual
    languages with braces and Python, line by line. Does not see one expression in the middle of a
    sentence, nor pseudocode in words. After a prompt of code it is never said.
    """
    if prompt.language == "code" or looks_like_code_lines(prompt.text):
        return False
    return looks_like_code_lines(text)


def looks_like_code_lines(text: str) -> bool:
    """The rule of ``looks_like_code`` on a text by itself."""
    lines = [line for line in text.splitlines() if line.strip()]
    return any(map(_SURE.search, lines)) or sum(bool(_LIKELY.search(line)) for line in lines) >= 2


_EAST_ASIAN = ("CJK", "HIRAGANA", "KATAKANA", "KATAKANA-HIRAGANA")
_NO_SCRIPT = ("MODIFIER", "MATHEMATICAL", "FULLWIDTH", "HALFWIDTH", "DOUBLE-STRUCK", "BLACK-LETTER", "SCRIPT")


def script_of(letter: str) -> str:
    """The script of a letter by its Unicode name, ``LATIN``, ``CYRILLIC``, ``ARABIC`` …; Chinese and
    Japanese letters are ``CJK``. Empty for signs that belong to none."""
    name = unicodedata.name(letter, "") if letter.isalpha() else ""
    first = name.partition(" ")[0]
    if first in _EAST_ASIAN:
        return "CJK"
    is_letter = any(kind in name for kind in ("LETTER", "SYLLABLE", "LIGATURE"))
    return first if is_letter and first not in _NO_SCRIPT else ""


def script_switched(prompt: Prompt, text: str) -> float:
    """Share of a text's letters that belong to scripts which the prompt does not use (0 to 1).

    Prompts with a stated language expect Latin letters too. Sees Cyrillic, Greek, Arabic, Chinese …
    after a Latin prompt. Does not see a change between languages of one script; a few Greek letters
    in a formula count as what they are.
    """
    expected = {script_of(c) for c in prompt.text} | ({"LATIN"} if prompt.language else set())
    scripts = [script for script in map(script_of, text) if script]
    if not scripts or expected <= {""}:
        return 0.0
    return round(sum(script not in expected for script in scripts) / len(scripts), 4)


_STOP_WORDS = {
    "en": "the of and to in is that it was he for on are as with his they at be this have from or had by not but what "
    "were we when your can there an which their if will she would her has",
    "fr": "le la les de des du un une et est dans que qui en il elle pour pas sur au aux ce cette sont avec ne se plus "
    "par je nous vous ils mais ou son sa ses était avait être qu n l d c s j",
    "es": "el la los las de del un una y es en que por con no se su para al lo como más pero sus le ya o este sí "
    "porque esta entre cuando muy sin sobre también me hasta hay donde era fue había",
    "de": "der die das und ist in den von zu mit sich des auf für nicht ein eine als auch es an werden aus er hat dass "
    "sie nach wird bei einer um am sind noch wie einem über war",
    "it": "il lo la i gli le di del della un una e è in che per con non si su al dei delle sono da come più ma anche "
    "nel era questo ha o ed",
    "pt": "o a os as de do da dos das um uma e é em que por com não se seu sua para ao como mais mas no na foi ou ele "
    "ela são também quando muito já está",
}
_LANGUAGES = {language: frozenset(listed.split()) for language, listed in _STOP_WORDS.items()}


def language_of(text: str) -> str | None:
    """The language (en, fr, es, de, it, pt) whose stop words a text holds most; None without enough evidence.

    Enough are 4 stop words that make up 15 % of the words, and a third more than the next language has.
    Sees the language that prevails in a few lines of prose. Does not see other languages, a short
    stretch in another one, nor anything in lists of names, verse without stop words, or code.
    """
    found = re.findall(r"[^\W\d_]+", text.lower())
    hits = sorted(((sum(w in stop for w in found), language) for language, stop in _LANGUAGES.items()), reverse=True)
    (most, language), (next_most, _) = hits[0], hits[1]
    return language if most >= 4 and most >= 0.15 * len(found) and 3 * most >= 4 * next_most else None


def language_switched(prompt: Prompt, text: str) -> bool:
    """Whether a text is clearly in another language than its prompt.

    Expected is the language that the prompt states, else the one its own text shows; after code, or
    where either is unclear, it is never said. What it cannot see is what ``language_of`` cannot see.
    """
    expected = prompt.language or language_of(prompt.text)
    if expected in (None, "code"):
        return False
    return language_of(text) not in (None, expected)


def is_empty(text: str) -> bool:
    """Whether a text shows nothing: only white space, control characters, or signs that stand for
    broken bytes. (Special tokens are no part of the text.)"""
    return not any(c.isprintable() and not c.isspace() and c != "\ufffd" for c in text)


# --- the prompts -----------------------------------------------------------------------------------


def read_prompts(path: str = "") -> list[Prompt]:
    """The built-in prompts, or those of a file: one a line, or JSONL objects with ``text`` (and, if
    wanted, ``name``, ``category``, ``language``).

    Raises:
        InputError: the file is missing, holds no text, or a JSONL line is wrong.
    """
    file = Path(path).expanduser() if path else BUILT_IN
    try:
        lines = file.read_text("utf-8-sig").split("\n")
    except (FileNotFoundError, IsADirectoryError) as error:
        raise InputError(f"file of prompts not found: {path}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error}") from error
    prompts = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        json_lines = file.suffix == ".jsonl"
        prompts.append(_from_json(line, number, file) if json_lines else Prompt(f"line {number}", line.rstrip("\r")))
    if not prompts:
        raise InputError(f"{path} holds no prompt; write one a line, or JSONL objects with a `text`")
    return prompts


def _from_json(line: str, number: int, file: Path) -> Prompt:
    try:
        data: dict[str, Any] = json.loads(line)
        text = data["text"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"line {number} of {file} is no JSON object with a `text`") from error
    if not isinstance(text, str) or not text.strip():
        raise InputError(f"line {number} of {file} has an empty `text`")
    name, category = data.get("name", f"line {number}"), data.get("category", OWN)
    return Prompt(str(name), text, str(category), str(data.get("language", "")))
