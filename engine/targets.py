"""Target expressions: ``sick & band``, ``L5-22 x H9-15``, ``bos>0.4 | L16-H4``.

    either   := both ('|' both)*
    both     := block ('&' block)*
    block    := one ('x' one)*          'x' means '&' and binds tighter
    one      := '!' one | '(' either ')' | WORD | RANGE | FIGURE ('<'|'<='|'>'|'>=') NUMBER

WORD is a class or a set (sick, dead, bos_sink, low_entropy, healthy, borderline, band, zone, all),
RANGE is L16-H4, L5, L5-22, H5 or H9-15, FIGURE is bos or entropy.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from engine.errors import ExpressionError, InputError
from engine.heads import Head, HeadMap, Thresholds

Heads = frozenset[Head]

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<head>L[0-9]{1,6}-H[0-9]{1,6})(?![a-wyz_0-9])
      | (?P<layers>L[0-9]{1,6}(?:-[0-9]{1,6})?)(?![a-wyz_0-9])
      | (?P<indices>H[0-9]{1,6}(?:-[0-9]{1,6})?)(?![a-wyz_0-9])
      | (?P<compare>(bos|entropy)\s*(<=|>=|<|>)\s*(\d+(?:\.\d*)?|\.\d+))
      | (?P<sign>[&|!()]|x(?![a-z_]))
      | (?P<word>[A-Za-z_]+)
    )""",
    re.VERBOSE,
)
_COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
DEEPEST = 50
"""Brackets and ``!`` within one another, far beyond what anybody writes and below Python's own limit."""
MEASURED = ("sick", "dead", "bos_sink", "low_entropy", "healthy", "borderline", "band", "zone")
WORDS = (*MEASURED, "all")


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    position: int
    numbers: tuple[int, ...] = ()


@dataclass(frozen=True)
class Model:
    """What an expression is resolved against: a shape, and a head map where one was measured."""

    n_layers: int
    n_heads: int
    head_map: HeadMap | None = None

    @classmethod
    def of(cls, head_map: HeadMap) -> Model:
        return cls(head_map.n_layers, head_map.n_heads, head_map)

    @property
    def all(self) -> Heads:
        return frozenset(Head(i, j) for i in range(self.n_layers) for j in range(self.n_heads))


def resolve(expression: str, model: Model) -> list[Head]:
    """The heads an expression selects, sorted by layer and head.

    Raises:
        ExpressionError: it cannot be read, names a layer or head that the model lacks, or needs a
            head map where none is given.
        InputError: it selects nothing.
    """
    heads = _Parser(expression, model).parse()
    if not heads:
        raise InputError(f"the targets {expression!r} select no head of this model; `diagnose` shows its classes")
    return sorted(heads)


def check(expression: str, n_layers: int, n_heads: int) -> None:
    """Complain about an expression that no patient of this shape could resolve; what it selects is not asked.

    Raises:
        ExpressionError: it cannot be read, or names a layer or head that the shape lacks.
    """
    zeros = [[0.0] * n_heads for _ in range(n_layers)]
    anyone = HeadMap(bos_mass=zeros, entropy=zeros, bos_low=zeros, bos_high=zeros, texts=[], thresholds=Thresholds())
    _Parser(expression, Model.of(anyone)).parse()


def needs_head_map(expression: str) -> bool:
    """Whether resolving needs a diagnosis: it names a class, the band, the zone or a figure."""
    return any(t.kind == "compare" or t.text in MEASURED for t in _tokens(expression))


def write(heads: Iterable[Head]) -> str:
    """A short expression for a chosen set, e.g. ``L0-H1 | L3-H4-6`` as ``L0-H1 | L3 x H4-6``."""
    by_layer: dict[int, list[int]] = {}
    for layer, head in sorted(heads):
        by_layer.setdefault(layer, []).append(head)
    parts = []
    for layer, indices in by_layer.items():
        for low, high in _runs(indices):
            parts.append(f"L{layer}-H{low}" if low == high else f"L{layer} x H{low}-{high}")
    return " | ".join(parts)


def zone_of(targets: Iterable[Head]) -> tuple[tuple[int, int], tuple[int, int]]:
    """First and last layer, first and last head index that a pass spans (its surgical zone)."""
    heads = list(targets)
    layers, indices = [h.layer for h in heads], [h.head for h in heads]
    return (min(layers), max(layers)), (min(indices), max(indices))


def zones(targets: Iterable[Head], model: Model, earlier: Heads = frozenset()) -> tuple[Heads, Heads, Heads]:
    """Split all heads into (targets, in-band frozen, outside) of a pass.

    Args:
        earlier: targets of the passes that stand already; they were not left alone, so they are in neither
            of the last two
    """
    chosen = frozenset(targets)
    (l0, l1), (h0, h1) = zone_of(chosen)
    zone = {h for h in model.all if l0 <= h.layer <= l1 and h0 <= h.head <= h1}
    return chosen, frozenset(zone - chosen - earlier), model.all - zone - earlier


def _runs(numbers: list[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for n in numbers:
        if runs and runs[-1][1] == n - 1:
            runs[-1] = (runs[-1][0], n)
        else:
            runs.append((n, n))
    return runs


def _tokens(expression: str) -> list[_Token]:
    tokens, at = [], 0
    while expression[at:].strip():
        found = _TOKEN.match(expression, at)
        if found is None:
            at += len(expression[at:]) - len(expression[at:].lstrip())
            raise ExpressionError(f"cannot read {expression[at : at + 12]!r} in the targets {expression!r}", at)
        kind = str(found.lastgroup)
        text = found.group(kind)
        position = found.start(kind)
        numbers = tuple(int(n) for n in re.findall(r"\d+", text)) if kind in ("head", "layers", "indices") else ()
        tokens.append(_Token(kind, text, position, numbers))
        at = found.end()
    return tokens


class _Parser:
    """Recursive descent straight to sets of heads."""

    def __init__(self, expression: str, model: Model) -> None:
        self.expression = expression
        self.model = model
        self.tokens = _tokens(expression)
        self.at = 0
        self.depth = 0

    def parse(self) -> Heads:
        heads = self.either()
        if self.at < len(self.tokens):
            token = self.tokens[self.at]
            raise self.error(f"expected & or | before {token.text!r}", token.position)
        return heads

    def error(self, message: str, position: int) -> ExpressionError:
        return ExpressionError(f"{message} in the targets {self.expression!r}", position)

    def take(self, *signs: str) -> bool:
        if self.at < len(self.tokens) and self.tokens[self.at].kind == "sign" and self.tokens[self.at].text in signs:
            self.at += 1
            return True
        return False

    def joined(self, part: Callable[[], Heads], sign: str, join: Callable[[Heads, Heads], Heads]) -> Heads:
        heads = part()
        while self.take(sign):
            heads = join(heads, part())
        return heads

    def either(self) -> Heads:
        return self.joined(self.both, "|", operator.or_)

    def both(self) -> Heads:
        return self.joined(self.block, "&", operator.and_)

    def block(self) -> Heads:
        return self.joined(self.one, "x", operator.and_)

    def deeper(self, part: Callable[[], Heads]) -> Heads:
        self.depth += 1
        if self.depth > DEEPEST:
            position = self.tokens[self.at - 1].position
            raise self.error(f"more than {DEEPEST} brackets or ! stand within one another", position)
        heads = part()
        self.depth -= 1
        return heads

    def one(self) -> Heads:
        if self.take("!"):
            return self.model.all - self.deeper(self.one)
        if self.take("("):
            heads = self.deeper(self.either)
            if not self.take(")"):
                raise self.error("a bracket is not closed", len(self.expression))
            return heads
        if self.at == len(self.tokens):
            raise self.error(
                "something is missing at the end" if self.tokens else "nothing is written", len(self.expression)
            )
        token = self.tokens[self.at]
        self.at += 1
        if token.kind == "word":
            return self.word(token)
        if token.kind == "compare":
            return self.compare(token)
        if token.kind in ("head", "layers", "indices"):
            return self.range(token)
        raise self.error(f"expected a set of heads, not {token.text!r},", token.position)

    def head_map(self, token: _Token) -> HeadMap:
        if self.model.head_map is None:
            raise self.error(f"{token.text!r} needs a diagnosis", token.position)
        return self.model.head_map

    def word(self, token: _Token) -> Heads:
        name = token.text
        if name not in WORDS:
            raise self.error(f"unknown set {name!r}; there are {', '.join(WORDS)}", token.position)
        if name == "all":
            return self.model.all
        map_ = self.head_map(token)
        if name == "sick":
            return frozenset(filter(map_.is_sick, map_.heads()))
        if name == "borderline":
            return frozenset(filter(map_.is_borderline, map_.heads()))
        if name in ("band", "zone"):
            return self.band(map_, whole_layers=name == "band")
        return frozenset(h for h in map_.heads() if map_.class_of(h) == name)

    def band(self, map_: HeadMap, whole_layers: bool) -> Heads:
        """The band's head indices over all layers, or (``zone``) over the layers its sick heads span."""
        band = map_.band()
        if band is None:
            return frozenset()
        heads = frozenset(h for h in map_.heads() if band[0] <= h.head <= band[1])
        if whole_layers:
            return heads
        layers = [h.layer for h in heads if map_.is_sick(h)]
        return frozenset(h for h in heads if min(layers) <= h.layer <= max(layers))

    def compare(self, token: _Token) -> Heads:
        map_ = self.head_map(token)
        figure, sign, limit = re.fullmatch(r"(bos|entropy)\s*(<=|>=|<|>)\s*(.+)", token.text).groups()  # type: ignore[union-attr]
        rows = map_.bos_mass if figure == "bos" else map_.entropy
        return frozenset(h for h in map_.heads() if _COMPARE[sign](rows[h.layer][h.head], float(limit)))

    def range(self, token: _Token) -> Heads:
        numbers = token.numbers
        if token.kind == "head":
            self.check(token, "layer", numbers[0], self.model.n_layers)
            self.check(token, "head", numbers[1], self.model.n_heads)
            return frozenset({Head(*numbers)})
        what, limit = ("layer", self.model.n_layers) if token.kind == "layers" else ("head", self.model.n_heads)
        low, high = numbers[0], numbers[-1]
        self.check(token, what, high, limit)
        if low > high:
            raise self.error(f"{token.text!r} counts backwards", token.position)
        return frozenset(h for h in self.model.all if low <= (h.layer if what == "layer" else h.head) <= high)

    def check(self, token: _Token, what: str, number: int, limit: int) -> None:
        if number >= limit:
            letter = what[0].upper()
            raise self.error(
                f"there is no {what} {number}, they go from {letter}0 to {letter}{limit - 1},", token.position
            )
