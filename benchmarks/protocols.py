"""The paper's experiments on the demo patient, in full: each a trial in ``sessions/`` with a report beside its arms.

    python -m benchmarks.protocols [FOLDER]

Two are carried out at once. What a kill or an interrupt leaves, ``headsurgeon resume TRIAL`` carries on.
"""

from __future__ import annotations

import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from engine.session import sessions_root
from engine.trial import list_trials

NAMES = ("relapse", "gradients-only", "treatments", "two-passes", "two-corpora", "healthy-column")
"""The longest first, so that two lanes end together."""


def headsurgeon(*arguments: object) -> None:
    """Run a command in a process of its own; its progress is kept to itself.

    Raises:
        CalledProcessError: it did not end with 0.
    """
    subprocess.run(
        [sys.executable, "-m", "engine", *map(str, arguments)], check=True, stdout=subprocess.DEVNULL, stderr=None
    )


def carry_out(name: str, root: Path) -> str:
    """One protocol and its report; returns what to tell of it."""
    began = time.monotonic()
    before = set(list_trials(root))
    headsurgeon("operate", "demo", "--plan", name, "--sessions", root)
    (trial,) = (t for t in set(list_trials(root)) - before if f"-{name}-demo-" in t.name)
    headsurgeon("report", trial, "--to", trial / "report")
    headsurgeon("verify", trial)
    return f"{name}: {time.monotonic() - began:.0f} s, {trial / 'report' / 'report.html'}"


def main(root: Path) -> None:
    """Carry all of them out."""
    began = time.monotonic()
    root.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(max_workers=2) as lanes:
        for told in lanes.map(lambda name: carry_out(name, root), NAMES):
            print(told, flush=True)
    print(f"all: {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else sessions_root())
