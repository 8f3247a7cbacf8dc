"""What the operator has chosen so far; it outlives the screens that show it."""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.heads import Head
from tui.live import Live
from tui.plans import Values, first_values
from tui.selection import Selection


@dataclass
class State:
    """One session on the screen."""

    live: Live
    cursor: Head = field(default_factory=lambda: Head(0, 0))
    selection: Selection = field(default_factory=Selection)
    values: Values | None = None
    """The plan's values but its targets; None until the form was saved."""
    asked: bool = False
    """A pass was asked for and the worker has not answered yet."""
    shown_pass: int = 0
    """Number of the pass that step 5 shows; 0: the newest."""

    @property
    def plan_values(self) -> Values:
        return first_values(self.live.chart) if self.values is None else self.values

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

    def propose(self) -> None:
        """For the next pass: what is still sick."""
        head_map = self.live.chart.head_map
        sick = [head for head in head_map.heads() if head_map.is_sick(head)] if head_map else []
        self.selection.choose(sick, "sick" if sick else "")
