"""The demo operation over learning rates, with and without reinitialisation, as a Markdown table.

    .venv/bin/python -m benchmarks.demo_rates

Runs the command line once per cell (several minutes in all) and prints what the records say.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

from engine.demo import OTHER_TEXTS

RATES = ("5e-5", "5e-4", "1e-3", "3e-3")


def operate(rate: str, reinit: bool) -> dict[str, Any]:
    """The pass of one operation on the demo, from its record."""
    with tempfile.TemporaryDirectory() as root:
        command = [sys.executable, "-m", "engine", "operate", "demo", "--targets", "sick", "--lr", rate]
        command += (
            ["--no-generate", "--sessions", root] if reinit else ["--no-generate", "--sessions", root, "--no-reinit"]
        )
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        (folder,) = Path(root).iterdir()
        done: dict[str, Any] = tomllib.loads((folder / "session.toml").read_text("utf-8"))["pass"][0]
        return done


def cell(done: dict[str, Any]) -> str:
    """woken · perplexity bible / austen / code · ablation loss."""
    other = done["perplexity_after"]
    figures = [done["heldout_perplexity"], *(other[name] for name in OTHER_TEXTS)]
    woken = f"{done['woken']}/{len(done['target_heads'])}"
    return f"{woken} · {' / '.join(f'{p:.1f}' for p in figures)} · {done['ablation_loss_after']:.3f}"


def main() -> None:
    print("| rate | reinitialised | not reinitialised |\n| --- | --- | --- |")
    done: dict[str, Any] = {}
    for rate in RATES:
        done = operate(rate, reinit=True)
        print(f"| {rate} | {cell(done)} | {cell(operate(rate, reinit=False))} |", flush=True)
    other = done["perplexity_stock"]
    stock = [done["heldout_perplexity_stock"], *(other[name] for name in OTHER_TEXTS)]
    print(f"\nstock: {' / '.join(f'{p:.1f}' for p in stock)} · {done['ablation_loss_stock']:.3f}")


if __name__ == "__main__":
    main()
