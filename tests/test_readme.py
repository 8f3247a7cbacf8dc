from __future__ import annotations

import re
from pathlib import Path

from tui.commands import key_table

README = (Path(__file__).parents[1] / "README.md").read_text("utf-8")


def test_the_key_table_is_the_programs_own() -> None:
    assert key_table() in README


def test_every_make_target_and_file_it_names_exists() -> None:
    root = Path(__file__).parents[1]
    makefile = (root / "Makefile").read_text("utf-8")
    for target in set(re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    for path in set(re.findall(r"`((?:engine|tui|tests|benchmarks|sessions)/[\w./-]+)`", README)):
        assert (root / path).exists(), path
