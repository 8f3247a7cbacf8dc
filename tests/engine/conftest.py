"""The command line in this process."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from engine import __main__ as program


class Ran:
    """Exit code, stdout and stderr of one run."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):  # type: ignore[no-untyped-def]
    """Run ``headsurgeon`` with some arguments, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADSURGEON_SESSIONS", raising=False)

    def run_(*arguments: object) -> Ran:
        monkeypatch.setattr(sys, "argv", ["headsurgeon", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            program.main()
        said = capsys.readouterr()
        return Ran(int(left.value.code or 0), said.out, said.err)

    return run_


def refused(ran: Ran) -> str:
    """The one sentence of a refusal."""
    assert ran.code == 2
    assert ran.out == ""
    lines = [line for line in ran.err.splitlines() if line.startswith("headsurgeon: ")]
    assert len(lines) == 1
    assert ran.err.rstrip().endswith(lines[0])
    assert "Traceback" not in ran.err
    return lines[0]
