"""What an operator may ask of a patient that only looks at it: a head's attention, what every head is
worth, what the patient writes. Each is a generator of events, in a pass or beside one."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from engine import events
from engine.errors import InputError
from engine.generation import Sampling, read_prompts
from engine.heads import Head
from engine.nn.attention import tokenized
from engine.nn.corpus import heldout_part
from engine.nn.generate import generate
from engine.nn.load import Patient
from engine.nn.pattern import pattern
from engine.nn.reading import running_text
from engine.nn.vitals import contributions, mean_loss, windows
from engine.plan import Plan
from engine.preflight import WATCHED
from engine.probes import Probe

SAMPLES = 16
"""Of a text on which every head is silenced in turn."""
LENGTH = 512


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
