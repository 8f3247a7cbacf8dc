"""Words for a terminal. Imports nothing, so that even a refusal comes at once."""

from __future__ import annotations


def printable(text: str) -> str:
    """Text from outside with control characters made visible, so that a terminal obeys none."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def size(n_bytes: float) -> str:
    """Bytes for people: ``6.1 GB``, ``350 MB``."""
    return f"{n_bytes / 1e9:.1f} GB" if n_bytes >= 1e9 else f"{n_bytes / 1e6:.0f} MB"
