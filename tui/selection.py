"""Which heads are chosen, with undo and redo. No widget here."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from engine.errors import InputError
from engine.heads import Head
from engine.targets import Heads, write


@dataclass(frozen=True)
class Choice:
    """One state of the selection."""

    heads: Heads = frozenset()
    written: str = ""
    """The expression it came from; empty once heads were changed by hand."""

    @property
    def expression(self) -> str:
        """The targets as a plan names them."""
        return self.written or write(self.heads)


@dataclass
class Selection:
    """The chosen heads and the way to them."""

    now: Choice = field(default_factory=Choice)
    undone: list[Choice] = field(default_factory=list)
    done: list[Choice] = field(default_factory=list)

    @property
    def heads(self) -> Heads:
        return self.now.heads

    def choose(self, heads: Iterable[Head], written: str = "") -> None:
        """Take exactly these heads; ``written`` where an expression gave them."""
        choice = Choice(frozenset(heads), written)
        if choice != self.now:
            self.done.append(self.now)
            self.undone.clear()
            self.now = choice

    def toggle(self, heads: Iterable[Head]) -> None:
        """Take the heads in; take them out where all of them are in already."""
        chosen = frozenset(heads)
        self.choose(self.heads - chosen if chosen <= self.heads else self.heads | chosen)

    def undo(self) -> bool:
        """Back to the choice before; False when there is none."""
        if not self.done:
            return False
        self.undone.append(self.now)
        self.now = self.done.pop()
        return True

    def redo(self) -> bool:
        """Forward again; False when nothing was undone."""
        if not self.undone:
            return False
        self.done.append(self.now)
        self.now = self.undone.pop()
        return True


def block(a: Head, b: Head) -> Heads:
    """The rectangle of heads between two corners."""
    layers, heads = sorted((a.layer, b.layer)), sorted((a.head, b.head))
    return frozenset(
        Head(layer, head) for layer in range(layers[0], layers[1] + 1) for head in range(heads[0], heads[1] + 1)
    )


def parse_head(text: str, n_layers: int, n_heads: int) -> Head:
    """A head as people type it: ``16.4``, ``16 4`` or ``L16-H4``.

    Raises:
        InputError: it cannot be read, or the model has no such head.
    """
    found = re.fullmatch(r"[Ll]?(\d{1,6})[\s.,-]+[Hh]?(\d{1,6})", text)
    if found is None:
        raise InputError(f"{text!r} names no head; write layer and head like 16.4")
    head = Head(int(found.group(1)), int(found.group(2)))
    if head.layer >= n_layers or head.head >= n_heads:
        raise InputError(f"there is no {head}: layers go to L{n_layers - 1}, heads to H{n_heads - 1}")
    return head
