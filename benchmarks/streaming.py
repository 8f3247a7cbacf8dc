"""The demo patient reads on and on: time per token and memory over a long text, and what recomputing would take.

    make bench-stream

Printed: per stretch of the text the median time per token over its blocks (wall and processor time), the bytes
of the cache and the perplexity; at the end the last stretch beside the first. Then, per size of the window, the
time per token through the cache beside that of the window run anew for every token. A number in the
arguments is how many tokens to read.
"""

from __future__ import annotations

import math
import statistics
import sys
import time

from engine.nn.load import Patient, load
from engine.nn.reading import running_text
from engine.nn.streaming import cache_bytes, long_ids, recomputed, stream, streaming_cache

TEXT = "demo:bible.txt"
TOKENS, STRETCH, BLOCK = 200_000, 20_000, 1000
WINDOW, ANCHORS = 64, 4
WINDOWS = (32, 64, 128, 256)
PUBLISHED = 22.2
"""Times faster than recomputation at most, on models of 7 to 70 billion parameters (Xiao et al., 2023)."""


def long_text(patient: Patient, tokens: int) -> None:
    ids = long_ids(patient, running_text(TEXT), tokens + 1)
    cache = streaming_cache(patient, ANCHORS, WINDOW)
    print(f"{len(ids) - 1:,} tokens of {TEXT}, window {WINDOW} with {ANCHORS} anchors among them, blocks of {BLOCK}")
    print(f"{'to token':>10}{'ms/token':>10}{'cpu ms':>9}{'cache':>12}{'perplexity':>12}")
    wall: list[float] = []
    cpu: list[float] = []
    nats: list[float] = []
    medians: list[tuple[float, float]] = []
    read, spent = 0, time.process_time()
    for block in stream(patient, ids, cache, BLOCK):
        now = time.process_time()
        wall.append(1000 * block.seconds / len(block.nats))
        cpu.append(1000 * (now - spent) / len(block.nats))
        nats += block.nats
        read, spent = read + len(block.nats), now
        if read % STRETCH == 0:
            medians.append((statistics.median(wall), statistics.median(cpu)))
            perplexity = math.exp(statistics.fmean(nats))
            figures = f"{read:>10,}{medians[-1][0]:>10.3f}{medians[-1][1]:>9.3f}{cache_bytes(cache):>10,} B"
            print(f"{figures}{perplexity:>12.2f}", flush=True)
            wall, cpu, nats = [], [], []
    for name, column in (("wall", 0), ("cpu", 1)):
        of_stretches = [median[column] for median in medians]
        middle = statistics.median(of_stretches)
        print(
            f"{name}: last stretch / first {of_stretches[-1] / of_stretches[0]:.3f}; furthest from the middle "
            f"{max(abs(each / middle - 1) for each in of_stretches):.1%}"
        )


def ratios(patient: Patient) -> None:
    print(f"\n{'window':>8}{'cached':>12}{'recomputed':>14}{'ratio':>8}   (published: up to {PUBLISHED})")
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
