"""A plausible session of a 24×16 patient, written with the journal's own writer. All figures are made
by rule, so that tests can derive what a screen must show:

* sick in stock: layers 5-22, heads 9-15, where (layer + head) % 6 != 0: 105 heads, and L2-H3.
  Of those, L7-H9, L10-H12 and L16-H15 are dead (0.97); the others hold 0.60, L16-H10 0.52.
* healthy heads hold 0.20, low-entropy ones L0-H0 and L0-H1 (entropy 0.30).
* Targets ``sick & band`` fall to 0.10, but L22-H13 stays at 0.55.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from engine import events
from engine.chart import Chart, read_chart
from engine.drift import column_means, drift
from engine.heads import Head, HeadMap, ProbeText, Rows, Thresholds
from engine.journal import Writer
from engine.protocol import Protocol, runs_of
from engine.record import save
from engine.session import Session
from engine.targets import Model, resolve, zone_of, zones
from engine.trial import Trial, create_trial

LAYERS, HEADS = 24, 16
T = Thresholds()
DEAD = {Head(7, 9), Head(10, 12), Head(16, 15)}
BORDER = Head(16, 10)
STUBBORN = Head(22, 13)
STEPS, EVERY = 40, 10
STOCK_PPL = 32.0


def is_sick(layer: int, head: int) -> bool:
    return (layer, head) == (2, 3) or (5 <= layer <= 22 and head >= 9 and (layer + head) % 6 != 0)


def stock_mass(layer: int, head: int) -> float:
    if Head(layer, head) in DEAD:
        return 0.97
    if Head(layer, head) == BORDER:
        return 0.52
    return 0.60 if is_sick(layer, head) else 0.20


def rows(value) -> Rows:
    return [[value(layer, head) for head in range(HEADS)] for layer in range(LAYERS)]


def shifted(mass: Rows, by: float) -> Rows:
    return [[round(value + by, 6) for value in row] for row in mass]


def head_map(mass: Rows) -> HeadMap:
    entropy = rows(lambda layer, head: 0.30 if layer == 0 and head < 2 else 1.42)
    texts = [ProbeText("one", 64, "The"), ProbeText("two", 64, "def"), ProbeText("three", 64, "La")]
    return HeadMap(
        bos_mass=mass,
        entropy=entropy,
        bos_low=shifted(mass, -0.03),
        bos_high=shifted(mass, 0.03),
        texts=texts,
        by_text=[shifted(mass, -0.02), mass, shifted(mass, 0.02)],
    )


STOCK = head_map(rows(stock_mass))
TARGETS = resolve("sick & band", Model.of(STOCK))
ZONES = zones(TARGETS, Model.of(STOCK))


def cut_mass() -> Rows:
    """After the cut: targets at 0.05, all others 0.01 higher."""
    chosen = frozenset(TARGETS)
    return rows(lambda i, j: 0.05 if Head(i, j) in chosen else round(stock_mass(i, j) + 0.01, 6))


def mass_at(step: int) -> Rows:
    """Targets at 0.10, the stubborn one at 0.55; L4-H9 drifts by 0.08, H15 by 0.01 more per check."""
    chosen = frozenset(TARGETS)

    def value(layer: int, head: int) -> float:
        if Head(layer, head) in chosen:
            return 0.55 if Head(layer, head) == STUBBORN else 0.10
        moved = 0.08 if (layer, head) == (4, 9) else 0.02
        return round(stock_mass(layer, head) + moved + (0.01 * step / EVERY if head == 15 else 0), 6)

    return rows(value)


def heldout(step: int) -> float:
    """Best at step 30."""
    return round(30.0 + abs(step - 30) / 10, 6)


LOADED = events.Loaded(
    source="bloom-story",
    revision="",
    weights_sha256="ab" * 32,
    family="bloom",
    n_layers=LAYERS,
    n_heads=HEADS,
    n_kv_heads=HEADS,
    d_model=2048,
    d_head=128,
    vocabulary=250_880,
    context=2048,
    parameters=1_722_408_960,
    position_encoding="alibi",
    slopes=[2 ** (-8 * (h + 1) / 16) for h in range(HEADS)],
    dtype="bfloat16",
    device="cpu",
    threads=1,
)
PLAN = {
    "targets": "sick & band",
    "corpus": ["/texts/c4.txt"],
    "steps": STEPS,
    "epochs": 3,
    "lr": 5e-5,
    "length": 512,
    "micro_batch": 1,
    "accumulate": 8,
    "clip": 1.0,
    "check_every": EVERY,
    "patience": 0,
    "init": "xavier_normal",
    "parts": "qkv",
    "reinit": True,
    "heldout_share": 0.1,
    "heldout_samples": 64,
    "seed": 42,
}


def beginning(session: str, model: str = "bloom-story") -> Iterator[events.Event]:
    """Up to the diagnosis."""
    yield events.Created(session=session, model=model)
    yield events.WorkerStarted(pid=1, versions={"torch": "2.13.0"})
    yield events.Progress(what="loading bloom-story")
    yield LOADED
    yield events.Progress(what="diagnosing", done=2, total=3)
    yield events.Diagnosed(stage="stock", head_map=STOCK)


def pass_started() -> events.PassStarted:
    layers, heads = zone_of(TARGETS)
    return events.PassStarted(
        number=1,
        plan=PLAN,
        target_heads=[str(head) for head in TARGETS],
        zone_layers=layers,
        zone_heads=heads,
        steps=STEPS,
        warmup=10,
        trained_parameters=len(TARGETS) * 1_048_960,
        touched_tensor_parameters=302_000_000,
        corpus=[events.CorpusSource(
            source="/texts/c4.txt", sha256="cd" * 32, documents=50, heldout_documents=5,
            train_tokens=81_920, heldout_tokens=8_192,
        )],
        heldout_perplexity_stock=STOCK_PPL,
        ablation_loss_stock=0.030,
        perplexity_stock={"demo:heldout-austen.txt": 18.51, "demo:heldout-code.txt": 11.38},
        frozen_sha256_before="ef" * 32,
    )  # fmt: skip


def operation(until: int = STEPS) -> Iterator[events.Event]:
    """Pass 1 from its start to step ``until``, not ended."""
    yield events.Progress(what="reading the corpus")
    yield pass_started()
    cut = cut_mass()
    of_cut = drift(STOCK.bos_mass, cut, ZONES, T)
    untouched = ZONES[1] | ZONES[2]
    yield events.Cut(
        number=1, bos_mass=cut, woken=len(TARGETS), heldout_perplexity=36.0, drift=of_cut,
        columns=column_means(STOCK.bos_mass, cut, untouched),
    )  # fmt: skip
    for step in range(1, until + 1):
        yield events.Step(
            number=1, step=step, loss=round(math.log(40.0) - step / 100, 6), lr=5e-5, grad_norm=0.8,
            tokens=4096 * step, seconds=0.5,
        )  # fmt: skip
        if step % EVERY == 0:
            now = mass_at(step)
            yield events.Check(
                number=1, step=step, train_loss=round(math.log(40.0) - (step - 5) / 100, 6),
                heldout_perplexity=heldout(step), woken=len(TARGETS) - 1, bos_mass=now,
                drift=drift(STOCK.bos_mass, now, ZONES, T), drift_training=drift(cut, now, ZONES, T),
                columns=column_means(STOCK.bos_mass, now, untouched), best=step <= 30,
            )  # fmt: skip
            yield events.Saved(number=1, step=step, file="pass-1/state.safetensors", bytes=1000)


def ending() -> Iterator[events.Event]:
    """Pass 1 ends, the best slices (step 30) kept."""
    now, cut = mass_at(30), cut_mass()
    yield events.PassEnded(
        number=1, outcome="completed", step=STEPS, kept_step=30, heldout_perplexity=30.0, woken=len(TARGETS) - 1,
        ablation_loss_after=0.880, perplexity_after={"demo:heldout-austen.txt": 27.2, "demo:heldout-code.txt": 19.6},
        drift=drift(STOCK.bos_mass, now, ZONES, T), drift_training=drift(cut, now, ZONES, T), spreading=[15],
        refused_steps=0, frozen_sha256_after="ef" * 32, patch_sha256="12" * 32,
    )  # fmt: skip
    yield events.Diagnosed(stage="pass-1", head_map=replace(head_map(now)))


def write_session(root: Path, name: str = "2026-11-30-bloom-story-a1f3", until: int | None = None, ended: bool = True,
                  model: str = "bloom-story") -> Session:  # fmt: skip
    """A session's folder with its journal, up to step ``until`` (None: only diagnosed; ``ended`` adds the end)."""
    session = Session(root / name)
    session.folder.mkdir(parents=True)
    append(session, beginning(name, model))
    if until is not None:
        append(session, operation(until))
        if ended:
            append(session, ending())
    return session


def write_trial(root: Path, arms: tuple[str, ...] = ("cut", "control"), seeds: tuple[int, ...] = (1, 2)) -> Trial:
    """A trial none of whose runs has begun: every arm operates on ``sick & band``, one named control without a cut."""
    values = {name: PLAN[name] for name in ("targets", "corpus", "steps", "check_every")}
    protocol = Protocol.model_validate(
        {
            "name": "wake",
            "folder": root,
            "title": "Does it wake",
            "question": "Does training alone wake them?",
            "seeds": list(seeds),
            "arm": [{"name": name, "pass": [{**values, "reinit": name != "control"}]} for name in arms],
        }
    )
    return create_trial(root, protocol, runs_of(protocol, "bloom-story"))


def carry(trial: Trial, index: int, until: int = STEPS, ended: bool = True) -> Session:
    """Tell a run of a trial up to a step, or to its end."""
    session = trial.begin(trial.runs[index])
    append(session, itertools.islice(beginning(session.id), 1, None))
    append(session, operation(until))
    if ended:
        append(session, itertools.chain(ending(), [events.Closed()]))
        save(session, read_chart(session))
    return session


def append(session: Session, story: Iterator[events.Event]) -> None:
    """Append events to a session's journal."""
    writer = Writer(session.journal)
    for event in story:
        writer.append(event)
    writer.close()


def chart_of(story: Iterator[events.Event]) -> Chart:
    """The chart of a story, without a folder."""
    from engine.journal import Entry

    chart = Chart()
    for seq, event in enumerate(story, 1):
        chart.add(Entry(seq, "2026-11-30T12:00:00.000+00:00", event))
    return chart
