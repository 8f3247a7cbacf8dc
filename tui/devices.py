"""What this machine can compute on, found without the libraries that own the devices."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass

TIMEOUT = 5.0


@dataclass(frozen=True)
class Device:
    """One device and its memory in bytes."""

    name: str
    """``cpu`` or ``cuda:N``."""
    free: int
    total: int
    label: str = ""


def devices() -> list[Device]:
    """The CPU, and the GPUs that the driver's own tool lists. May take a second; call it in a thread."""
    return [cpu(), *gpus()]


def cpu() -> Device:
    import psutil

    from engine.preflight import free_ram

    return Device("cpu", free_ram(), int(psutil.virtual_memory().total))


def gpus() -> list[Device]:
    """GPUs by ``nvidia-smi``; none where it is not there or does not answer."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    wanted = "--query-gpu=index,memory.free,memory.total,name"
    try:
        done = subprocess.run(
            [tool, wanted, "--format=csv,noheader,nounits"], capture_output=True, text=True, timeout=TIMEOUT, check=True
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return []
    return read_gpus(done.stdout)


def gpu_room(device: str, pid: int | None) -> int:
    """Bytes that a pass may have on ``cuda:N``: what is free, and what the worker itself already holds; 0 where
    the driver's tool does not say."""
    free = next((found.free for found in gpus() if found.name in (device, f"{device}:0")), 0)
    return free + (held_on_gpu(pid) if free and pid else 0)


def held_on_gpu(pid: int) -> int:
    """Bytes that a process holds on GPUs, as far as the driver's tool says."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return 0
    try:
        done = subprocess.run(
            [tool, "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
            capture_output=True, text=True, timeout=TIMEOUT, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return 0
    rows = [[part.strip() for part in row.split(",")] for row in done.stdout.splitlines()]
    return sum(int(row[1]) * 2**20 for row in rows if len(row) == 2 and row[0] == str(pid) and row[1].isdecimal())


def read_gpus(text: str) -> list[Device]:
    """The tool's table: index, free and total MiB, name. A line that is none is left out."""
    found = []
    for row in text.splitlines():
        parts = [part.strip() for part in row.split(",", 3)]
        if len(parts) == 4 and all(part.isdecimal() for part in parts[:3]):
            index, free, total = (int(part) for part in parts[:3])
            found.append(Device(f"cuda:{index}", free * 2**20, total * 2**20, parts[3]))
    return found
