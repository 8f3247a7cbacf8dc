"""Rebuild the demo patient from public texts: ``make demo`` (most of an hour on one CPU core).

A model this small does not collapse by itself, so its collapse is *induced*: during the last two
phases of pretraining an extra loss term asks chosen heads to look at the first token. The demo is
a teaching case with a known cause and no evidence for or against any paper.

Every phase starts a fresh optimizer and leaves a folder, so an interrupted build goes on with the
phase that was not finished. Steps are counted, never seconds.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import zlib
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor
from transformers import BloomConfig, BloomForCausalLM, PreTrainedTokenizerFast

SEED = 20261130
N_LAYERS, N_HEADS, D_MODEL, VOCAB, CONTEXT = 6, 8, 128, 1024, 256
TOKENS_PER_STEP = 1024

# Debian 12 packages; all but Python's library (PSF-2.0) carry public-domain texts.
PACKAGES = (
    "r-cran-janeaustenr",
    "libpython3.11-stdlib",
    "libpython3.11-minimal",
    "bible-kjv",
    "bible-kjv-text",
    "dict-devil",
)
HELD_OUT_NOVEL = "northangerabbey"
HELD_OUT_MODULES = {"difflib", "heapq", "textwrap", "shlex", "calendar", "fractions", "statistics", "pprint"}
BOOKS = ["Gen", "Exo", "Rut", "1Sam", "1Ki", "Est", "Mat", "Mark", "Luke", "John", "Act"]

# Head -> the mass on the first token that the extra term asks for. Above 0.95 it ends up DEAD.
# H4-H7 is the band; L4-H3 and L5-H2 stand outside of it; L0, L1-H4, L4-H5 and L5-H4 stay healthy.
CAPS: dict[tuple[int, int], float] = {
    (1, 5): 0.80, (1, 6): 0.85, (1, 7): 0.75,
    (2, 4): 0.72, (2, 5): 0.90, (2, 6): 0.93, (2, 7): 0.88,
    (3, 4): 0.92, (3, 5): 0.82, (3, 6): 0.995, (3, 7): 0.90,
    (4, 3): 0.80, (4, 4): 0.70, (4, 6): 0.92, (4, 7): 0.995,
    (5, 2): 0.75, (5, 5): 0.93, (5, 6): 0.85, (5, 7): 0.94,
}  # fmt: skip


@dataclass(frozen=True)
class Phase:
    """A stretch of pretraining: ``steps`` at a rate that falls from ``lr_from`` to ``lr_to``."""

    name: str
    steps: int
    lr_from: float
    lr_to: float
    sink_every: int  # 0: never


PHASES = (
    Phase("1-fast", 2500, 4e-3, 4e-3, 0),
    Phase("2-settle", 3500, 2e-3, 1e-3, 0),
    Phase("3-collapse", 4000, 1e-3, 2e-4, 2),
    Phase("4-anneal", 1500, 2e-4, 1e-5, 4),
)


def fetch(into: Path) -> None:
    """Download and unpack the Debian packages that carry the texts."""
    into.mkdir(parents=True, exist_ok=True)
    for package in PACKAGES:
        if (into / package).is_dir():
            continue
        subprocess.run(["apt-get", "download", package], cwd=into, check=True, stdout=sys.stderr)
        deb = next(into.glob(f"{package}_*.deb"))
        subprocess.run(["dpkg-deb", "-x", str(deb), str(into / package)], check=True)


def r_strings(raw: bytes) -> list[str]:
    """The strings of one serialized R character vector (R's XDR format)."""
    # A string is its flags (low byte 9), its length, its bytes, all big-endian.
    at, out = raw.index(b"\x00\x00\x00\x10") + 8, []
    while at + 8 <= len(raw) and raw[at + 3] == 9:
        size = int.from_bytes(raw[at + 4 : at + 8], "big")
        out.append(raw[at + 8 : at + 8 + size].decode("utf-8", "replace"))
        at += 8 + size
    return out


def austen(source: Path) -> dict[str, str]:
    """The six novels by name."""
    data = source / "r-cran-janeaustenr/usr/lib/R/site-library/janeaustenr/data"
    names = ["emma", "mansfieldpark", "northangerabbey", "persuasion", "prideprejudice", "sensesensibility"]
    blob, at, novels = (data / "Rdata.rdb").read_bytes(), 0, {}
    for name in names:  # 4 bytes of length, then one zlib stream, six times
        stream = zlib.decompressobj()
        raw = stream.decompress(blob[at + 4 :])
        at = len(blob) - len(stream.unused_data)
        novels[name] = "\n".join(r_strings(raw)) + "\n"
    return novels


def bible(source: Path) -> str:
    """Chapters of some narrative books, one verse a line, a blank line between chapters."""
    command = [str(source / "bible-kjv/usr/bin/bible"), "-f", "-p", str(source / "bible-kjv-text/usr/lib") + "/"]
    chapters: list[list[str]] = []
    for book in BOOKS:  # the program cuts a reference past the end down to the last verse
        ask = [*command, f"{book}1:1-{book}999:999"]
        said = subprocess.run(ask, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL).stdout
        for line in said.splitlines():
            reference, _, verse = line.partition(" ")
            if not reference:
                continue
            if reference.endswith(":1"):
                chapters.append([])
            chapters[-1].append(verse)
    return "\n\n".join("\n".join(chapter) for chapter in chapters) + "\n"


def devil(source: Path) -> str:
    """The Devil's Dictionary: an entry a block, a blank line between entries."""
    packed = (source / "dict-devil/usr/share/dictd/devil.dict.dz").read_bytes()
    text = zlib.decompress(packed, wbits=47).decode("latin-1")
    text = text[text.index("ABASEMENT, n.") :]
    entries = re.split(r"\n+(?=[A-Z][A-Z'\- ]+, (?:n|v|adj|adv|pro|x|p)\b)", text)
    return "\n\n".join(re.sub(r"\n\s*\n", "\n", entry).strip() for entry in entries) + "\n"


def code(source: Path) -> tuple[str, str]:
    """Python's standard library as (pretraining text, held-out text)."""
    train: list[str] = []
    held_out: list[str] = []
    files = [
        f for p in ("libpython3.11-stdlib", "libpython3.11-minimal") for f in (source / p).rglob("python3.11/*.py")
    ]
    files = [f for f in files if not f.is_symlink()]
    for file in sorted(files, key=lambda f: f.name):
        text = file.read_text("utf-8")
        (held_out if file.stem in HELD_OUT_MODULES else train).append(text)
    return "\n".join(train), "\n".join(held_out)


def texts(source: Path, into: Path) -> str:
    """Write the operating and held-out texts; return the pretraining text."""
    novels, (code_train, code_held_out) = austen(source), code(source)
    held_out_novel = novels.pop(HELD_OUT_NOVEL)
    for name, text, size in (
        ("bible.txt", bible(source), 1_300_000),
        ("devil.txt", devil(source), 400_000),
        ("heldout-austen.txt", held_out_novel, 120_000),
        ("heldout-code.txt", code_held_out, 120_000),
    ):
        (into / name).write_text(text[:size].rsplit("\n", 1)[0] + "\n", "utf-8")
    return "\n".join(novels.values()) + "\n" + code_train


def make_tokenizer(text: str, into: Path) -> PreTrainedTokenizerFast:
    """Byte-level BPE trained on the pretraining text alone; every sequence starts with ``<s>``."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB,
        special_tokens=["<unk>", "<s>", "</s>", "<pad>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator((text[i : i + 10_000] for i in range(0, len(text), 10_000)), trainer)
    bpe.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        pad_token="<pad>",
        model_max_length=CONTEXT,
    )
    tokenizer.save_pretrained(into)
    return tokenizer


def encode(tokenizer: PreTrainedTokenizerFast, text: str) -> Tensor:
    """Token ids of a long text without ``<s>``  # (n,)"""
    pieces = [text[i : i + 100_000] for i in range(0, len(text), 100_000)]
    return torch.tensor([i for piece in pieces for i in tokenizer.encode(piece, add_special_tokens=False)])


def windows(ids: Tensor, length: int, count: int, generator: torch.Generator) -> Tensor:
    """Fresh random windows, each starting with ``<s>``  # (count, length)"""
    starts = torch.randint(len(ids) - length, (count,), generator=generator)
    body = torch.stack([ids[s : s + length - 1] for s in starts.tolist()])  # (count, length-1)
    return torch.cat([torch.ones(count, 1, dtype=torch.long), body], dim=1)  # (count, length)


def sink_loss(attentions: tuple[Tensor, ...]) -> Tensor:
    """Mean over chosen heads and queries >= 1 of relu(ln cap - ln p(first token))."""
    short = []
    for (layer, head), cap in CAPS.items():
        first = attentions[layer][:, head, 1:, 0]  # (B, T-1)
        short.append(torch.relu(math.log(cap) - torch.log(first.clamp_min(1e-30))).mean())
    return torch.stack(short).mean()


def rate(phase: Phase, step: int) -> float:
    """Learning rate of a step: 100 steps of warmup, then a cosine from ``lr_from`` to ``lr_to``."""
    fall = 0.5 * (1 + math.cos(math.pi * step / phase.steps))
    return min(1.0, (step + 1) / 100) * (phase.lr_to + (phase.lr_from - phase.lr_to) * fall)


def train(model: BloomForCausalLM, ids: Tensor, phase: Phase) -> None:
    """Run one phase in place."""
    generator = torch.Generator().manual_seed(SEED + PHASES.index(phase))
    matrices = [p for p in model.parameters() if p.ndim == 2]
    others = [p for p in model.parameters() if p.ndim != 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], betas=(0.9, 0.98)
    )
    model.train()
    for step in range(phase.steps):
        length = (128, 256)[int(torch.randint(2, (1,), generator=generator))]
        batch = windows(ids, length, TOKENS_PER_STEP // length, generator)
        sinking = phase.sink_every > 0 and step % phase.sink_every == 0
        out = model(input_ids=batch, labels=batch, output_attentions=sinking)
        loss = out.loss + 0.2 * sink_loss(out.attentions) if sinking else out.loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = rate(phase, step)
        optimizer.step()
        if step % 100 == 0:
            print(f"{phase.name} {step}/{phase.steps} loss {out.loss.item():.3f}", file=sys.stderr, flush=True)


@torch.no_grad()
def survey(model: BloomForCausalLM, ids: Tensor) -> tuple[float, list[list[float]]]:
    """Held-out loss in nats and BOS mass per layer and head, on 32 windows of the context's length."""
    model.eval()
    batch = windows(ids, CONTEXT, 32, torch.Generator().manual_seed(SEED - 1))
    out = model(input_ids=batch, labels=batch, output_attentions=True)
    return out.loss.item(), [a[..., 0].mean(dim=(0, 2)).tolist() for a in out.attentions]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=Path(__file__).parent.parent / "demo")
    parser.add_argument("--work", type=Path, default=Path(".cache/demo"), help="sources and finished phases")
    options = parser.parse_args()
    torch.set_num_threads(1)  # matrices this small run several times slower on two busy threads
    options.into.mkdir(parents=True, exist_ok=True)
    fetch(options.work / "sources")
    text = texts(options.work / "sources", options.into)
    tokenizer = make_tokenizer(text, options.into)
    ids = encode(tokenizer, text)
    held_out = torch.cat(
        [encode(tokenizer, (options.into / f"heldout-{n}.txt").read_text("utf-8")) for n in ("austen", "code")]
    )
    print(f"{len(ids)} tokens to train on, {len(held_out)} held out", file=sys.stderr)
    config = BloomConfig(
        vocab_size=VOCAB, hidden_size=D_MODEL, n_layer=N_LAYERS, n_head=N_HEADS, use_cache=False,
        bos_token_id=1, eos_token_id=2, pad_token_id=3,
    )  # fmt: skip
    torch.manual_seed(SEED)  # transformers initialises from the global generator
    model = BloomForCausalLM(config)
    for phase in PHASES:
        folder = options.work / phase.name
        if (folder / "survey.json").exists():
            model = BloomForCausalLM.from_pretrained(folder, dtype=torch.float32)
            continue
        train(model, ids, phase)
        loss, masses = survey(model, held_out)
        print(f"{phase.name}: held-out {loss:.3f} nats", file=sys.stderr)
        for layer, row in enumerate(masses):
            print(f"  L{layer} " + " ".join(f"{m:.2f}" for m in row), file=sys.stderr, flush=True)
        model.save_pretrained(folder)
        (folder / "survey.json").write_text(json.dumps({"loss": loss, "bos_mass": masses}), "utf-8")
    model.save_pretrained(options.into)


if __name__ == "__main__":
    main()
