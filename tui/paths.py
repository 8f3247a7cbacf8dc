"""Names that the operator may type: folders and files to complete, and models in the local hub cache. No
network, and none of the hub's own library."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from engine.errors import InputError


def candidates(typed: str, limit: int = 200) -> list[str]:
    """Paths that begin with what was typed, folders with a slash at the end, as the operator writes them."""
    folder, _, name = typed.rpartition("/")
    at = Path(folder + "/").expanduser() if folder or typed.startswith("/") else Path()
    try:
        found = sorted(at.iterdir())[:5000]
    except OSError:
        return []
    before = typed[: len(typed) - len(name)]
    hidden = name.startswith(".")
    return [
        f"{before}{path.name}{'/' if path.is_dir() else ''}"
        for path in found
        if path.name.startswith(name) and (hidden or not path.name.startswith("."))
    ][:limit]


def complete_path(typed: str) -> str:
    """What was typed, lengthened as far as only one way leads on."""
    found = candidates(typed)
    return os.path.commonprefix(found) if found else typed  # noqa: RUF071 (by character is what is wanted)


def complete_model(typed: str) -> str:
    """The name of a patient, lengthened as far as only one way leads on: of a cached model, else a folder."""
    found = [name for name in ("demo", *cached_models()) if typed and name.startswith(typed)]
    return os.path.commonprefix(found) if found else complete_path(typed)  # noqa: RUF071


def hub_cache() -> Path:
    """Where the hub's library keeps what it has downloaded."""
    chosen = os.environ.get("HF_HUB_CACHE")
    if chosen:
        return Path(chosen).expanduser()
    home = os.environ.get("HF_HOME")
    base = Path(home).expanduser() if home else Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    return base / "hub" if home else base / "huggingface" / "hub"


def cached_models() -> list[str]:
    """Hub names of the models in the local cache."""
    try:
        folders = sorted(path.name for path in hub_cache().iterdir() if path.name.startswith("models--"))
    except OSError:
        return []
    return [folder.removeprefix("models--").replace("--", "/", 1) for folder in folders]


def cached_config(name: str) -> Path | None:
    """The folder of a cached model's newest snapshot that holds a ``config.json``."""
    snapshots = hub_cache() / f"models--{name.replace('/', '--')}" / "snapshots"
    try:
        found = [path for path in snapshots.iterdir() if (path / "config.json").exists()]
        return max(found, key=lambda path: path.stat().st_mtime, default=None)
    except OSError:
        return None


def config_of(model: str) -> dict[str, Any] | None:
    """``config.json`` of ``demo``, a local folder or a cached hub model; None where it is not on this machine.

    Raises:
        InputError: a folder that is none, or holds no model.
    """
    from engine.anatomy import read_config

    if model == "demo":
        from engine import demo

        return read_config(demo.FOLDER)
    path = Path(model).expanduser()
    if path.exists() or model[:1] in ("/", ".", "~"):
        return read_config(path)
    folder = cached_config(model)
    if folder is None:
        return None
    try:
        found = json.loads((folder / "config.json").read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"the cached config of {model} is damaged: {error}") from error
    return found if isinstance(found, dict) else None
