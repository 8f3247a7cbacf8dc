"""The little SVG that the figures need: shapes, text and the colour ramp.

Text takes ``currentColor`` and the background has the class ``paper``, so that a page with a theme of
its own can set both; as a file of its own a figure is dark on white.
"""

from __future__ import annotations

from html import escape

from engine.printable import printable

RGB = tuple[int, int, int]

_RAMP: tuple[RGB, ...] = ((20, 38, 77), (47, 95, 160), (132, 146, 164), (224, 156, 80), (255, 212, 138))
"""Blue to orange in even steps from 0 to 1. Both kinds of red-green blindness keep the two apart, and the
luminance only rises, so that it survives a grey print."""

BLUE, ORANGE = "#3d7cc2", "#d9822b"  # lines; both stand out from white and from near-black


def ramp(value: float) -> RGB:
    """Colour of a share from 0 to 1."""
    at = min(max(value, 0.0), 1.0) * (len(_RAMP) - 1)
    index = min(int(at), len(_RAMP) - 2)
    low, high = _RAMP[index], _RAMP[index + 1]
    r, g, b = (round(a + (at - index) * (z - a)) for a, z in zip(low, high, strict=True))
    return r, g, b


def luminance(colour: RGB) -> float:
    """Relative luminance, 0 black to 1 white (WCAG 2)."""
    r, g, b = (c / 255 / 12.92 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in colour)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def hex_of(colour: RGB) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def tag(name: str, content: str = "", **attributes: str | float) -> str:
    """One element; ``content`` is SVG already. Underscores in names become hyphens, numbers are rounded."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_number(value) if isinstance(value, float | int) else escape(value)}"'
        for key, value in attributes.items()
    )
    return f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>"


def words(x: float, y: float, text: str, **attributes: str | float) -> str:
    """A piece of text; y is its baseline."""
    return tag("text", escaped(text), x=x, y=y, **attributes)


def escaped(text: str) -> str:
    """Foreign text as SVG content: markup shown, what XML forbids written as an escape."""
    return escape(printable(text))


def picture(width: float, height: float, label: str, parts: list[str]) -> str:
    """A whole figure. ``label`` is what a screen reader says of it."""
    paper = tag("rect", class_="paper", width=width, height=height, fill="#ffffff")
    return tag(
        "svg",
        "\n" + "\n".join([paper, *parts]) + "\n",
        xmlns="http://www.w3.org/2000/svg",
        width=width,
        height=height,
        viewBox=f"0 0 {_number(width)} {_number(height)}",
        role="img",
        aria_label=printable(label),
        font_family="sans-serif",
        font_size=12,
        fill="currentColor",
    )


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
