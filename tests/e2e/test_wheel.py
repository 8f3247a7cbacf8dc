"""The wheel carries everything: outside the checkout it diagnoses the demo patient."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_wheel_diagnoses_the_demo_outside_the_checkout(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("engine", "tui"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, source)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", str(source)]
    subprocess.run([*build, "--wheel-dir", str(tmp_path)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("headsurgeon-*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "installed")
    shutil.rmtree(source)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    script = "import engine, sys; from engine.__main__ import main; print(engine.__file__, file=sys.stderr); main()"
    ran = subprocess.run(
        [sys.executable, "-c", script, "diagnose", "demo", "--json"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert str(tmp_path / "installed") in ran.stderr
    assert json.loads(ran.stdout)["n_layers"] == 6
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"engine/demo/NOTICE.md", "engine/probes.jsonl", "engine/report/templates/report.md.jinja"} <= names
    assert not any(name.startswith(("tests/", "benchmarks/", "sessions/")) for name in names)
    size = sum(z.file_size for z in zipfile.ZipFile(wheel).infolist() if z.filename.startswith("engine/demo/"))
    assert size <= 8_000_000
