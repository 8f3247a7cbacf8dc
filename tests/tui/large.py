"""A session of a patient of 70×112 heads, as large as BLOOM-176B, or of another shape. It is synthetic: every figure
is made by rule, none was measured on a model. Sick are the heads 60-90 of the layers 10-59 where
(layer + head) % 2 == 0; in a patient of fewer heads that is none."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from engine import events
from engine.drift import column_means, drift
from engine.heads import Head, HeadMap, ProbeText, Rows
from engine.session import Session
from engine.targets import Model, resolve, zone_of, zones
from tests.tui import story

LAYERS, HEADS, STEPS, EVERY = 70, 112, 400, 20
NAME = "2026-11-30-bloom-large-b2e4"


def is_sick(layer: int, head: int) -> bool:
    return 10 <= layer <= 59 and 60 <= head <= 90 and (layer + head) % 2 == 0


def mass(layer: int, head: int) -> float:
    if is_sick(layer, head):
        return 0.97 if (layer, head) == (32, 80) else 0.66
    return round(0.05 + 0.3 * ((7 * layer + 13 * head) % 17) / 17, 4)


def rows(value, layers: int = LAYERS, heads: int = HEADS) -> Rows:
    return [[value(layer, head) for head in range(heads)] for layer in range(layers)]


def shifted(mass: Rows, by: float) -> Rows:
    return [[round(value + by, 4) for value in row] for row in mass]


def head_map(layers: int = LAYERS, heads: int = HEADS) -> HeadMap:
    found = rows(mass, layers, heads)
    return HeadMap(
        bos_mass=found,
        entropy=rows(lambda layer, head: 0.4 if layer == 0 and head < 3 else 1.5, layers, heads),
        bos_low=shifted(found, -0.03),
        bos_high=shifted(found, 0.03),
        texts=[ProbeText("one", 64, "The"), ProbeText("two", 64, "La")],
        by_text=[shifted(found, -0.02), shifted(found, 0.02)],
    )


STOCK = head_map()
MODEL = Model.of(STOCK)
TARGETS = resolve("sick & band", MODEL)
ZONES = zones(TARGETS, MODEL)
UNTOUCHED = ZONES[1] | ZONES[2]


def at(step: int) -> Rows:
    """Targets fall to 0.1 one layer after the other; every other head moves a little."""
    chosen = frozenset(TARGETS)
    woken = 10 + step // 4

    def value(layer: int, head: int) -> float:
        if Head(layer, head) in chosen:
            return 0.1 if layer < woken else 0.62
        return round(mass(layer, head) + 0.01 * ((layer + head + step // EVERY) % 5), 4)

    return rows(value)


def diagnosed(layers: int = LAYERS, heads: int = HEADS) -> Iterator[events.Event]:
    yield events.Created(session=NAME, model="bloom-large")
    yield events.WorkerStarted(pid=1, versions={"torch": "2.13.0"})
    yield events.Loaded(
        source="bloom-large", revision="", weights_sha256="ab" * 32, family="bloom", n_layers=layers, n_heads=heads,
        n_kv_heads=heads, d_model=128 * heads, d_head=128, vocabulary=250_880, context=2048, parameters=176_247_271_424,
        position_encoding="alibi", slopes=[2 ** (-8 * (h + 1) / heads) for h in range(heads)], dtype="bfloat16",
        device="cpu", threads=1,
    )  # fmt: skip
    yield events.Diagnosed(stage="stock", head_map=head_map(layers, heads))


def beginning() -> Iterator[events.Event]:
    yield from diagnosed()
    layers, heads = zone_of(TARGETS)
    yield events.PassStarted(
        number=1, plan={"targets": "sick & band", "steps": STEPS, "check_every": EVERY, "corpus": ["/texts/c4.txt"]},
        target_heads=[str(head) for head in TARGETS], zone_layers=layers, zone_heads=heads, steps=STEPS, warmup=10,
        trained_parameters=len(TARGETS) * 7_340_416, touched_tensor_parameters=40_000_000_000,
        corpus=[events.CorpusSource(
            source="/texts/c4.txt", sha256="cd" * 32, documents=50, heldout_documents=5,
            train_tokens=819_200, heldout_tokens=8_192,
        )],
        heldout_perplexity_stock=12.0, ablation_loss_stock=0.02, perplexity_stock={"demo:heldout-austen.txt": 9.1},
        frozen_sha256_before="ef" * 32,
    )  # fmt: skip
    cut, limits = at(0), STOCK.thresholds
    yield events.Cut(
        number=1, bos_mass=cut, woken=0, heldout_perplexity=13.0, drift=drift(STOCK.bos_mass, cut, ZONES, limits),
        columns=column_means(STOCK.bos_mass, cut, UNTOUCHED),
    )  # fmt: skip


def step(number: int) -> Iterator[events.Event]:
    """What one step tells, with the check where one is due."""
    yield events.Step(
        number=1, step=number, loss=round(math.log(14.0) - number / 2000, 6), lr=5e-5, grad_norm=0.8,
        tokens=4096 * number, seconds=0.5,
    )  # fmt: skip
    if number % EVERY == 0:
        now = at(number)
        zones_drift = drift(STOCK.bos_mass, now, ZONES, STOCK.thresholds)
        yield events.Check(
            number=1, step=number, train_loss=round(math.log(14.0) - number / 2000, 6),
            heldout_perplexity=round(13.0 - number / 400, 4), woken=sum(now[h.layer][h.head] < 0.5 for h in TARGETS),
            bos_mass=now, drift=zones_drift, drift_training=zones_drift,
            columns=column_means(STOCK.bos_mass, now, UNTOUCHED), best=True,
        )  # fmt: skip


def write_diagnosed(root: Path, layers: int = LAYERS, heads: int = HEADS) -> Session:
    """A session's folder with its journal, of a patient of any shape that is only diagnosed."""
    session = Session(root / NAME)
    session.folder.mkdir(parents=True)
    story.append(session, diagnosed(layers, heads))
    return session


def write_session(root: Path, until: int) -> Session:
    """A session's folder with its journal, in the middle of pass 1 after step ``until``."""
    session = Session(root / NAME)
    session.folder.mkdir(parents=True)
    story.append(session, chain(beginning(), *(step(number) for number in range(1, until + 1))))
    return session
