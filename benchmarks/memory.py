"""Holds the preflight's memory estimate against what a pass really takes on a CPU: ``make bench-memory``.

Every case is a random BLOOM of more than 100 M parameters, operated on by a process of its own whose
largest resident memory is read from the kernel.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CORPUS = "\n\n".join(f"Paragraph {i} tells of {i * i} birds, {i * 7 % 13} trees and a river." for i in range(4000))


@dataclass(frozen=True)
class Case:
    """A model and a plan."""

    name: str
    shape: dict[str, int]
    dtype: str = "float32"
    plan: dict[str, Any] = field(default_factory=dict)
    context: int = 128
    """Length of the one text that is measured, in tokens."""


WIDE = {"hidden_size": 768, "n_layer": 12, "n_head": 12, "vocab_size": 32000}  # 110 M
WORDY = {"hidden_size": 512, "n_layer": 4, "n_head": 8, "vocab_size": 180000}  # 105 M
DEEP = {"hidden_size": 640, "n_layer": 20, "n_head": 16, "vocab_size": 8000}  # 103 M
FEW = {"targets": "L4-5 x H10-11"}
LEAST = Case("wordy, few tokens", WORDY, plan={"targets": "L1-H4 | L2-H5", "length": 64})
"""Takes the fewest seconds of all."""
CASES = (
    LEAST,
    Case("wordy", WORDY, plan={"targets": "L1 x H4-7", "length": 512}, context=512),
    Case("wordy, every head", WORDY, plan={"targets": "all", "length": 64}),
    Case("wordy bf16", WORDY, "bfloat16", {"targets": "L1 x H4-7", "length": 128}),
    Case("wide", WIDE, plan={**FEW, "length": 256}, context=256),
    Case("wide, many evaluated", WIDE, plan={**FEW, "length": 128, "heldout_samples": 12}),
    Case("wide, 4 at once", WIDE, plan={**FEW, "length": 256, "micro_batch": 4}, context=256),
    Case(
        "wide, 4 at once, checkpointing",
        WIDE,
        plan={**FEW, "length": 256, "micro_batch": 4, "checkpointing": True},
        context=256,
    ),
    Case("deep, long texts", DEEP, plan={"targets": "L8-9 x H14-15", "length": 128}, context=2048),
)


def make(folder: Path, case: Case) -> None:
    """Save the case's patient and a corpus."""
    import torch
    from transformers import BloomConfig, BloomForCausalLM

    from tests.engine.nn.patients import tokenizer

    with torch.device("meta"):
        model = BloomForCausalLM(BloomConfig(**case.shape, use_cache=False))
    model = model.to_empty(device="cpu").to(getattr(torch, case.dtype))
    model.tie_weights()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():  # the library's own initialisation takes several times as long
            parameter.uniform_(-0.03, 0.03, generator=draw)
    model.save_pretrained(folder)
    tokenizer(context=case.context).save_pretrained(folder)
    (folder / "birds.txt").write_text(CORPUS, "utf-8")
    (folder / "text.txt").write_text(CORPUS[: case.context].replace("\n", " "), "utf-8")


def operate(folder: Path, plan: dict[str, Any]) -> dict[str, int]:
    """A short pass in this process: estimated and measured bytes."""
    from engine import events
    from engine.nn.worker import carry_out
    from engine.plan import make_plan
    from engine.record import load
    from engine.session import create_session

    short = {"corpus": [str(folder / "birds.txt")], "steps": 1, "accumulate": 1}
    short |= {"heldout_samples": 1, "generate": False}
    plans = [make_plan({**short, **plan}).model_dump()]
    texts = str(folder / "text.txt")
    request = events.Created(session="", model=str(folder), device="cpu", texts=texts, plans=plans)
    session = create_session(folder / "sessions", request)
    carry_out(session)
    (done,) = load(session).passes
    return {"estimated": done.memory_bytes_estimated, "measured": done.memory_bytes_peak or 0}


def in_this_process(case: Case, folder: Path) -> dict[str, int]:
    """The case: a child makes the patient, so that its memory is not counted here."""
    child = os.fork()
    if child == 0:
        make(folder, case)
        os._exit(0)
    if os.waitpid(child, 0)[1]:
        raise SystemExit("the patient could not be made")
    return operate(folder, case.plan)


def run(case: Case) -> dict[str, int]:
    """The case in a process of its own: estimated and measured bytes."""
    with tempfile.TemporaryDirectory() as temporary:
        program = "import json; from benchmarks.memory import *; from pathlib import Path\n"
        program += f"print(json.dumps(in_this_process({case!r}, Path({temporary!r}))))"
        told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
        found: dict[str, int] = json.loads(told.stdout.splitlines()[-1])
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="cases; none: all")
    wanted = parser.parse_args().names
    print(f"{'case':<36} {'estimated':>10} {'measured':>10}")
    for case in CASES:
        if not wanted or case.name in wanted:
            found = run(case)
            off = 100 * (found["estimated"] / found["measured"] - 1)
            print(f"{case.name:<36} {found['estimated'] / 1e6:7.0f} MB {found['measured'] / 1e6:7.0f} MB {off:+6.1f} %")


if __name__ == "__main__":
    main()
