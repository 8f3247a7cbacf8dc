from __future__ import annotations

from pathlib import Path

import pytest

from engine.nn.load import Patient, load
from tests.engine.nn.patients import make_patient, write_corpus


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A tiny random patient on the disk."""
    return make_patient(tmp_path / "tiny")


@pytest.fixture
def patient(folder: Path) -> Patient:
    """The same, loaded."""
    return load(str(folder), device="cpu")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "birds.txt")
