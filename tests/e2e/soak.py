"""Workers killed with ``kill -9`` at seeded random moments, each resumed to the same final bytes.

    make soak            # 50 of them
    python -m tests.e2e.soak 3

The parent only forks and kills: it never computes, so that a fork finds no thread pool half-used.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

from engine import events, record
from engine.chart import gaps
from engine.journal import Reader
from engine.nn.worker import carry_out
from engine.plan import make_plan
from engine.session import Session, create_session
from tests.engine.nn.patients import make_patient, write_corpus

SEED = 7


def begin(root: Path, place: Path) -> Session:
    plan = make_plan(
        {"targets": "L0-H1 | L1 x H0-2 | L2-H3", "corpus": [str(place / "birds.txt")], "steps": 20, "check_every": 2}
        | {"lr": 1e-2, "length": 32, "micro_batch": 2, "accumulate": 2, "generate": False}
    )
    request = events.Created(session="", model=str(place / "tiny"), device="cpu", plans=[plan.model_dump()])
    return create_session(root, request)


def start(session: Session) -> int:
    """Carry a session out in a process of its own; its number."""
    child = os.fork()
    if child == 0:
        try:
            carry_out(session)
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
    return child


def finish(session: Session) -> float:
    """Carry a session out to its end; the seconds it took."""
    began = time.monotonic()
    _, status = os.waitpid(start(session), 0)
    if status != 0:
        raise SystemExit(f"a worker failed in {session.folder}")
    return time.monotonic() - began


def main() -> None:
    kills = int(sys.argv[1])
    draw, moments = random.Random(SEED), Counter[str]()
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        if os.fork() == 0:
            make_patient(place / "tiny")
            write_corpus(place / "birds.txt", 120)
            os._exit(0)
        os.wait()
        whole = begin(place / "whole", place)
        length = finish(whole)
        wanted = whole.patch(1).read_bytes()
        for number in range(kills):
            session = begin(place / f"{number}", place)
            child = start(session)
            time.sleep(draw.uniform(0, length))
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            entries = list(Reader(session.journal).entries())
            moments[entries[-1].event.kind] += 1
            finish(session)
            if session.patch(1).read_bytes() != wanted:
                raise SystemExit(f"kill {number} changed the slices (it came after {entries[-1].event.kind})")
            if gaps(list(Reader(session.journal).entries())):
                raise SystemExit(f"kill {number} tore the journal")
            if record.load(session).passes[0].outcome != "completed":
                raise SystemExit(f"kill {number} left the pass unfinished")
    after = ", ".join(f"{kind} {n}" for kind, n in moments.most_common())
    print(f"{kills} workers killed, all resumed to the same bytes; last events before the kill: {after}")


if __name__ == "__main__":
    main()
