"""All that a running pass has to remember, in one file that is replaced whole."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from torch import Tensor

from engine.errors import InputError
from engine.files import write_text
from engine.nn.tensorfile import read_tensors, write_tensors


@dataclass
class Progress:
    """The loop state of a pass but for its tensors; the position in the data follows from ``step``."""

    step: int = 0
    tokens: int = 0
    best_step: int = 0
    best_perplexity: float | None = None
    checks_since_best: int = 0
    loss_sum: float = 0.0
    """Of the steps since the last check."""
    loss_steps: int = 0
    refused: int = 0
    refused_in_a_row: int = 0
    first_columns: list[float | None] = field(default_factory=list)
    outcome: str = ""
    """Set when the training is over."""


def save_state(
    path: Path,
    progress: Progress,
    masters: dict[str, Tensor],
    optimizer: torch.optim.Optimizer,
    best: dict[str, Tensor],
) -> int:
    """Replace the state; its size in bytes. ``state.json`` beside it repeats the loop state for people.

    Raises:
        InputError: the disk is full; the old state is still there.
    """
    tensors = {f"master/{name}": tensor.detach().cpu() for name, tensor in masters.items()}
    for name, tensor in masters.items():
        for key, value in optimizer.state.get(tensor, {}).items():
            tensors[f"adam/{key}/{name}"] = value.detach().cpu()
    tensors |= {f"best/{key}": value for key, value in best.items()}
    about = json.dumps(asdict(progress), allow_nan=False)
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    size = write_tensors(path, tensors, {"progress": about}, "the state of the pass")
    write_text(path.with_suffix(".json"), about + "\n")
    return size


def load_state(
    path: Path, masters: dict[str, Tensor], optimizer: torch.optim.Optimizer
) -> tuple[Progress, dict[str, Tensor]]:
    """Put a saved state into the masters and the optimizer; the loop state and the best slices so far.

    Raises:
        InputError: the file is damaged.
    """
    try:
        tensors, metadata = read_tensors(path)
        about = metadata["progress"]
        progress = Progress(**json.loads(about))
        with torch.no_grad():
            for name, master in masters.items():
                master.copy_(tensors[f"master/{name}"])
    except (SafetensorError, KeyError, ValueError, TypeError) as error:
        raise InputError(f"{path} is damaged ({error}); move it away and resume to begin the pass anew") from error
    write_text(path.with_suffix(".json"), about + "\n")  # a kill may have come between the two files
    for name, master in masters.items():
        if f"adam/step/{name}" in tensors:  # none before the first step
            moments = {key: tensors[f"adam/{key}/{name}"].to(master.device) for key in ("exp_avg", "exp_avg_sq")}
            optimizer.state[master] = {"step": tensors[f"adam/step/{name}"], **moments}
    return progress, {name.removeprefix("best/"): t for name, t in tensors.items() if name.startswith("best/")}
