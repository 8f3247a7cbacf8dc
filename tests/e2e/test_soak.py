from __future__ import annotations

import subprocess
import sys


def test_a_few_killed_workers_resume_to_the_same_bytes() -> None:
    ran = subprocess.run([sys.executable, "-m", "tests.e2e.soak", "2"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith("2 workers killed, all resumed to the same bytes")
