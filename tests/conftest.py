from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Tokens that tests cache, in this process or in one they start, stay out of the user's own cache."""
    before = os.environ.get("HEADSURGEON_CACHE")
    os.environ["HEADSURGEON_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    yield
    if before is None:
        del os.environ["HEADSURGEON_CACHE"]
    else:
        os.environ["HEADSURGEON_CACHE"] = before
