"""What leaves the screen: a value that was copied, and pictures of the screen. Each goes to a file that is named."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from rich.cells import cell_len

from engine.files import write_text

if TYPE_CHECKING:
    from engine.chart import Chart
    from engine.heads import Head
    from engine.session import Session

FONTS = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
_WEB_FONT = re.compile(r"<!--.*?-->\s*|@font-face\s*\{.*?\}\s*", re.DOTALL)
_FAMILY = re.compile(r"font-family:[^;]*Fira Code[^;]*;")


def folder_for(session: Session | None) -> Path:
    """Where files go: the session's exports; the user's cache folder where no session is open."""
    if session is not None:
        folder = session.exports
    else:
        from platformdirs import user_cache_path

        folder = user_cache_path("headsurgeon")
    folder.mkdir(parents=session is None, exist_ok=True)
    return folder


def short(path: Path, room: int) -> str:
    """A path for a line with so many columns: whole, or from home or from here on; its end where none fits."""
    forms = [str(path)]
    for base, name in ((Path.home(), "~/"), (Path.cwd(), "")):
        if path.is_relative_to(base):
            forms.append(f"{name}{path.relative_to(base)}")
    end = forms[0][-(room - 2) :]
    return next((form for form in forms if cell_len(form) <= room), f"…/{end.partition('/')[2] or end}")


def write_copy(folder: Path, text: str) -> Path:
    """Write a copied value; the one copied before is replaced."""
    path = folder / "copied.txt"
    write_text(path, text + "\n")
    return path


def write_screenshot(folder: Path, step: str, svg: str, text: str) -> Path:
    """Write a picture of a step under the next free number, as SVG and, beside it, as plain text.

    Returns:
        The path of the SVG; the text has the same name but for its end.
    """
    taken = (re.fullmatch(rf"screen-(\d+)-{step}\.svg", path.name) for path in folder.glob(f"screen-*-{step}.svg"))
    number = 1 + max((int(found.group(1)) for found in taken if found), default=0)
    picture, lines = folder / f"screen-{number}-{step}.svg", folder / f"screen-{number}-{step}.txt"
    write_text(picture, offline(svg))
    write_text(lines, text)
    return picture


def offline(svg: str) -> str:
    """The picture without the fonts that it would load from the web."""
    return _FAMILY.sub(f"font-family: {FONTS};", _WEB_FONT.sub("", svg))


def head_text(chart: Chart, head: Head) -> str:
    """The figures of a head on one line; empty where none are known."""
    map_ = chart.head_map
    if map_ is None:
        return ""
    low, high = map_.interval(head)
    name = chart.loaded.source if chart.loaded else chart.created.model if chart.created else ""
    standing = chart.standing
    return (
        f"{name.rstrip('/').rsplit('/', 1)[-1]} {f'after pass {standing[-1].number}' if standing else 'stock'} {head}: "
        f"{map_.class_of(head)}{', borderline' if map_.is_borderline(head) else ''}, "
        f"BOS mass {map_.mass(head):.4f} (95 % {low:.4f}-{high:.4f}), "
        f"entropy {map_.entropy[head.layer][head.head]:.3f} nats"
    )
