"""Colours are judged by arithmetic: contrast after WCAG 2, colour-blind eyes after Machado and others (2009)."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tui.figures import cube
from tui.palette import BLACK, CURSOR, LEVELS, SIXTEEN, WHITE, ink
from tui.themes import COLOUR_BLIND, HIGH_CONTRAST, THEMES

Vector = tuple[float, float, float]
CUBE = {cube(number) for number in range(16, 232)}
GREYS = {"#" + 3 * f"{8 + 10 * n:02x}" for n in range(24)}
EYES: dict[str, tuple[Vector, Vector, Vector]] = {
    "all cones": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "no long": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "no medium": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "no short": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
"""What remains of linear red, green and blue for eyes without one kind of cone."""


def linear(colour: str) -> Vector:
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return tuple(v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (red, green, blue))  # type: ignore[return-value]


def luminance(colour: str) -> float:
    red, green, blue = linear(colour)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(a: str, b: str) -> float:
    low, high = sorted((luminance(a), luminance(b)))
    return (high + 0.05) / (low + 0.05)


def lab(rgb: Vector) -> Vector:
    """CIELAB of linear RGB, white point D65."""

    def curve(t: float) -> float:
        return t ** (1 / 3) if t > (6 / 29) ** 3 else t / (3 * (6 / 29) ** 2) + 4 / 29

    red, green, blue = (max(0.0, min(1.0, value)) for value in rgb)
    x = curve((0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047)
    y = curve(0.2126 * red + 0.7152 * green + 0.0722 * blue)
    z = curve((0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883)
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def seen(colour: str, eyes: str) -> Vector:
    rgb = linear(colour)
    return lab(tuple(sum(m * v for m, v in zip(row, rgb, strict=True)) for row in EYES[eyes]))  # type: ignore[arg-type]


def apart(a: str, b: str, eyes: str) -> float:
    """Distance in CIELAB; about 2 is just noticed side by side."""
    return sum((p - q) ** 2 for p, q in zip(seen(a, eyes), seen(b, eyes), strict=True)) ** 0.5


def texts(name: str) -> Iterator[tuple[str, str, str]]:
    """(role, colour, background) of every kind of text in a theme."""
    theme = THEMES[name]
    own = theme.variables
    for back in (theme.background, theme.surface):
        yield "text", theme.foreground or "", back or ""
        for role in ("quiet", "strong", "cold", "warm"):
            yield role, own[role], back or ""
    yield "chosen", own["strong"], own["chosen"]


@pytest.mark.parametrize("name", THEMES)
def test_all_text_can_be_read(name: str) -> None:
    least = 7.0 if name == HIGH_CONTRAST.name else 4.3
    for role, colour, back in texts(name):
        assert contrast(colour, back) >= least, (role, colour, back, contrast(colour, back))


@pytest.mark.parametrize("eyes", EYES)
def test_well_and_sick_differ_for_all_eyes(eyes: str) -> None:
    for theme in THEMES.values():
        assert apart(theme.variables["cold"], theme.variables["warm"], eyes) > 30, theme.name
    well, sick = LEVELS[:4], LEVELS[4:]
    assert all(apart(cube(a), cube(b), eyes) > 30 for a, b in itertools.product(well, sick))
    steps = [apart(cube(a), cube(b), eyes) for a, b in itertools.pairwise(LEVELS)]
    assert min(steps) > 8, steps
    assert min(apart(cube(CURSOR), cube(level), eyes) for level in LEVELS) > 15


def test_the_colour_blind_theme_tells_them_apart_best() -> None:
    def least(name: str) -> float:
        own = THEMES[name].variables
        return min(apart(own["cold"], own["warm"], eyes) for eyes in EYES)

    assert least(COLOUR_BLIND.name) == max(map(least, THEMES)) > 100


def test_a_sign_can_be_read_on_every_level() -> None:
    for index, colour in enumerate(LEVELS):
        assert contrast(cube(ink(index)), cube(colour)) > 4, index
    assert {ink(index) for index in range(len(LEVELS))} == {WHITE, BLACK}


@pytest.mark.parametrize("name", THEMES)
def test_every_colour_is_one_of_the_cube_or_its_greys(name: str) -> None:
    theme = THEMES[name]
    for colour in (theme.foreground, theme.background, theme.surface, theme.panel, *theme.variables.values()):
        assert colour in CUBE | GREYS


@pytest.mark.parametrize("colours", [16, 8])  # the Linux console draws bright backgrounds as plain ones
def test_in_few_colours_healthy_sink_and_dead_still_differ(colours: int) -> None:
    drawn = [SIXTEEN[level] % colours for level in LEVELS]
    healthy, sink, dead = set(drawn[:4]), set(drawn[4:7]), {drawn[7]}
    assert not healthy & sink and not healthy & dead and not sink & dead
    assert colours == 8 or len(sink) == 2  # 0.60 is a limit that the diagnosis counts by
