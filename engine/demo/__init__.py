"""The demo patient that travels with the program, its texts and the settings that suit its size.

``engine.nn.make_demo`` rebuilds it; ``NOTICE.md`` beside this file states where its texts come from.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
CORPORA = ("demo:bible.txt", "demo:devil.txt")
"""The two operating corpora, as ``--corpus`` takes them; its training saw neither."""
OTHER_TEXTS = ("demo:heldout-austen.txt", "demo:heldout-code.txt")
"""Held-out texts of the two sources that the demo was pretrained on."""


def pass_defaults(model: str) -> dict[str, Any]:
    """Plan values for a patient: the demo's own, nothing for any other (the method's defaults stand)."""
    if model != "demo":
        return {}
    settings = tomllib.loads((FOLDER / "settings.toml").read_text("utf-8"))
    return {**settings["pass"], "corpus": [CORPORA[0]], "watch": list(OTHER_TEXTS)}


def corpus_path(source: str) -> Path:
    """The file that a source names: ``demo:bible.txt`` one of the demo's, else the path itself.

    The short name keeps records free of the place where the program happens to be installed.
    """
    return FOLDER / source.removeprefix("demo:") if source in CORPORA + OTHER_TEXTS else Path(source).expanduser()
