from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import InputError
from engine.sources import absolute, hub_name, split_repeat


def test_a_source_says_how_often_it_is_read() -> None:
    assert split_repeat("birds.txt") == ("birds.txt", 1)
    assert split_repeat("birds.txt@3") == ("birds.txt", 3)
    assert split_repeat("allenai/c4:en:validation:text@12") == ("allenai/c4:en:validation:text", 12)
    assert split_repeat("demo:bible.txt@2") == ("demo:bible.txt", 2)
    assert split_repeat("me@home/birds.txt") == ("me@home/birds.txt", 1)


@pytest.mark.parametrize("source", ["a.txt@0", "a.txt@-1", "a.txt@1.5", "a.txt@", "a.txt@03", "a.txt@1001", "@3"])
def test_a_number_that_cannot_be_meant_is_refused(source: str) -> None:
    with pytest.raises(InputError, match="a whole number of times from 1 to 1000"):
        split_repeat(source)


def test_a_file_of_that_very_name_comes_first(tmp_path: Path) -> None:
    for name in ("mail@3", "mail@0"):
        (tmp_path / name).touch()
        assert split_repeat(str(tmp_path / name)) == (str(tmp_path / name), 1)


def test_a_path_is_made_whole_with_its_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").touch()
    assert absolute("a.txt@3") == f"{tmp_path / 'a.txt'}@3"
    assert absolute("a.txt") == str(tmp_path / "a.txt")
    assert absolute("owner/data@3") == "owner/data@3"


def test_hub_names_carry_config_split_and_column() -> None:
    assert hub_name("allenai/c4:en:validation:text") == ("allenai/c4", "en", "validation", "text")
    assert hub_name("owner/data") == ("owner/data", None, "train", "text")
    assert hub_name("owner/data::test") == ("owner/data", None, "test", "text")
