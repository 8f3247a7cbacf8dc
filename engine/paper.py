"""The figures that arXiv 2603.09616 reports of BLOOM-1b7, beside those that a record measured.

The paper's figures are facts from its text and tables; where each stands is in ``Group.source``. A figure of
the paper is never mixed with a measured one: a row holds the two apart.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.analysis import PassAnalysis, analyse
from engine.heads import CLASSES, Head
from engine.tables import PassTable, PatientTable, Record
from engine.targets import Model, resolve

PAPER = "arXiv 2603.09616"
SHAPE = ("bloom", 24, 16, 2048, 250_880)
"""Family, layers, heads, width and vocabulary of BLOOM-1b7."""
FAMILY: dict[tuple[str, int, int, int, int], tuple[str, tuple[int, int], int]] = {
    ("bloom", 24, 16, 1024, 250_880): ("BLOOM-560m", (9, 15), 44),
    SHAPE: ("BLOOM-1b7", (9, 15), 36),
    ("bloom", 30, 32, 2560, 250_880): ("BLOOM-3b", (20, 30), 38),
    ("bloom", 30, 32, 4096, 250_880): ("BLOOM-7b1", (21, 30), 31),
}
"""By shape, what the paper diagnosed: name, first and last head index of the sick band, sick heads in percent."""
PASS_1 = """
L5 x H14-15 | L6 x H9-15 | L7 x H9-14 | L8 x H11-15 | L9 x H9-15 | L10 x H9-15 | L11 x H10-15 | L12 x H9-15
| L13 x H9-15 | L14 x H9-11 | L14 x H13-15 | L15-H9 | L15 x H11-12 | L15 x H14-15 | L16 x H10-15 | L17 x H9-14
| L18 x H9-15 | L19 x H9-15 | L20 x H9-15 | L21 x H9-13 | L22 x H9-11 | L22 x H13-14"""
"""The 108 targets of the paper's first pass."""
H5_COLUMN = "L5-22 x H5"
"""What its extended surgery adds to them: 18 heads, 14 of them healthy."""
ALIKE = 0.9
"""A pass is put beside one of the paper's when so much of all heads that either has for targets both have."""

COUNTS = {  # results of its two passes
    "stock": {"healthy": 242, "low_entropy": 3, "bos_sink": 136, "dead": 3},
    "pass 1": {"healthy": 341, "low_entropy": 4, "bos_sink": 39, "dead": 0},
    "pass 2": {"healthy": 379, "low_entropy": 4, "bos_sink": 1, "dead": 0},
}
TRAINING = {"stock": 16.99, "pass 1": 15.13, "pass 2": 15.10}  # pass 1 after epoch 3, pass 2 after epoch 1
HELDOUT = {"stock": 21.45, "pass 1": 27.52, "pass 2": 28.76}  # on its 12 evaluation prompts


@dataclass(frozen=True)
class Row:
    """One figure, or several of a kind in the order that the label names."""

    label: str
    paper: tuple[float, ...]
    measured: tuple[float | None, ...] = ()
    """Empty: nothing in the record answers it."""
    digits: int = 0
    as_written: str = ""
    """How the paper writes its figures, where ``digits`` would say more than it does."""


@dataclass(frozen=True)
class Group:
    """What belongs together: one state of the model, or one comparison."""

    name: str
    source: str
    """Where in the paper."""
    about: str
    """What the measured figures are of."""
    rows: list[Row] = field(default_factory=list)


def is_bloom_1b7(patient: PatientTable | None) -> bool:
    """Whether a record's patient is BLOOM-1b7, told by its shape: a copy may be called anything."""
    return patient is not None and _shape(patient) == SHAPE


def _shape(p: PatientTable) -> tuple[str, int, int, int, int]:
    return p.family, p.n_layers, p.n_heads, p.d_model, p.vocabulary


def paper_targets(extended: bool = False) -> frozenset[Head]:
    """Targets of the paper's pass 1 (108), or of its extended surgery (126)."""
    expression = f"{PASS_1} | {H5_COLUMN}" if extended else PASS_1
    return frozenset(resolve(expression, Model(SHAPE[1], SHAPE[2])))


def shared(p: PassTable, heads: frozenset[Head]) -> float:
    """Heads that are targets of both, as share of those that are of either."""
    targets = frozenset(map(Head.parse, p.target_heads))
    return len(targets & heads) / max(1, len(targets | heads))


def beside(record: Record) -> list[Group]:
    """The paper's figures beside the record's, group by group; none where the patient is no model of the paper."""
    if record.patient is None or _shape(record.patient) not in FAMILY:
        return []
    if not is_bloom_1b7(record.patient):  # the paper operated on that one alone
        return [Group("Stock", _DIAGNOSIS, _MEASURED_STOCK, _family(record, record.patient))]
    first = _like(record, paper_targets(), reinit=True)
    after = [p for p in record.passes if first and p.number > first.number and p.reinit and p.outcome != "undone"]
    second = after[0] if after else None
    extended = _like(record, paper_targets(extended=True), reinit=True)
    control = _like(record, paper_targets(), reinit=False)
    return [
        _stock(record, record.patient),
        _pass("pass 1", record, first, 108, "its results after epoch 3 of pass 1"),
        _pass("pass 2", record, second, 39, "its results after epoch 1 of pass 2"),
        _corpora(record, first),
        _extended(record, extended),
        _gradients_only(record, control),
    ]


def _like(record: Record, heads: frozenset[Head], reinit: bool) -> PassTable | None:
    """The last pass of this kind on nearly these heads."""
    found = [p for p in record.passes if p.reinit == reinit and p.outcome != "undone" and shared(p, heads) >= ALIKE]
    return found[-1] if found else None


def _about(p: PassTable | None, heads: frozenset[Head], what: str) -> str:
    if p is None:
        return f"No pass of this session has {what} for targets, so nothing is measured."
    targets = frozenset(map(Head.parse, p.target_heads))
    return (
        f"Measured is pass {p.number}: {len(targets)} targets, {len(targets & heads)} of them among {what}, "
        f"{p.steps_done if p.steps_done is not None else 0} of {p.steps} steps."
    )


# -- groups


_DIAGNOSIS = "its diagnosis of the stock models"
_MEASURED_STOCK = (
    "Measured is this session's diagnosis, over all its texts; the paper's rests on one text of 55 tokens."
)


def _family(record: Record, patient: PatientTable) -> list[Row]:
    """Sick heads and band, which the paper gives of four sizes."""
    _, band, percent = FAMILY[_shape(patient)]
    found = record.diagnosis.get("stock")
    total = patient.n_layers * patient.n_heads
    sick = 100 * (found.counts["bos_sink"] + found.counts["dead"]) / total if found else None
    return [
        Row("sick heads, % of all", (percent,), _one(sick)),
        Row("sick band, first / last head index", band, tuple(found.band) if found else ()),
    ]


def _stock(record: Record, patient: PatientTable) -> Group:
    found = record.diagnosis.get("stock")
    counts = found.counts if found else {}
    dormant = None if found is None or found.mlp_dormancy is None else 100 * found.mlp_dormancy
    heldout = record.passes[0].heldout_perplexity_stock if record.passes else None
    return Group(
        "Stock",
        _DIAGNOSIS,
        _MEASURED_STOCK,
        [
            *(Row(f"{name} heads", (COUNTS["stock"][name],), _one(counts.get(name))) for name in CLASSES),
            *_family(record, patient),
            Row("dormant MLP neurons, %", (8.75,), _one(dormant), 2),
            Row("training perplexity", (TRAINING["stock"],), (), 2),
            Row(_HELDOUT, (HELDOUT["stock"],), _one(heldout), 2),
        ],
    )


_HELDOUT = "held-out perplexity (the paper: of 12 prompts; here: of the held-out part of the corpus)"
_TRAINING = "training perplexity (here: of the steps before the last check)"


def _pass(name: str, record: Record, p: PassTable | None, targets: int, source: str) -> Group:
    """Counts, perplexities and parameters of one of the two passes."""
    stage = record.diagnosis.get(f"pass-{p.number}") if p else None
    counts = stage.counts if stage else {}
    about = (
        _about(p, paper_targets(), "the paper's 108 targets")
        if name == "pass 1"
        else f"Measured is pass {p.number}, the one after."
        if p
        else "No pass follows such a one, so nothing is measured."
    )
    return Group(
        name.capitalize(),
        source,
        about,
        [
            Row("targets", (targets,), _one(len(p.target_heads) if p else None)),
            _parameters(p, slices=name == "pass 2"),
            *(Row(f"{kind} heads", (COUNTS[name][kind],), _one(counts.get(kind))) for kind in CLASSES),
            Row(_TRAINING, (TRAINING[name],), _one(_training(p)), 2),
            Row(_HELDOUT, (HELDOUT[name],), _one(p.heldout_perplexity if p else None), 2),
        ],
    )


def _parameters(p: PassTable | None, slices: bool) -> Row:
    """Of pass 1 the paper counts the whole tensors that hold a slice, of pass 2 the slices themselves."""
    if slices:
        measured = p.trained_parameters if p else None
        return Row("parameters of the slices", (40e6,), _one(measured), as_written="40 million")
    measured = p.touched_tensor_parameters if p else None
    return Row("parameters of the tensors that hold a slice", (302e6,), _one(measured), as_written="302 million")


def _corpora(record: Record, p: PassTable | None) -> Group:
    """The three runs of the paper on the same 108 targets."""
    found = analyse(record, p) if p else None
    outside, frozen = (found.outside.final, found.in_band_frozen.final) if found else (None, None)
    c4 = _c4(p) if p else ()
    return Group(
        "Curated corpus, epoch 3 / C4, epoch 3 / C4, epoch 15",
        "its comparison of two corpora, with table 4",
        _about(p, paper_targets(), "the paper's 108 targets"),
        [
            Row("targets woken, of 108", (108, 108, 108), _one(p.woken if p else None)),
            Row(_TRAINING, (15.4, 20.80, 36.31), _one(_training(p)), 2, "15.4 / 20.80 / 36.31"),
            Row("outside: heads drifting", (76, 56, 59), _one(outside.drifting if outside else None)),
            Row("outside: mean |δ|", (0.0426, 0.0310, 0.0398), _one(outside.mean if outside else None), 4),
            Row("in-band frozen: heads", (18, 18, 18), _one(frozen.heads if frozen else None)),
            Row("in-band frozen: heads drifting", (9, 5, 10), _one(frozen.drifting if frozen else None)),
            Row("in-band frozen: mean |δ|", (0.0990, 0.0399, 0.0641), _one(frozen.mean if frozen else None), 4),
            Row(
                "column H15, mean |δ|, C4 epoch 3 / 15, here first / last check", (0.083, 0.154), _column(found, 15), 3
            ),
            Row(
                "column H13, mean |δ|, C4 epoch 3 / 15, here first / last check", (0.046, 0.070), _column(found, 13), 3
            ),
            Row(
                "C4 held out, stock / C4-trained (the paper: 50 texts, 4 024 tokens; curated 74.11)",
                (32.42, 29.30),
                c4,
                2,
            ),
        ],
    )


def _extended(record: Record, p: PassTable | None) -> Group:
    """Pass 1 and the H5 column in one."""
    heads = paper_targets(extended=True)
    losses = [(check.step, _exp(check.train_loss)) for check in p.check] if p else []
    lowest = min(losses, key=lambda found: found[1], default=None)
    now = record.diagnosis.get(f"pass-{p.number}") if p else None
    stock = record.diagnosis.get("stock")

    def mass(layer: int) -> tuple[float | None, ...]:
        return (stock.bos_mass[layer][5], now.bos_mass[layer][5]) if stock and now else ()

    return Group(
        "Extended surgery",
        "its extended experiment with the H5 column",
        _about(p, heads, "the paper's 126 targets")
        + " The paper's perplexities are of training; those here, of the steps before each check.",
        [
            Row("targets", (126,), _one(len(p.target_heads) if p else None)),
            Row(
                "perplexity after the cut (here: held out)", (19.25,), _one(p.heldout_perplexity_cut if p else None), 2
            ),
            Row("lowest training perplexity", (12.70,), _one(lowest[1] if lowest else None), 2),
            Row("at step", (42,), _one(lowest[0] if lowest else None)),
            Row("L14-H5, BOS mass, stock / after", (0.483, 0.023), mass(14), 3),
            Row("L5-H5, BOS mass, stock / after", (0.166, 0.056), mass(5), 3),
        ],
    )


def _gradients_only(record: Record, p: PassTable | None) -> Group:
    """The plain control."""
    woken = p.woken - p.woken_at_cut if p and p.woken is not None and p.woken_at_cut is not None else None
    return Group(
        "Gradients alone, nothing reinitialised",
        "its control without reinitialisation, after epoch 15",
        _about(p, paper_targets(), "the paper's 108 targets"),
        [Row("targets that woke in training", (0,), _one(woken))],
    )


# -- figures of a record


def _one(value: float | None) -> tuple[float | None, ...]:
    return () if value is None else (value,)


def _exp(nats: float) -> float:
    return math.exp(min(nats, 700))


def _training(p: PassTable | None) -> float | None:
    return _exp(p.check[-1].train_loss) if p and p.check else None


def _column(found: PassAnalysis | None, index: int) -> tuple[float | None, ...]:
    trends = [column.curve for column in found.columns if column.index == index] if found else []
    return (trends[0].first.value, trends[0].last.value) if trends else ()


def _c4(p: PassTable) -> tuple[float | None, ...]:
    """Held-out perplexity of the first source or watched text that is C4, stock and after."""
    for stock, after in (
        (p.heldout_sources_stock, p.heldout_sources_after),
        (p.perplexity_stock, p.perplexity_after),
    ):
        for name in _named_c4(stock):
            return (stock[name], (after or {}).get(name))
    if len(p.corpus) == 1 and any(_named_c4([p.corpus[0].source])):
        return (p.heldout_perplexity_stock, p.heldout_perplexity)
    return ()


def _named_c4(names: Iterable[str]) -> list[str]:
    return [name for name in names if re.search(r"(?<![a-z0-9])c4(?![a-z0-9])", name.lower())]
