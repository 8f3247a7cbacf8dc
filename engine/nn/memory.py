"""How much memory there is and how much was taken, on the patient's own device."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import torch

from engine.preflight import free_ram


def room_bytes(device: torch.device) -> int:
    """Bytes that this process may have on a device in all: what is free, and what it has already."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)
    # weights that are mapped from their file count as free as long as nobody needs the room
    return free_ram() + _status("RssAnon")


def forget_peak(device: torch.device) -> None:
    """Let ``peak_bytes`` begin anew, so that a pass is not charged with what stood before it. Where the
    system does not allow it, the peak stays that of the whole process."""
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        return
    with suppress(OSError), Path("/proc/self/clear_refs").open("w") as file:
        file.write("5")  # the kernel's word for the high-water mark alone


def peak_bytes(device: torch.device) -> int:
    """Most that this process had since ``forget_peak``: allocated on its GPU, or resident on the CPU; 0: not known."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device)
    return _status("VmHWM")  # not getrusage: its figure can be that of the process which started this one


def _status(name: str) -> int:
    try:
        found = re.search(rf"^{name}:\s+(\d+) kB", Path("/proc/self/status").read_text("ascii", "replace"), re.M)
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a computation failed for want of memory; on the CPU torch has no exception of its own."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and "can't allocate memory" in str(error)
