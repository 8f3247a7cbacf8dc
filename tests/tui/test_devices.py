from pathlib import Path

import pytest

from tui.devices import Device, cpu, devices, gpu_room, gpus, read_gpus


def pretend(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a tool of the driver's name first on the path."""
    tool = folder / "nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def test_the_driver_s_table_is_read_and_lines_that_are_none_are_left_out() -> None:
    text = "0, 1000, 2000, NVIDIA A, B\n1, [N/A], 2000, C\nnonsense\n7, 5, 6, D"
    assert read_gpus(text) == [
        Device("cuda:0", 1000 * 2**20, 2000 * 2**20, "NVIDIA A, B"),
        Device("cuda:7", 5 * 2**20, 6 * 2**20, "D"),
    ]


def test_what_the_worker_holds_counts_as_room_for_its_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(
        tmp_path,
        monkeypatch,
        'case "$1" in *compute-apps*) echo "42, 10"; echo "43, 500";; *) echo "0, 100, 200, G";; esac',
    )
    assert gpu_room("cuda:0", 42) == gpu_room("cuda", 42) == 110 * 2**20
    assert gpu_room("cuda:0", None) == 100 * 2**20 and gpu_room("cuda:1", 42) == 0
    assert [device.name for device in devices()] == ["cpu", "cuda:0"]


@pytest.mark.parametrize("script", ["exit 9", "echo no devices were found"])
def test_a_driver_that_does_not_answer_means_no_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str
) -> None:
    pretend(tmp_path, monkeypatch, script)
    assert gpus() == [] and 0 < cpu().free <= cpu().total
