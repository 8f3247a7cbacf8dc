"""Text from outside as a terminal may be shown it. Imports nothing, so that even a refusal comes at once."""

from __future__ import annotations


def printable(text: str) -> str:
    """Text from outside with control characters made visible, so that a terminal obeys none."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
