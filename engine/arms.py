"""Arms of a protocol from their sessions' records: each figure over seeds, and what sets the arms apart.

A session that is no arm of a protocol counts as an arm of its own, named by its id.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from engine.analysis import analyse
from engine.figures import FIGURES, GROUPS, Figure, Run, at, texts_of, watched
from engine.heads import HeadMap, Thresholds, known
from engine.record import head_map
from engine.tables import PassTable, Record


@dataclass(frozen=True)
class Arm:
    """One arm, or one pass of an arm that has several: a row of every table."""

    name: str
    """As the protocol has it; told apart by a number where two sessions of one seed claim it."""
    label: str
    """The name, with the pass where the arm has several."""
    number: int | None
    """Of the pass; None: the arm was only diagnosed."""
    runs: tuple[Run, ...]
    """By seed."""

    @property
    def seeds(self) -> list[int]:
        return [run.seed for run in self.runs]

    @property
    def passes(self) -> list[PassTable]:
        """Those of the runs that have come so far."""
        return [run.pass_ for run in self.runs if run.pass_]


@dataclass(frozen=True)
class Spread:
    """One figure of an arm over its seeds."""

    values: tuple[float | None, ...]
    """By run; None where it is not known."""
    n: int
    """Runs that it is known of."""
    mean: float | None
    sd: float | None
    """Sample standard deviation (n - 1); None of fewer than two."""
    low: float | None
    high: float | None


# -- arms


def arms_of(records: Sequence[Record]) -> list[Arm]:
    """Arms in the order of their first records, a row per pass.

    Runs of one arm differ by their seeds alone. Where a second session has the same arm and seed (another trial
    of the same protocol), it belongs to another row, and so it does where the patient is another one.
    """
    seen: Counter[tuple[str, str, str, int]] = Counter()
    groups: dict[tuple[str, str, str, int], list[Record]] = {}
    for record in records:
        s = record.session
        weights = record.patient.weights_sha256 if record.patient else s.model
        name = s.arm or s.id
        seen[(s.protocol, name, weights, s.seed)] += 1
        groups.setdefault((s.protocol, name, weights, seen[(s.protocol, name, weights, s.seed)]), []).append(record)
    names: Counter[str] = Counter()
    out = []
    for (_, name, _, _), found in groups.items():
        names[name] += 1
        unique = name if names[name] == 1 else f"{name} ({names[name]})"
        out += _rows(unique, sorted(found, key=lambda record: record.session.seed))
    return out


def _rows(name: str, records: list[Record]) -> list[Arm]:
    numbers = sorted({p.number for record in records for p in record.passes})
    if not numbers:
        return [Arm(name, name, None, tuple(Run(record, None, None) for record in records))]
    out = []
    for number in numbers:
        label = name if len(numbers) == 1 else f"{name}, pass {number}"
        out.append(Arm(name, label, number, tuple(_run(record, number) for record in records)))
    return out


def _run(record: Record, number: int) -> Run:
    p = next((p for p in record.passes if p.number == number), None)
    return Run(record, p, analyse(record, p) if p else None)


# -- figures


def spread(values: Iterable[float | None]) -> Spread:
    """Mean, sample standard deviation and range of what is known and finite."""
    every = tuple(None if value is None or not math.isfinite(value) else value for value in values)
    there = [value for value in every if value is not None]
    return Spread(
        values=every,
        n=len(there),
        mean=statistics.fmean(there) if there else None,
        sd=statistics.stdev(there) if len(there) > 1 else None,
        low=min(there, default=None),
        high=max(there, default=None),
    )


def of_arm(figure: Figure, arm: Arm) -> Spread:
    """A figure over the seeds of an arm."""
    return spread(figure.of(run) for run in arm.runs)


def figures_of(arms: Sequence[Arm]) -> list[Figure]:
    """All figures that at least one run knows, those of watched texts with them."""
    runs = [run for arm in arms for run in arm.runs]
    made = [figure for figure in [*FIGURES, *watched(runs)] if any(figure.of(run) is not None for run in runs)]
    return sorted(made, key=lambda figure: GROUPS.index(figure.group))


# -- perplexities of every text


@dataclass(frozen=True)
class TextMatrix:
    """Every arm's perplexity on every text: rows are arms, columns texts."""

    texts: list[str]
    arms: list[Arm]
    stock: list[Spread]
    """Of the model as loaded, over all arms that were measured on the text."""
    after: list[list[Spread]]
    """[arms][texts]; known of the texts that the arm was measured on."""


def text_matrix(arms: Sequence[Arm]) -> TextMatrix:
    """The perplexities after each pass."""
    done = [arm for arm in arms if arm.number is not None]
    texts = list(dict.fromkeys(name for arm in done for run in arm.runs for name in texts_of(run)))
    own = [name for name in texts if name.endswith(" (held out)")]
    texts = [*own, *(name for name in texts if name not in own)]
    return TextMatrix(
        texts=texts,
        arms=done,
        stock=[spread(at(run, name, "stock") for arm in done for run in arm.runs) for name in texts],
        after=[[spread(at(run, name, "after") for run in arm.runs) for name in texts] for arm in done],
    )


def one_patient(arms: Sequence[Arm]) -> bool:
    """Whether all runs that were loaded operated on the same weights, so that there is one stock."""
    patients = [run.record.patient for arm in arms for run in arm.runs]
    return len({patient.weights_sha256 for patient in patients if patient}) <= 1


def comparable(arms: Sequence[Arm]) -> bool:
    """Whether held-out perplexities can be put in order: all are of one patient and, as stock tells, one text."""
    stock = [p.heldout_perplexity_stock for arm in arms for p in arm.passes]
    return one_patient(arms) and bool(stock) and max(stock) - min(stock) <= 1e-6 * max(stock)


# -- patients


@dataclass(frozen=True)
class PatientRow:
    """What was diagnosed of one patient before anything was done to it."""

    name: str
    """The arm's."""
    model: str
    family: str
    dtype: str
    parameters: int
    n_layers: int
    n_heads: int
    counts: dict[str, int]
    sick: int
    band: tuple[int, int] | None
    borderline: int
    texts: int
    tokens: int
    sick_rates: list[float]
    """Share of sick layers per head index."""
    band_rate: float
    """The share from which a head index belongs to the band."""
    record: Record

    @property
    def heads(self) -> int:
        return self.n_layers * self.n_heads


def patients_of(arms: Sequence[Arm]) -> list[PatientRow]:
    """The patients that were diagnosed, each once, in the order of the arms; the same weights in another dtype are
    another patient."""
    out, seen = [], set()
    for arm in arms:
        record = arm.runs[0].record
        p, stock = record.patient, record.diagnosis.get("stock")
        if p is None or stock is None or (p.weights_sha256, p.dtype) in seen:
            continue
        seen.add((p.weights_sha256, p.dtype))
        t = Thresholds(**known(Thresholds, record.thresholds))
        found: HeadMap = head_map(stock, t)
        band = (stock.band[0], stock.band[-1]) if stock.band else None
        out.append(
            PatientRow(
                name=arm.name, model=record.session.model, family=p.family, dtype=p.dtype, parameters=p.parameters,
                n_layers=p.n_layers, n_heads=p.n_heads, counts=dict(stock.counts),
                sick=stock.counts.get("bos_sink", 0) + stock.counts.get("dead", 0), band=band,
                borderline=stock.borderline, texts=len(stock.texts), tokens=sum(text.tokens for text in stock.texts),
                sick_rates=found.sick_rates(), band_rate=t.band_rate, record=record,
            )
        )  # fmt: skip
    return out
