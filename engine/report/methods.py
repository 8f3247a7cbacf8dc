"""The methods in prose, a paragraph per pass: every setting, so that a reader can repeat it."""

from __future__ import annotations

from typing import Any

from engine.report.blocks import Block, Heading, Paragraph
from engine.report.material import Material
from engine.report.words import Code, Text, grouped
from engine.tables import CorpusTable, PassTable, PatientTable

Words = list[str | Code]


def methods(m: Material) -> list[Block]:
    """Session and passes as one would write them down for somebody else to repeat."""
    if not m.record.passes:
        return []
    return [
        Heading(2, ["Methods"]),
        Paragraph(session_words(m)),
        *(Paragraph(_pass(p)) for p in m.record.passes),
    ]


def session_words(m: Material, seed: bool = True) -> Text:
    r, t = m.record, m.thresholds
    told: Words = ["The work was done with headsurgeon ", Code(r.session.headsurgeon)]
    if r.environment:
        told.append(" (")
        for i, (name, version) in enumerate(r.environment.items()):
            told += [", " if i else "", Code(f"{name} {version or 'none'}")]
        told.append(")")
    told += [" on the model ", Code(r.session.model)]
    told += _patient(r.patient) if r.patient else []
    told.append(f". The session's seed is {r.session.seed}." if seed else ".")
    stock = r.diagnosis.get("stock")
    if stock:
        texts: Words = ["the built-in texts"] if not r.session.texts else ["the texts of ", Code(r.session.texts)]
        told += [f" Every head was measured on {len(stock.texts)} texts ("]
        told += texts
        told.append(
            f", {grouped(sum(text.tokens for text in stock.texts))} tokens), each counting once: its BOS mass, which "
            "is its mean attention to the first token over all query positions, and its mean entropy in nats. "
            f"Classes: dead above a BOS mass of {t.dead:g}, bos_sink above {t.bos_sink:g}, else low_entropy below "
            f"{t.low_entropy:g} nats, else healthy. The band is the run of head indices sick in more than "
            f"{100 * t.band_rate:g} % of the layers; a head drifts whose BOS mass moved by more than {t.drift:g}."
        )
    return told


def _patient(p: PatientTable) -> Words:
    revision: Words = [", revision ", Code(p.revision)] if p.revision else []
    return [
        " (source ", Code(p.source), *revision, ", sha256 of the weights ", Code(p.weights_sha256), ", family ",
        Code(p.family),
        f", {p.n_layers} layers of {p.n_heads} heads, {grouped(p.parameters)} parameters), in ",
        Code(p.dtype), " on ", Code(p.device), f" with {p.threads} thread{'' if p.threads == 1 else 's'}",
    ]  # fmt: skip


def _pass(p: PassTable) -> Text:
    told: Words = [f"Pass {p.number}. "]
    for part in PARTS:
        told += part(p)
    for name, value in (p.model_extra or {}).items():  # settings of a later program
        told += [" Also set: ", Code(f"{name} = {value}"), "."]
    return told


def _targets(p: PassTable) -> Words:
    against = "the model as it was loaded" if p.classes == "stock" else "the model as it stood"
    return [
        "The targets ", Code(p.targets), f", resolved against the head map of {against}, are "
        f"{grouped(len(p.target_heads))} heads: ", Code(", ".join(p.target_heads)), ". ",
    ]  # fmt: skip


def _operation(p: PassTable) -> Words:
    size = f"{grouped(p.trained_parameters)} parameters, in tensors of {grouped(p.touched_tensor_parameters)}"
    match p.treatment:
        case "sink_logit":
            before = "where they were" if p.sink_logits == "train from where they are" else _HALF
            return [
                "Each got a sink logit, which takes part in its softmax and carries no value; the logits began "
                f"{before} and only they were trained ({size}), in fp32, all else frozen. "
            ]
        case "placeholder":
            return [
                "The targets were left as they are. Before every text stood the token ",
                Code(p.placeholder_text or "?"), f" (id {p.placeholder}), and only its embedding was trained ({size}), "
                "as an fp32 master that is cast when written back, all else frozen; the first word's prediction from "
                "it alone is not counted. ",
            ]  # fmt: skip
        case "prune":
            return ["Their columns of the output projection were set to 0; nothing was trained. "]
        case "nothing":
            return ["Nothing was done to them: the model was measured as it stands. "]
    parts = ", ".join(p.parts.upper())
    what = (
        f"Their {parts} rows were drawn anew ({_INITS.get(p.init, p.init)}), the biases of these rows and the heads' "
        "columns of the output projection set to 0"
        if p.reinit
        else f"Nothing was reinitialised: their {parts} rows and output columns were trained from where they are"
    )
    return [
        f"{what}; only these slices were trained ({size}), as fp32 masters that are cast when written back, all else "
        "frozen. "
    ]


_HALF = "where they take about half of what the keys take together"
_INITS = {"xavier_normal": "Xavier, normal", "xavier_uniform": "Xavier, uniform"}


def _corpus(p: PassTable) -> Words:
    told: Words = ["The corpus: "]
    for i, source in enumerate(p.corpus):
        told += ["; " if i else "", *_source(source)]
    told.append(
        f". Of its documents {100 * p.heldout_share:g} % were held out by a hash of their text, at most "
        f"{grouped(p.heldout_samples)} samples of them evaluated on; the rest was packed into samples of "
        f"{grouped(p.length)} tokens without padding."
    )
    kept = []
    if p.samples:
        kept.append(f"at most {grouped(p.samples)} different samples were trained on")
    if p.vocabulary:
        kept.append(f"words beyond the {grouped(p.vocabulary)} most frequent were left out")
    if p.layout != "kept":
        kept.append("every run of white space became one space")
    if p.strict:
        kept.append("a broken line would have ended the pass")
    if kept:
        told.append(" Of what was trained on: " + "; ".join(kept) + ".")
    return [*told, " "]


def _source(c: CorpusTable) -> Words:
    repeat = f", read {c.repeat} times an epoch" if c.repeat != 1 else ""
    return [
        Code(c.source), " (sha256 ", Code(c.sha256),
        f", {grouped(c.documents)} documents, {grouped(c.train_tokens)} tokens to train on, "
        f"{grouped(c.heldout_tokens)} held out{repeat})",
    ]  # fmt: skip


def _training(p: PassTable) -> Words:
    if not p.trains:
        return ["There were no steps"]
    planned = f"{grouped(p.steps)} steps" + (f" ({p.epochs} epoch{'' if p.epochs == 1 else 's'})" if p.epochs else "")
    return [
        f"AdamW (betas 0.9 and 0.999, no weight decay) ran for {planned} planned, at a learning rate of {p.lr:g} "
        f"after {p.warmup} steps of linear warmup and along a cosine to 0, gradients clipped at a norm of {p.clip:g}, "
        f"{grouped(p.length * p.micro_batch * p.accumulate)} tokens a step (micro-batch {p.micro_batch}, accumulation "
        f"{p.accumulate}), "
        f"{'with' if p.checkpointing else 'without'} gradient checkpointing",
    ]


def seed_words(p: PassTable) -> Words:
    return [f", seed {p.seed}. "]


def _changes(p: PassTable) -> Words:
    told: Words = []
    for change in p.change:
        values = {name: value for name, value in change.items() if name != "step"}
        told += [f"After step {_step(change)} the operator set "]
        for i, (name, value) in enumerate(values.items()):
            told += [", " if i else "", Code(f"{name} = {str(value).lower()}")]
        told.append("; ")
    return [*told[:-1], ". "] if told else []


def _step(change: dict[str, Any]) -> str:
    step = change.get("step")
    return str(step) if isinstance(step, int) else "?"


def _evaluation(p: PassTable) -> Words:
    patience = f"stopping after {p.patience} checks without a better one" if p.patience else "without early stop"
    kept = "were kept" if p.outcome != "stopped_last" else "were not kept but, as the operator asked, the last"
    checked = (
        f"It was checked every {grouped(p.check_every)} steps, {patience}; the slices of the lowest held-out "
        f"perplexity {kept}."
    )
    told: Words = [checked if p.trains else "It was evaluated before and after."]
    watched = [*p.watch, *(f"{name} (held-out part)" for name in p.watch_heldout)]
    for i, name in enumerate(watched):
        told += [", " if i else " Perplexity was also taken of ", Code(name)]
    told.append("." if watched else "")
    told.append(" The model wrote on from the built-in prompts before and after." if p.generate else "")
    return told


def end_words(p: PassTable) -> Words:
    told: Words = [" The sha256 of all frozen bytes was ", Code(p.frozen_sha256_before), " before"]
    told += [" and ", Code(p.frozen_sha256_after), " after"] if p.frozen_sha256_after else []
    told += (
        [f"; the patch with the slices of step {p.best_step} has sha256 ", Code(p.patch_sha256)]
        if p.patch_sha256
        else []
    )
    return [*told, "."]


PARTS = (_targets, _operation, _corpus, _training, seed_words, _changes, _evaluation, end_words)
"""What is told of a pass, in order."""
