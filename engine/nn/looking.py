"""What an operator may ask of a patient that only looks at it: a head's attention, what every head is
worth, what the patient writes. Each is a generator of events, in a pass or beside one."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterator
from dataclasses import asdict

import torch

from engine import events
from engine.errors import InputError
from engine.generation import Sampling, read_prompts
from engine.heads import Head
from engine.nn.attention import tokenized
from engine.nn.corpus import heldout_part
from engine.nn.generate import generate
from engine.nn.load import Patient
from engine.nn.patch import Patch, taken_off
from engine.nn.pattern import pattern
from engine.nn.reading import running_text
from engine.nn.streaming import arm, check_streams, long_ids, streaming_cache
from engine.nn.vitals import contributions, mean_loss, windows
from engine.plan import Plan
from engine.preflight import WATCHED
from engine.probes import Probe
from engine.streaming import ANCHORS, Arm, ArmFigures, Passage, Read, arms, default_window

SAMPLES = 16
"""Of a text on which every head is silenced in turn."""
LENGTH = 512
AT_ONCE = 16
"""Tokens of a long text that are read between two looks whether it is to end."""


def attention(patient: Patient, stage: str, head: Head, probes: list[Probe], text: int) -> Iterator[events.Event]:
    """Where a head looks on one of the texts of the diagnosis, counted as the head map lists them.

    Raises:
        InputError: the patient has no such head.
    """
    texts = tokenized(patient, probes)
    chosen = texts[text % len(texts)]
    found = pattern(patient, chosen.ids, head)
    yield events.Attention(stage=stage, layer=head.layer, head=head.head, text=chosen.name, **vars(found))


def contributed(patient: Patient, stage: str, name: str, samples: torch.Tensor) -> Iterator[events.Event]:
    """What each head of the patient is worth on samples of a text.

    Args:
        samples: token ids  # (N, T)
    """
    yield events.Progress(what="silencing every head in turn")
    loss = mean_loss(patient, samples)
    rows = contributions(patient, samples, loss)
    tokens = samples.shape[0] * (samples.shape[1] - 1)
    yield events.Contributed(
        stage=stage, text=name, samples=len(samples), tokens=tokens, loss=round(loss, 6), rows=rows
    )


def written(patient: Patient, stage: str, seed: int) -> Iterator[events.Event]:
    """What the patient makes of the built-in prompts."""
    prompts, sampling = read_prompts(), Sampling(seed=seed)
    for found in generate(patient, prompts, sampling):
        if isinstance(found, int):
            yield events.Progress(what="writing", done=found, total=len(prompts))
        else:
            yield events.Generated(
                stage=stage,
                temperature=sampling.temperature,
                top_p=sampling.top_p,
                new_tokens=sampling.new_tokens,
                seed=seed,
                continuations=found,
            )


def read_on(
    patient: Patient, states: dict[str, list[Patch]], source: str, window: int, tokens: int, known: dict[Passage, Read]
) -> Generator[events.Event, None, None]:
    """A long text read every way that is compared, in every state of the model; what is known is not read again.

    Args:
        states: what is taken off the model for each state, by its name
        source: of the text
        window: tokens held; 0: what suits the context
        tokens: of the text, from its beginning

    Raises:
        InputError: the patient cannot stream, the source cannot be read, or the numbers do not fit.
    """
    check_streams(patient)
    window = window or default_window(patient.context)
    anchors = [number for number in ANCHORS if number < window]
    streaming_cache(patient, anchors[-1], window)  # takes no memory yet, and complains first
    ids = long_ids(patient, running_text(source), tokens)
    if len(ids) < window + 2:
        raise InputError(
            f"{source} gives {len(ids)} tokens, which a window of {window} holds whole; give a longer text, more "
            "tokens or a smaller window"
        )
    passage = Passage(source, hashlib.sha256(ids.cpu().numpy().tobytes()).hexdigest(), len(ids) - 1, window)
    yield events.StreamStarted(text=source, tokens=passage.tokens, window=window)
    for stage, patches in states.items():
        done = known.get(passage, {}).get(stage, {})
        with taken_off(patient, patches):
            for how in arms(anchors, passage.tokens):
                if how not in done:
                    yield from _read(patient, stage, passage, ids, how)
    yield events.StreamEnded(outcome="completed")


def _read(patient: Patient, stage: str, passage: Passage, ids: torch.Tensor, how: Arm) -> Iterator[events.Event]:
    for found in arm(patient, ids, passage.window, how, AT_ONCE):
        match found:
            case int():
                what = f"{stage}, {how.name}: tokens"
                yield events.Progress(what=what, done=found, total=passage.tokens - passage.window)
            case ArmFigures():
                yield events.Streamed(
                    stage=stage,
                    text=passage.text,
                    text_sha256=passage.sha256,
                    tokens=passage.tokens,
                    window=passage.window,
                    way=how.kind,
                    anchors=how.anchors,
                    **asdict(found),
                )


def watched(patient: Patient, plan: Plan, progress: Callable[[int], None]) -> dict[str, torch.Tensor]:
    """What a plan has watched besides its own held-out part: beginnings of texts by their name, and held-out
    parts of corpora as ``<source> (held out)``  # (n, length) each

    Raises:
        InputError: a source cannot be read, or is shorter than one sample.
    """
    found = {source: first_samples(patient, source, plan.length, WATCHED) for source in plan.watch}
    for source in plan.watch_heldout:
        found[f"{source} (held out)"] = heldout_part(patient, plan, source, progress)
    return found


def first_samples(patient: Patient, source: str, length: int, at_most: int) -> torch.Tensor:
    """The beginning of a text, packed  # (n, length)

    Raises:
        InputError: the source cannot be read, or is shorter than one sample.
    """
    length = min(length, patient.context)
    found = windows(patient, running_text(source), length, at_most)
    if not found or found[0].shape[1] != length:
        raise InputError(f"the text {source} is shorter than one sample of {length} tokens")
    return found[0]
