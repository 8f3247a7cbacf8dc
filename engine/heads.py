"""Heads and their measured map: BOS mass, entropy, class, band. No torch here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, NamedTuple

HeadClass = Literal["healthy", "low_entropy", "bos_sink", "dead"]
CLASSES: tuple[HeadClass, ...] = ("healthy", "low_entropy", "bos_sink", "dead")

Rows = list[list[float]]  # [n_layers][n_heads]


class Head(NamedTuple):
    """One attention head; both numbers count from zero. Written ``L16-H4``."""

    layer: int
    head: int

    def __str__(self) -> str:
        return f"L{self.layer}-H{self.head}"

    @classmethod
    def parse(cls, text: str) -> Head:
        """Read ``L16-H4``. Raises ValueError for anything else."""
        found = re.fullmatch(r"L(\d+)-H(\d+)", text)
        if found is None:
            raise ValueError(f"not a head: {text!r}; heads are written like L16-H4")
        return cls(int(found.group(1)), int(found.group(2)))


@dataclass(frozen=True)
class Thresholds:
    """Where the classes begin. BOS mass is a share (0-1), entropy in nats (arXiv 2603.09616, section 3)."""

    dead: float = 0.95
    bos_sink: float = 0.50
    low_entropy: float = 0.50
    band_rate: float = 0.30
    """A head index belongs to the sick band when more than this share of its layers is sick."""
    drift: float = 0.05
    """A head drifts when its BOS mass moved by more than this."""
    spread: float = 0.02
    """A column spreads when its mean |drift| rose by more than this between first and last check."""


def classify(bos_mass: float, entropy: float, t: Thresholds) -> HeadClass:
    """The class of one head; the first that fits of dead, bos_sink, low_entropy, healthy."""
    if bos_mass > t.dead:
        return "dead"
    if bos_mass > t.bos_sink:
        return "bos_sink"
    return "low_entropy" if entropy < t.low_entropy else "healthy"


def woken(bos_mass: Rows, sink_mass: Rows, targets: Iterable[Head], t: Thresholds) -> int:
    """Targets that rest on nothing: position 0 and a sink logit together take no more than makes a sink. A head that
    only moved its weight from the first token to a logit is not awake."""
    rests = resting(bos_mass, sink_mass)
    return sum(rests[h.layer][h.head] <= t.bos_sink for h in targets)


def resting(bos_mass: Rows, sink_mass: Rows) -> Rows:
    """What each head gives position 0 and its sink logit together; the BOS mass where there are no logits."""
    if not sink_mass:
        return bos_mass
    return [[a + b for a, b in zip(*rows, strict=True)] for rows in zip(bos_mass, sink_mass, strict=True)]


@dataclass(frozen=True)
class ProbeText:
    """A text the heads were measured on."""

    name: str
    tokens: int
    first_token: str
    """What stood at position 0, as text: BLOOM's own tokenizer adds no ``<s>``."""

    @property
    def uniform(self) -> float:
        """BOS mass that uniform causal attention would score on this text."""
        return uniform_bos_mass(self.tokens)


@dataclass(frozen=True)
class HeadMap:
    """Every head's figures, as rows per layer; means over the texts, each text counting once.

    ``bos_low`` and ``bos_high`` bound the 95 % bootstrap interval of the BOS mass over texts, and
    ``entropy_low`` and ``entropy_high`` that of the entropy; ``by_text`` is the BOS mass on each text,
    [n_texts][n_layers][n_heads]. Each is empty where it was not kept.
    """

    bos_mass: Rows
    entropy: Rows
    bos_low: Rows = field(default_factory=list)
    bos_high: Rows = field(default_factory=list)
    texts: list[ProbeText] = field(default_factory=list)
    by_text: list[Rows] = field(default_factory=list)
    thresholds: Thresholds = field(default_factory=Thresholds)
    entropy_low: Rows = field(default_factory=list)
    entropy_high: Rows = field(default_factory=list)
    sink_mass: Rows = field(default_factory=list)
    """What the sink logit of each head takes, mean over all query rows; empty where the model has none."""
    windows: list[int] = field(default_factory=list)
    """Per layer how many keys a query sees, itself included; 0: all. Empty: no layer has a window. From a query
    row after the window's first ones position 0 is not reachable, and the BOS mass is the mean over the others."""

    @property
    def n_layers(self) -> int:
        return len(self.bos_mass)

    @property
    def n_heads(self) -> int:
        return len(self.bos_mass[0]) if self.bos_mass else 0

    @property
    def tokens(self) -> int:
        """Tokens over all texts."""
        return sum(text.tokens for text in self.texts)

    def heads(self) -> Iterator[Head]:
        """All heads, layer by layer."""
        return (Head(layer, head) for layer in range(self.n_layers) for head in range(self.n_heads))

    def mass(self, head: Head) -> float:
        return self.bos_mass[head.layer][head.head]

    def interval(self, head: Head) -> tuple[float, float]:
        """95 % interval of the BOS mass over texts; the mass itself where none was measured."""
        if not self.bos_low:
            return self.mass(head), self.mass(head)
        return self.bos_low[head.layer][head.head], self.bos_high[head.layer][head.head]

    def entropy_interval(self, head: Head) -> tuple[float, float]:
        """95 % interval of the entropy over texts; the entropy itself where none was measured."""
        if not self.entropy_low:
            return self.entropy[head.layer][head.head], self.entropy[head.layer][head.head]
        return self.entropy_low[head.layer][head.head], self.entropy_high[head.layer][head.head]

    def class_of(self, head: Head) -> HeadClass:
        return classify(self.mass(head), self.entropy[head.layer][head.head], self.thresholds)

    def is_sick(self, head: Head) -> bool:
        """BOS-sink or dead."""
        return self.mass(head) > self.thresholds.bos_sink

    def is_borderline(self, head: Head) -> bool:
        """An interval holds a threshold, so another set of texts may say another class: one of BOS mass,
        or that of entropy where the entropy decides, which is in heads that are not sick."""
        low, high = self.interval(head)
        if any(low <= limit <= high for limit in (self.thresholds.bos_sink, self.thresholds.dead)):
            return True
        low, high = self.entropy_interval(head)
        return not self.is_sick(head) and low <= self.thresholds.low_entropy <= high

    def counts(self) -> dict[str, int]:
        """Heads per class, every class named."""
        out: dict[str, int] = dict.fromkeys(CLASSES, 0)
        for head in self.heads():
            out[self.class_of(head)] += 1
        return out

    def sick_rates(self) -> list[float]:
        """Share of sick layers per head index."""
        return [
            sum(self.is_sick(Head(i, j)) for i in range(self.n_layers)) / self.n_layers for j in range(self.n_heads)
        ]

    def band(self) -> tuple[int, int] | None:
        """First and last index of the sick band: the contiguous run of head indices above ``band_rate``
        that holds most sick heads; None where no index is above it."""
        rates, runs = self.sick_rates(), list[tuple[int, int]]()
        for index, rate in enumerate(rates):
            if rate > self.thresholds.band_rate:
                if runs and runs[-1][1] == index - 1:
                    runs[-1] = (runs[-1][0], index)
                else:
                    runs.append((index, index))
        return max(runs, key=lambda run: sum(rates[run[0] : run[1] + 1]), default=None)

    def sensitivity(self) -> dict[str, int]:
        """Sick heads were the threshold 0.40, 0.50 or 0.60."""
        return {f"{limit:.2f}": sum(self.mass(h) > limit for h in self.heads()) for limit in (0.40, 0.50, 0.60)}

    def window(self, layer: int) -> int:
        """Keys that a query of this layer sees; 0: all."""
        return self.windows[layer] if self.windows else 0

    def reach(self, layer: int) -> float:
        """Share of the query rows that can reach position 0 on this layer, each text counting once."""
        shares = [reaching(text.tokens, self.window(layer)) / text.tokens for text in self.texts]
        return sum(shares) / len(shares) if shares else 1.0

    def uniform(self, layer: int | None = None) -> float:
        """BOS mass that uniform causal attention would score on the same texts: on this layer, or on one
        without a window."""
        window = 0 if layer is None else self.window(layer)
        each = [uniform_bos_mass(reaching(text.tokens, window)) for text in self.texts]
        return sum(each) / max(1, len(each))

    def distances(self) -> tuple[float, int]:
        """Mean distance from a query to position 0, each text counting once, and the longest one."""
        each = [text.tokens - 1 for text in self.texts]
        return sum(each) / 2 / max(1, len(each)), max(each, default=0)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> HeadMap:
        """Inverse of ``to_dict``."""
        nested = {
            "texts": [ProbeText(**known(ProbeText, text)) for text in data.get("texts", [])],
            "thresholds": Thresholds(**known(Thresholds, data.get("thresholds", {}))),
        }
        return cls(**{**known(cls, data), **nested})


def known(type_: type, values: dict[str, Any]) -> dict[str, Any]:
    """The values that a dataclass has fields for; a newer program may have written more."""
    return {f.name: values[f.name] for f in fields(type_) if f.name in values}


def reaching(n_tokens: int, window: int) -> int:
    """How many query rows of a text can reach position 0; a window of 0 is none."""
    return min(n_tokens, window or n_tokens)


def uniform_bos_mass(n_tokens: int) -> float:
    """(1/T) sum of 1/(t+1): 0.211, 0.074 and 0.013 at T = 16, 64 and 512."""
    return sum(1 / (t + 1) for t in range(n_tokens)) / n_tokens


def as_rows(values: Sequence[Sequence[float]], digits: int = 6) -> Rows:
    """Rounded for files that people read; six digits are far below the measurement's own noise."""
    return [[round(v, digits) for v in row] for row in values]
