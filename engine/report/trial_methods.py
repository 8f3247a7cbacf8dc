"""Methods of several arms: what all share once, what sets them apart, and the hashes of each session."""

from __future__ import annotations

from collections.abc import Iterable

from engine.arms import Arm
from engine.report.blocks import Block, Facts, Heading, Listing, Paragraph, Table
from engine.report.methods import PARTS, end_words, seed_words, session_words
from engine.report.trial_material import TrialMaterial
from engine.report.trial_settings import codes, differing, value_told
from engine.report.words import NOT_KNOWN, Code, Text

Words = tuple[str | Code, ...]


def methods_of(m: TrialMaterial) -> list[Block]:
    """As one would write them down for somebody else to repeat."""
    blocks: list[Block] = [Heading(2, ["Methods"])]
    names = {id(x): _run_name(m, x.record.session.id) for x in m.materials}
    grouped = _grouped((tuple(session_words(x, seed=False)), names[id(x)]) for x in m.materials)
    blocks += _told(grouped)
    for number in m.numbers:
        arms = [arm for arm in m.done if arm.number == number]
        blocks += _pass(arms, number, several=len(m.numbers) > 1)
    return blocks


def _run_name(m: TrialMaterial, id_: str) -> str:
    return next((arm.name for arm in m.arms if any(run.record.session.id == id_ for run in arm.runs)), id_)


def _grouped(pairs: Iterable[tuple[Words, str]]) -> dict[Words, list[str]]:
    """The different texts, each with the names that it holds for."""
    out: dict[Words, list[str]] = {}
    for words, name in pairs:
        names = out.setdefault(words, [])
        names += [] if name in names else [name]
    return out


def _told(grouped: dict[Words, list[str]]) -> list[Block]:
    if len(grouped) == 1:
        return [Paragraph(next(iter(grouped)))]
    return [Listing([[*codes(names), ": ", *words] for words, names in grouped.items()])]


def _pass(arms: list[Arm], number: int, several: bool) -> list[Block]:
    """One pass: the sentences that hold for all arms in one paragraph, the others arm by arm."""
    shared: list[str | Code] = [f"Pass {number}, in all arms: " if several else "In all arms: "]
    apart: dict[str, list[str | Code]] = {}
    for part in PARTS:
        if part in (seed_words, end_words):
            shared += [". "] if part is seed_words else []
            continue
        found = _grouped((tuple(part(p)), arm.label) for arm in arms for p in arm.passes)
        if len(found) == 1:
            shared += next(iter(found))
            continue
        for words, labels in found.items():
            for label in labels:
                apart.setdefault(label, []).extend([" ", *words] if label in apart else words)
    seeds = list(dict.fromkeys(p.seed for arm in arms for p in arm.passes))
    shared.append(f" Seed{'' if len(seeds) == 1 else 's'} {', '.join(map(str, seeds))}.")
    blocks: list[Block] = [Paragraph(_tidied(shared))]
    if apart:
        blocks.append(Listing([_tidied([Code(label), ": ", *words]) for label, words in apart.items()]))
    names = differing(arms)
    if names and len(arms) > 1:
        rows: list[list[Text]] = [
            [[arm.label], *(value_told(values[i]) for values in names.values())] for i, arm in enumerate(arms)
        ]
        blocks += [Heading(3, [f"What differs in pass {number}" if several else "What differs"])]
        blocks.append(Table(["arm", *names], rows))
    return blocks


def _tidied(words: list[str | Code]) -> list[str | Code]:
    """Sentences that stood apart, put together: no full stop twice and no blank twice."""
    out: list[str | Code] = []
    for word in words:
        last = out[-1] if out else None
        if isinstance(word, str) and isinstance(last, str):
            if word.startswith(". ") and last.rstrip().endswith((".", ":")):
                word = word[2:]
            twice = last.endswith(" ") and word.startswith(" ")
            out[-1] = last + (word.lstrip(" ") if twice else word)
        else:
            out.append(word)
    return out


def sessions_of(m: TrialMaterial) -> list[Block]:
    """Every session: id, seed, state, and the hashes that say which weights it was."""
    rows: list[list[Text]] = [
        [[Code(s.id)], [s.arm or NOT_KNOWN], [str(s.seed)], [s.state], [s.created], [s.updated]]
        for s in (x.record.session for x in m.materials)
    ]
    blocks: list[Block] = [
        Heading(2, ["Sessions"]),
        Table(["session", "arm", "seed", "state", "begun", "last entry"], rows),
    ]
    facts: list[tuple[str, Text]] = [(x.record.session.id, _hashes(m, i)) for i, x in enumerate(m.materials)]
    blocks += [Heading(3, ["Hashes (sha256)"]), Facts(facts)]
    notes: list[Text] = [
        [Code(x.record.session.id), f", {note.get('time', '')}: ", " ".join(note.get("text", "").split())]
        for x in m.materials
        for note in x.record.note
    ]
    if notes:
        blocks += [Heading(3, ["Notes"]), Listing(notes)]
    return blocks


def _hashes(m: TrialMaterial, i: int) -> Text:
    record = m.materials[i].record
    out: list[str | Code] = []
    if record.patient:
        out += ["weights ", Code(record.patient.weights_sha256)]
    for p in record.passes:
        out += [f"; pass {p.number}: frozen bytes before ", Code(p.frozen_sha256_before)]
        if p.frozen_sha256_after == p.frozen_sha256_before:
            out.append(" and the same after")
        elif p.frozen_sha256_after:
            out += [" and NOT the same after: ", Code(p.frozen_sha256_after)]
        out += [f", patch of step {p.best_step} ", Code(p.patch_sha256)] if p.patch_sha256 else []
    return out or [NOT_KNOWN]
