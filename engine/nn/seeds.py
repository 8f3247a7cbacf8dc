"""Every random draw comes from a generator of its own, seeded by a name."""

from __future__ import annotations

import hashlib

import torch


def generator(name: str, seed: int = 0) -> torch.Generator:
    """A CPU generator that depends on ``name`` and ``seed`` alone, so that drawing more elsewhere,
    or in another order, changes nothing here."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)
