"""A session told by hand: three layers of four heads, two targets, figures that can be added up on paper.

    BOS mass, stock     H0    H1    H2    H3
    L0                 0.10  0.20  0.30  0.60
    L1                 0.10  0.20  0.70  0.97
    L2                 0.10  0.20  0.55  0.96

Sick are L0-H3, L1-H2, L1-H3, L2-H2 and L2-H3; L1-H3 and L2-H3 of them are dead. L1-H0 is low in
entropy. The band is H2-H3 (two and three of three layers sick).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine import events, record
from engine.chart import read_chart
from engine.drift import Drift, ZoneDrift
from engine.generation import Prompt, judge
from engine.heads import HeadMap, ProbeText, Rows
from engine.journal import Writer
from engine.plan import Plan
from engine.session import Session

STOCK: Rows = [[0.10, 0.20, 0.30, 0.60], [0.10, 0.20, 0.70, 0.97], [0.10, 0.20, 0.55, 0.96]]
AFTER: Rows = [[0.10, 0.20, 0.30, 0.60], [0.11, 0.20, 0.05, 0.04], [0.16, 0.20, 0.62, 0.96]]
"""After a pass on L1-H2 and L1-H3."""
ENTROPY: Rows = [[2.0, 2.0, 2.0, 1.0], [0.3, 2.0, 1.0, 0.1], [2.0, 2.0, 1.0, 0.1]]
ENTROPY_AFTER: Rows = [[2.0, 2.0, 2.0, 1.0], [0.3, 2.0, 1.8, 1.9], [2.0, 2.0, 1.0, 0.1]]
TEXTS = [ProbeText("fable", 16, "<s>"), ProbeText("recipe", 64, "The")]

CREATED = events.Created(session="story", model="demo")
WORKER = events.WorkerStarted(pid=4711, versions={"python": "3.11.7", "torch": "2.13.0"})
LOADED = events.Loaded(
    source="demo",
    revision="main",
    weights_sha256="ab" * 32,
    family="bloom",
    n_layers=3,
    n_heads=4,
    n_kv_heads=4,
    d_model=32,
    d_head=8,
    vocabulary=1024,
    context=512,
    parameters=70_000,
    position_encoding="alibi",
    slopes=[0.25, 0.0625, 0.015625, 0.00390625],
    dtype="float32",
    device="cpu",
    threads=1,
)
SOURCE = events.CorpusSource(
    source="bible.txt",
    sha256="cd" * 32,
    documents=10,
    heldout_documents=1,
    train_tokens=9_000,
    heldout_tokens=1_000,
)
DRIFT = Drift(ZoneDrift(10, 2, 0.014, 0.07, "L2-H2"), ZoneDrift(0, 0, 0.0, 0.0, ""))


def head_map(bos_mass: Rows = STOCK, entropy: Rows = ENTROPY, width: float = 0.02) -> HeadMap:
    """A head map whose intervals reach ``width`` to both sides."""
    low = [[max(0.0, round(m - width, 6)) for m in row] for row in bos_mass]
    high = [[min(1.0, round(m + width, 6)) for m in row] for row in bos_mass]
    return HeadMap(bos_mass, entropy, low, high, TEXTS)


def diagnosed(stage: str = "stock", map_: HeadMap | None = None) -> events.Diagnosed:
    return events.Diagnosed(stage=stage, head_map=map_ or head_map())


def started(
    number: int = 1, targets: str = "L1 x H2-3", heads: Iterable[str] = ("L1-H2", "L1-H3"), **plan: Any
) -> events.PassStarted:
    """A pass of 40 steps on two heads of layer 1."""
    return events.PassStarted(
        number=number,
        plan=Plan(targets=targets, corpus=["bible.txt"], **plan).model_dump(),
        target_heads=list(heads),
        zone_layers=(1, 1),
        zone_heads=(2, 3),
        steps=40,
        warmup=10,
        trained_parameters=2_096,
        touched_tensor_parameters=4_192,
        corpus=[SOURCE],
        heldout_perplexity_stock=128.98,
        ablation_loss_stock=0.030,
        perplexity_stock={"austen": 18.51},
        frozen_sha256_before="ef" * 32,
    )


def cut(number: int = 1, woken: int = 2) -> events.Cut:
    return events.Cut(
        number=number,
        bos_mass=AFTER,
        woken=woken,
        heldout_perplexity=132.89,
        drift=DRIFT,
        columns=[0.01, 0.0, 0.035, 0.0],
    )


def step(number_of: int, loss: float = 4.0, number: int = 1) -> events.Step:
    return events.Step(
        number=number, step=number_of, loss=loss, lr=1e-3, grad_norm=0.5, tokens=1024 * number_of, seconds=0.1
    )


def check(at: int, perplexity: float, number: int = 1, best: bool = True, **other: Any) -> events.Check:
    made = events.Check(
        number=number,
        step=at,
        train_loss=4.2,
        heldout_perplexity=perplexity,
        woken=2,
        bos_mass=AFTER,
        drift=DRIFT,
        drift_training=DRIFT,
        columns=[0.01, 0.0, 0.035, 0.0],
        best=best,
    )
    return replace(made, **other)


def ended(number: int = 1, **other: Any) -> events.PassEnded:
    made = events.PassEnded(
        number=number,
        outcome="completed",
        step=40,
        kept_step=40,
        heldout_perplexity=55.2,
        woken=2,
        ablation_loss_after=0.744,
        perplexity_after={"austen": 27.2},
        drift=DRIFT,
        drift_training=DRIFT,
        spreading=[],
        refused_steps=0,
        frozen_sha256_after="ef" * 32,
        patch_sha256="12" * 32,
    )
    return replace(made, **other)


def generated(stage: str = "stock", text: str = " the dog the dog") -> events.Generated:
    """Two continuations of 4 tokens each; the first is as given."""
    return events.Generated(
        stage=stage,
        temperature=0.7,
        top_p=0.92,
        new_tokens=4,
        seed=42,
        continuations=[
            judge(Prompt("fox", "The fox saw", "narrative", "en"), text, 4),
            judge(Prompt("sum", "def sum(a, b):", "code", "code"), "\n    return a + b", 4),
        ],
    )


def contributed(stage: str = "stock") -> events.Contributed:
    """Every head is worth a hundredth of its BOS mass."""
    rows = [[round(mass / 100, 6) for mass in row] for row in STOCK]
    return events.Contributed(stage=stage, text="bible.txt", samples=8, tokens=4_088, loss=4.86, rows=rows)


DIAGNOSED = [CREATED, WORKER, LOADED, diagnosed()]
"""Created, loaded and diagnosed."""

ONE_PASS = [
    *DIAGNOSED,
    started(),
    cut(),
    *(step(n, loss=4.9 - n / 50) for n in range(1, 21)),
    check(20, 70.0),
    events.Saved(number=1, step=20, file="state.safetensors", bytes=25_152),
    *(step(n, loss=4.9 - n / 50) for n in range(21, 41)),
    check(40, 55.2),
    ended(),
    diagnosed("pass-1", head_map(AFTER, ENTROPY_AFTER)),
    events.Accepted(number=1),
    events.Note(text="woken heads do some work"),
    events.Closed(),
]


BIRDS = replace(
    SOURCE,
    source="birds.txt",
    documents=40,
    heldout_documents=4,
    train_tokens=2_000,
    heldout_tokens=200,
    repeat=3,
    duplicates=2,
    broken=5,
    broken_first=["birds.txt:7: no JSON object", "birds.txt:9: holds no `text`"],
    encoding_errors=1,
)
"""A second source, of whose lines not all could be read."""

WHOLE_PASS = [
    CREATED,
    WORKER,
    LOADED,
    replace(diagnosed(), mlp_dormancy=[0.02, 0.0, 0.01]),
    generated(),
    contributed(),
    replace(
        started(checkpointing=True, generate=True),
        corpus=[SOURCE, BIRDS],
        heldout_sources_stock={"bible.txt": 140.0, "birds.txt": 90.0},
        ablation_heads_stock=[0.02, -0.001],
        ablation_tokens=2_032,
        memory_bytes=1_200_000_000,
    ),
    replace(
        cut(),
        heldout_sources={"bible.txt": 144.0, "birds.txt": 93.0},
        ablation_loss=0.0,
        ablation_heads=[0.0, 0.0],
    ),
    step(1),
    check(20, 70.0),
    events.Changed(number=1, step=20, values={"micro_batch": 2, "accumulate": 4, "checkpointing": True}),
    step(40),
    check(40, 55.2),
    replace(diagnosed("pass-1", head_map(AFTER, ENTROPY_AFTER)), mlp_dormancy=[0.02, 0.0, 0.04]),
    ended(
        heldout_sources={"bible.txt": 60.0, "birds.txt": 40.0},
        ablation_heads_after=[0.512, 0.25],
        peak_memory_bytes=1_340_000_000,
        trained_tokens=40_960,
    ),
    generated("pass-1", " over the hill <p>"),
    contributed("pass-1"),
]
"""A pass of which everything is told that can be."""


def tell(folder: Path, told: Iterable[events.Event], keep_record: bool = True) -> Session:
    """Write a session whose journal holds these events, and its record."""
    session = Session(folder)
    folder.mkdir(parents=True, exist_ok=True)
    writer = Writer(session.journal)
    for event in told:
        writer.append(event)
    writer.close()
    if keep_record:
        record.save(session, read_chart(session))
    return session
