"""A committed session put on the demo patient by the command line, and taken off again."""

from __future__ import annotations

from pathlib import Path

import pytest

import engine
from engine import demo
from engine.cli import run
from engine.files import sha256_of

ROOT = Path(engine.__file__).parents[1]
SESSION = next((ROOT / "sessions").glob("*-demo-7d17"))
PATCH = SESSION / "pass-1" / "best.safetensors"


def sums(folder: Path) -> dict[str, str]:
    return {file.name: sha256_of(file) for file in folder.iterdir()}


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (SESSION, ["- **healthy heads**: 29 → 30 of 48", f"- **patch sha256**: `{sha256_of(PATCH)}`"]),
        (PATCH, ["- **reinit**: `False`", "- **corpus**: `demo:bible.txt`"]),
    ],
)
def test_a_card_lies_beside_the_weights_and_goes_with_them(tmp_path: Path, source: Path, told: list[str]) -> None:
    assert run(["apply", str(source), "--to", str(tmp_path / "out")]) == 0
    text = (tmp_path / "out" / "README.md").read_text("utf-8")
    assert text.startswith("---\nlibrary_name: transformers\n") and "license:" not in text
    for line in told:
        assert f"\n{line}\n" in text
    assert run(["undo", str(source), str(tmp_path / "out"), "--to", str(tmp_path / "back")]) == 0
    stock = {name: digest for name, digest in sums(demo.FOLDER).items() if name in sums(tmp_path / "back")}
    assert sums(tmp_path / "back") == stock and "model.safetensors" in stock
    assert set(sums(tmp_path / "out")) == {*stock, "README.md"}
