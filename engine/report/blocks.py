"""What a report is made of. Its words are written once; Markdown and HTML only render the blocks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from engine.report.words import Text


@dataclass(frozen=True)
class Heading:
    kind: ClassVar[str] = "heading"
    level: int
    text: Text


@dataclass(frozen=True)
class Paragraph:
    kind: ClassVar[str] = "paragraph"
    text: Text


@dataclass(frozen=True)
class Facts:
    """Labels with what belongs to them."""

    kind: ClassVar[str] = "facts"
    rows: list[tuple[str, Text]]


@dataclass(frozen=True)
class Table:
    """The first column holds labels, the others figures."""

    kind: ClassVar[str] = "table"
    head: list[str]
    rows: list[list[Text]]


@dataclass(frozen=True)
class Listing:
    """Short entries, one a line."""

    kind: ClassVar[str] = "listing"
    rows: list[Text]


@dataclass(frozen=True)
class Excerpts:
    """Whole texts from outside, line by line as they are, each under its label."""

    kind: ClassVar[str] = "excerpts"
    rows: list[tuple[Text, str]]


@dataclass(frozen=True)
class Figure:
    """A picture that is a file of its own too."""

    file: str
    svg: str
    caption: str


@dataclass(frozen=True)
class Figures:
    """Pictures that stand side by side where there is room."""

    kind: ClassVar[str] = "figures"
    figures: list[Figure]


@dataclass(frozen=True)
class Fold:
    """What can be folded away where a format knows how; elsewhere it stands under a heading."""

    kind: ClassVar[str] = "fold"
    level: int
    text: Text
    blocks: list[Block]
    open: bool = False


Block = Heading | Paragraph | Facts | Table | Listing | Excerpts | Figures | Fold
