"""A made-up session of a patient of any shape, 70×112 where nothing else is said, by a plain rule: the heads of
the last quarter of the indices are sick (0.60) in all but the first and the last five layers, every fifth layer's
are dead (0.97); all others hold 0.20. Nothing of it was ever measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from engine import events
from engine.drift import column_means, drift
from engine.heads import Head, HeadMap, ProbeText, Rows, Thresholds
from engine.session import Session
from engine.targets import Model, resolve, zone_of, zones
from tests.tui import story

T = Thresholds()


def rows(layers: int, heads: int, healed: bool = False, moved: float = 0.0) -> Rows:
    def value(layer: int, head: int) -> float:
        if head < heads - heads // 4 or not 5 <= layer < layers - 5:
            return 0.20 + moved
        return 0.10 if healed else 0.97 if layer % 5 == 0 else 0.60

    return [[value(layer, head) for head in range(heads)] for layer in range(layers)]


def head_map(mass: Rows) -> HeadMap:
    texts = [ProbeText(f"text {index}", 16 * (index + 1), "The") for index in range(16)]
    return HeadMap(
        bos_mass=mass,
        entropy=[[1.0 + 0.01 * head for head in range(len(row))] for row in mass],
        bos_low=story.shifted(mass, -0.03),
        bos_high=story.shifted(mass, 0.03),
        texts=texts,
        by_text=[mass] * len(texts),
    )


def told(layers: int = 70, heads: int = 112, until: int | None = None) -> Iterator[events.Event]:
    """The session's events up to step ``until``; None: only diagnosed."""
    mass = rows(layers, heads)
    stock = head_map(mass)
    yield events.Created(session="big", model="bloom-big")
    yield events.WorkerStarted(pid=1)
    yield replace(
        story.LOADED, source="bloom-big", n_layers=layers, n_heads=heads, n_kv_heads=heads, d_model=128 * heads,
        parameters=176_247_271_424, slopes=[2 ** (-8 * (h + 1) / heads) for h in range(heads)],
    )  # fmt: skip
    yield events.Diagnosed(stage="stock", head_map=stock)
    if until is None:
        return
    targets = resolve("sick & band", Model.of(stock))
    sides = zones(targets, Model.of(stock))
    zone_layers, zone_heads = zone_of(targets)
    yield replace(
        story.pass_started(), target_heads=[str(head) for head in targets], zone_layers=zone_layers,
        zone_heads=zone_heads, steps=100,
    )  # fmt: skip
    now = rows(layers, heads, healed=True, moved=0.01)
    found = drift(mass, now, sides, T)
    columns = column_means(mass, now, sides[1] | sides[2])
    yield events.Cut(number=1, bos_mass=now, woken=len(targets), heldout_perplexity=36.0, drift=found, columns=columns)
    for step in range(1, until + 1):
        yield events.Step(
            number=1, step=step, loss=3.5 - step / 200, lr=5e-5, grad_norm=0.8, tokens=4096 * step, seconds=2.0
        )
        if step % 10 == 0:
            yield events.Check(
                number=1, step=step, train_loss=3.5, heldout_perplexity=32.0 - step / 50, woken=len(targets),
                bos_mass=now, drift=found, drift_training=found, columns=columns, best=True,
            )  # fmt: skip


def write_big(root: Path, name: str = "big", layers: int = 70, heads: int = 112, until: int | None = None) -> Session:
    """The folder of such a session."""
    session = Session(root / name)
    session.folder.mkdir(parents=True)
    story.append(session, told(layers, heads, until))
    return session


def sick(layers: int, heads: int) -> set[Head]:
    """The sick heads by the rule."""
    return {Head(i, j) for i in range(5, layers - 5) for j in range(heads - heads // 4, heads)}
