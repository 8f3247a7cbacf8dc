"""The demo patient reads on and on: time per token and memory over a long text, and what recomputing would take.

    make bench-stream

Printed: per size of the window, the time per token through the cache beside that of the window run anew for every
token. Then, per stretch of one long text read by one thread, the median time per token over its blocks, by the clock
and of the processor (other work on the machine moves the clock more), the bytes of the cache and the perplexity; and
how much longer a token takes the processor there than one through a cache that has only just been filled, in turns,
so that a busy machine disturbs both alike. A number in the arguments is how many tokens to read.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Iterator

import torch

from engine.nn.load import Patient, load
from engine.nn.reading import running_text
from engine.nn.streaming import Block, cache_bytes, long_ids, recomputed, stream, streaming_cache
from engine.streaming import PUBLISHED_RATIO

TEXT = "demo:bible.txt"
TOKENS, STRETCH, BLOCK = 200_000, 20_000, 1000
TURNS, TURN = 40, 50
"""At the end of a stretch so many turns of so many tokens each."""
WINDOW, ANCHORS = 64, 4
WINDOWS = (32, 64, 128, 256)


def timed(blocks: Iterator[Block]) -> Iterator[tuple[Block, float]]:
    """Each with the seconds of the processor that it took."""
    while True:
        began = time.process_time()
        block = next(blocks, None)
        if block is None:
            return
        yield block, time.process_time() - began


def long_text(patient: Patient, tokens: int) -> None:
    ids = long_ids(patient, running_text(TEXT), tokens + 1)
    cache = streaming_cache(patient, ANCHORS, WINDOW)
    print(f"\n{len(ids) - 1:,} tokens of {TEXT}, window {WINDOW} with {ANCHORS} anchors among them")
    print(f"{'to token':>9}{'ms/token':>10}{'of the CPU':>12}{'cache':>12}{'perplexity':>12}{'beside a fresh one':>20}")
    torch.set_num_threads(1)  # more would wait for one another, and waiting counts
    for start in range(0, len(ids) - 1, STRETCH):
        part = ids[start : start + STRETCH + 1]  # the last of a stretch is read as the first of the next
        turns = part[-TURNS * TURN - 1 :]
        blocks = list(timed(stream(patient, part[: len(part) - TURNS * TURN], cache, BLOCK)))
        fresh = streaming_cache(patient, ANCHORS, WINDOW)
        list(stream(patient, turns[: WINDOW + 1], fresh))
        old, new = [], []
        for turn in range(TURNS):
            few = turns[turn * TURN : (turn + 1) * TURN + 1]
            for seconds, read_through in ((old, cache), (new, fresh)):
                ((block, took),) = timed(stream(patient, few, read_through))
                seconds.append(took)
                if read_through is cache:
                    blocks.append((block, took))
        middle = statistics.median(1000 * block.seconds / len(block.nats) for block, _ in blocks)
        processor = statistics.median(1000 * took / len(block.nats) for block, took in blocks)
        perplexity = math.exp(statistics.fmean(nats for block, _ in blocks for nats in block.nats))
        beside = statistics.median(one / other for one, other in zip(old, new, strict=True)) - 1
        read = start + len(part) - 1
        figures = f"{middle:>10.3f}{processor:>12.3f}{cache_bytes(cache):>10,} B{perplexity:>12.2f}{beside:>+20.1%}"
        print(f"{read:>9,}{figures}", flush=True)


def ratios(patient: Patient) -> None:
    print(f"\n{'window':>8}{'cached':>12}{'recomputed':>14}{'ratio':>8}   (published: up to {PUBLISHED_RATIO})")
    for window in WINDOWS:
        ids = long_ids(patient, running_text(TEXT), window + 600)
        list(recomputed(patient, ids[: window + 5], window, window))  # the first runs are slower
        cached = [b.seconds / len(b.nats) for b in stream(patient, ids, streaming_cache(patient, ANCHORS, window), 50)]
        anew = [b.seconds / len(b.nats) for b in recomputed(patient, ids[: window + 201], window, window, 20)]
        one, other = statistics.median(cached[-10:]), statistics.median(anew)
        print(f"{window:>8}{1000 * one:>9.2f} ms{1000 * other:>11.2f} ms{other / one:>8.1f}", flush=True)


def main() -> None:
    patient = load("demo", "cpu")
    ratios(patient)
    long_text(patient, int(sys.argv[1]) if len(sys.argv) > 1 else TOKENS)


if __name__ == "__main__":
    main()
