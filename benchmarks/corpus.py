"""Reading a large corpus: seconds to the first samples, and memory while more and more is read.

    python -m benchmarks.corpus [--gigabytes 2] [--read 200 400] [--whole]

A text file of that size is made in a temporary folder and read as a pass would, by the demo's
tokenizer, each reading in a process of its own and with an empty cache, so that peaks do not mix.
Printed: seconds, tokens, resident memory before the reading and at its peak, size of the cache. Of a
reading: with counted steps (first samples; so many megabytes; the same again from the cache), and
where asked for the whole file. All that was made is deleted.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
from transformers import AutoTokenizer

from engine import demo
from engine.nn.corpus import read_corpus
from engine.plan import Plan

LENGTH = 512


def make_text(path: Path, size: int) -> None:
    """Paragraphs of a demo text over and over, each with a number, so that all differ."""
    paragraphs = (demo.FOLDER / "bible.txt").read_text("utf-8").split("\n\n")
    number = written = 0
    with path.open("wb") as file:
        while written < size:
            number += 1
            written += file.write(f"{number}. {paragraphs[number % len(paragraphs)]}\n\n".encode())


def read(path: Path, steps: int | None) -> dict[str, Any]:
    """Read as a pass of so many samples would (None: all there is); what it took."""
    tokenizer = AutoTokenizer.from_pretrained(demo.FOLDER, local_files_only=True)
    patient: Any = SimpleNamespace(tokenizer=tokenizer, context=LENGTH)
    plan = Plan(targets="all", corpus=[str(path)], length=LENGTH, steps=steps, accumulate=1)
    before = psutil.Process().memory_info().rss
    began = time.monotonic()
    corpus = read_corpus(patient, plan, lambda tokens: None)
    corpus.train.take(list(range(0, len(corpus.train), max(1, len(corpus.train) // 1000))))
    return {
        "seconds": time.monotonic() - began,
        "tokens": corpus.train.tokens,
        "before": before,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def measured(path: Path, cache: Path, steps: int | None, label: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.corpus", "--child", str(path), "--steps", str(steps or 0)]
    environment = {**os.environ, "HEADSURGEON_CACHE": str(cache)}
    answer = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
    found: dict[str, Any] = json.loads(answer)
    cached = sum(file.stat().st_size for file in cache.rglob("*.tokens"))
    print(
        f"{label:<28} {found['seconds']:8.1f} s {found['tokens'] / 1e6:8.2f} M tokens   resident "
        f"{found['before'] / 1e6:5.0f} MB before, {found['peak'] / 1e6:5.0f} MB at peak   cache {cached / 1e6:.0f} MB",
        flush=True,
    )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--read", type=int, nargs="*", default=[200, 400], metavar="MB")
    parser.add_argument("--whole", action="store_true", help="read the whole file as well")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        print(json.dumps(read(given.child, given.steps or None)))
        return
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path = folder / "large.txt"
        make_text(path, int(given.gigabytes * 1e9))
        print(f"a text file of {path.stat().st_size / 1e9:.2f} GB")
        measured(path, folder / "first", 1, "first samples")
        sample = (demo.FOLDER / "bible.txt").read_text("utf-8")[:200_000]
        tokenizer = AutoTokenizer.from_pretrained(demo.FOLDER, local_files_only=True)
        per_character = len(tokenizer(sample, verbose=False)["input_ids"]) / len(sample)
        for megabytes in given.read:
            steps = int(megabytes * 1e6 * per_character * 0.9 / LENGTH)  # a tenth is held out
            measured(path, folder / f"{megabytes}", steps, f"{megabytes} MB")
            measured(path, folder / f"{megabytes}", steps, f"{megabytes} MB, from the cache")
        if given.whole:
            measured(path, folder / "whole", None, "the whole file")


if __name__ == "__main__":
    main()
