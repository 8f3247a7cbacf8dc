"""The themes. Every colour is one of the 256-colour cube, and in 16 colours each has its place by hand."""

from __future__ import annotations

from textual.theme import Theme


def _theme(
    name: str, *, dark: bool, front: str, back: str, surface: str, panel: str, quiet: str, strong: str,
    cold: str, warm: str, rule: str, chosen: str,
) -> Theme:  # fmt: skip
    """A theme of ten colours: ``cold`` is what is well, ``warm`` what is sick; ``quiet`` text can be missed."""
    return Theme(
        name=name,
        primary=cold,
        secondary=cold,
        warning=warm,
        error=warm,
        success=cold,
        accent=cold,
        foreground=front,
        background=back,
        surface=surface,
        panel=panel,
        dark=dark,
        variables={
            "quiet": quiet,
            "strong": strong,
            "cold": cold,
            "warm": warm,
            "rule": rule,
            "chosen": chosen,
        },
    )


DARK = _theme(
    "dark", dark=True, front="#d0d0d0", back="#1c1c1c", surface="#262626", panel="#303030",
    quiet="#8a8a8a", strong="#ffffff", cold="#5fafff", warm="#ffaf00", rule="#585858", chosen="#005f87",
)  # fmt: skip
LIGHT = _theme(
    "light", dark=False, front="#303030", back="#eeeeee", surface="#e4e4e4", panel="#dadada",
    quiet="#626262", strong="#000000", cold="#005faf", warm="#875f00", rule="#a8a8a8", chosen="#afd7ff",
)  # fmt: skip
HIGH_CONTRAST = _theme(
    "high-contrast", dark=True, front="#ffffff", back="#000000", surface="#000000", panel="#1c1c1c",
    quiet="#dadada", strong="#ffffff", cold="#5fd7ff", warm="#ffd700", rule="#ffffff", chosen="#0000af",
)  # fmt: skip
COLOUR_BLIND = _theme(
    "colour-blind", dark=True, front="#d7d7d7", back="#121212", surface="#1c1c1c", panel="#262626",
    quiet="#949494", strong="#ffffff", cold="#5f87ff", warm="#ff5f00", rule="#6c6c6c", chosen="#00005f",
)  # fmt: skip
THEMES = {theme.name: theme for theme in (DARK, LIGHT, HIGH_CONTRAST, COLOUR_BLIND)}
"""In the order in which the key goes through them."""
