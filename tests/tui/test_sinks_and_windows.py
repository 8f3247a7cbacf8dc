"""What stands beside a head whose model has sink logits and windows."""

from __future__ import annotations

from engine.heads import Head, HeadMap, ProbeText
from tui.figures import head_figures

MAP = HeadMap(
    bos_mass=[[0.6], [0.2]],
    entropy=[[1.0], [1.5]],
    texts=[ProbeText("a", 64, "The")],
    sink_mass=[[0.25], [0.5]],
    windows=[16, 0],
)


def words(head: Head, map_: HeadMap) -> str:
    lines = [line.plain for line in head_figures(head, map_, None, 60)]
    assert max(map(len, lines)) <= 39  # as wide as the panel on a screen of 80
    return "\n".join(lines)


def test_the_share_of_the_sink_and_what_the_window_hides_are_told():
    first, second = words(Head(0, 0), MAP), words(Head(1, 0), MAP)
    assert "sink logit" in first and "0.250" in first
    assert "16 keys; 75 % not reachable" in first
    assert "0.211" in first  # of uniform attention over the 16 rows that reach it
    assert "0.500" in second and "not reachable" not in second and "0.074" in second


def test_other_models_have_neither_line():
    plain = HeadMap(MAP.bos_mass, MAP.entropy, texts=MAP.texts)
    assert "sink" not in words(Head(0, 0), plain) and "window" not in words(Head(0, 0), plain)
