"""What the operator has chosen so far; it outlives the screens that show it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from engine.heads import Head, HeadMap, Rows
from tui.live import Live
from tui.plans import Values, first_values
from tui.selection import Selection
from tui.views import MASS, VIEWS, View, view


@dataclass
class State:
    """One session on the screen."""

    live: Live
    cursor: Head = field(default_factory=lambda: Head(0, 0))
    selection: Selection = field(default_factory=Selection)
    corner: Head | None = None
    """Where a block of targets began."""
    values: Values | None = None
    """The plan's values but its targets; None until the form was saved."""
    asked: bool = False
    """A pass was asked for and the worker has not answered yet."""
    shown_pass: int = 0
    """Number of the pass that step 5 shows; 0: the newest."""
    view: str = MASS
    """What the grids show."""
    difference: bool = False
    """Step 5 shows the difference instead of before and after."""
    text: int = 0
    """Index of the probe text whose attention is shown."""
    gpu_room: int = 0
    """Bytes that a pass may have on the patient's GPU; 0: not known."""
    views: dict[str, tuple[tuple[Any, ...], View]] = field(default_factory=dict)
    """Views by place, with what they were made of."""

    @property
    def plan_values(self) -> Values:
        return first_values(self.live.chart) if self.values is None else self.values

    def view_of(
        self, mass: Rows, map_: HeadMap, stage: str, place: str = "grid", name: str = "", before: HeadMap | None = None,
        since: str = "stock",
    ) -> View:  # fmt: skip
        """The chosen view of a map, made anew only where something changed.

        Args:
            mass: BOS masses to show, live ones or those of ``map_``.
            map_: where entropies and thresholds come from.
            stage: whose contributions to show: ``stock`` or ``pass-N``.
            place: which grid it is for.
            name: another view than the chosen one.
            before: what drift is measured against; None: stock.
        """
        chart = self.live.chart
        stock = before or chart.stock or map_
        made_of = (name or self.view, mass, map_, stock, self.live.contributions(stage))
        known = self.views.get(place)
        if known is None or any(a is not b for a, b in zip(known[0], made_of, strict=True)):
            known = self.views[place] = made_of, view(*made_of, since=since)
        return known[1]

    def next_view(self, step: int) -> None:
        self.view = VIEWS[(VIEWS.index(self.view) + step) % len(VIEWS)]

    @property
    def stage(self) -> str:
        """Where ``chart.head_map`` was measured: ``stock`` or ``pass-N``."""
        chart = self.live.chart
        stages = [f"pass-{done.number}" for done in chart.standing if f"pass-{done.number}" in chart.maps]
        return stages[-1] if stages else "stock"

    def move(self, layers: int, heads: int) -> None:
        """Move the cursor and stop at the edges."""
        stock = self.live.chart.stock
        if stock is not None:
            layer = max(0, min(stock.n_layers - 1, self.cursor.layer + layers))
            head = max(0, min(stock.n_heads - 1, self.cursor.head + heads))
            self.cursor = Head(layer, head)

    def to_sick(self, direction: int) -> bool:
        """To the next (1) or previous (-1) sick head, around the end; False when there is none."""
        head_map = self.live.chart.head_map
        sick = [head for head in head_map.heads() if head_map.is_sick(head)] if head_map else []
        if not sick:
            return False
        beyond = [head for head in sick if (head > self.cursor if direction > 0 else head < self.cursor)]
        ordered = beyond or sick
        self.cursor = ordered[0] if direction > 0 else ordered[-1]
        return True

    def propose(self) -> bool:
        """Choose for the next pass what is still sick; False when nothing is."""
        head_map = self.live.chart.head_map
        sick = [head for head in head_map.heads() if head_map.is_sick(head)] if head_map else []
        self.selection.choose(sick, "sick" if sick else "")
        return bool(sick)
