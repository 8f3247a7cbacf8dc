"""The one table of commands. Key bindings, the key line, the help page and the palette are made from it."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from textual.binding import Binding, BindingType

LOAD, DIAGNOSE, TARGET, OPERATE, RECORD = STEPS = ("load", "diagnose", "target", "operate", "record")
GRIDS = (DIAGNOSE, TARGET, OPERATE, RECORD)


@dataclass(frozen=True)
class Command:
    """Something the operator can do by a key."""

    id: str
    """Also the name of its action and of its binding, so that it can be remapped."""
    keys: str
    """Textual's names of the keys, separated by commas."""
    label: str
    """A word or two for the key line."""
    help: str
    screens: tuple[str, ...]
    shown: int = 0
    """Place in the key line; 0: only in the help page and the palette."""

    @property
    def display(self) -> str:
        """The keys as people write them."""
        return " ".join(_NAMES.get(key, key) for key in self.keys.split(","))

    @property
    def first(self) -> str:
        """The key that the key line names."""
        return self.display.split(" ")[0]


_NAMES = {
    "question_mark": "?",
    "colon": ":",
    "slash": "/",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "escape": "esc",
    "left": "←",
    "right": "→",
    "up": "↑",
    "down": "↓",
    "ctrl+p": "^p",
    "ctrl+l": "^l",
}

COMMANDS = (
    # step 1
    Command("choose", "enter", "open", "Open the chosen session", (LOAD,), 1),
    Command("new", "n", "new", "Type a model for a new session: demo, a local folder or a hub name", (LOAD,), 2),
    Command("demo", "d", "demo patient", "Begin a new session on the demo patient", (LOAD,), 3),
    # step 3
    Command("take", "space", "toggle", "Take this head in or out; with a block, the whole block", (TARGET,), 2),
    Command("sick", "s", "sick", "Choose all sick heads", (TARGET,), 3),
    Command("band", "b", "sick & band", "Choose the sick heads of the band", (TARGET,)),
    Command("expression", "slash", "write", "Write the targets as an expression", (TARGET,), 1),
    Command("plan", "e", "plan", "Edit the plan: corpus, steps, rate and the rest", (TARGET,), 4),
    Command("column", "c", "column", "Take this head index in or out on all layers", (TARGET,)),
    Command("layer", "w", "layer", "Take this layer's heads in or out", (TARGET,)),
    Command("block", "v", "block", "Begin a block here; move, then space takes it", (TARGET,)),
    Command("all", "a", "all", "Choose every head", (TARGET,)),
    Command("clear", "x", "clear", "Choose no head", (TARGET,)),
    Command("undo_choice", "u", "undo", "Back to the choice before", (TARGET,)),
    Command("redo_choice", "U", "redo", "Forward again to the choice that was undone", (TARGET,)),
    # step 4
    Command("pause", "p", "pause", "Pause the pass, or let it go on", (OPERATE,), 1),
    Command("check", "c", "check now", "Evaluate now instead of at the next check", (OPERATE,), 2),
    Command("stop", "s", "stop", "Stop the pass and keep the best slices so far", (OPERATE,), 3),
    Command("note", "n", "note", "Write a note into the session", (OPERATE, RECORD), 4),
    Command("stop_last", "S", "stop, keep last", "Stop the pass and keep the slices as they are now", (OPERATE,)),
    # step 5
    Command("accept", "a", "accept", "Keep this pass: say so in the record", (RECORD,), 1),
    Command("undo_pass", "u", "undo", "Give the slices of this pass their originals back", (RECORD,), 2),
    Command("files", "f", "files", "Where the files of this session are", (DIAGNOSE, RECORD), 3),
    Command("files", "f", "files", "Where the files of this session are", (TARGET, OPERATE)),
    Command("earlier", "left_square_bracket", "earlier pass", "Show the pass before", (RECORD,)),
    Command("later", "right_square_bracket", "later pass", "Show the pass after", (RECORD,)),
    # the grid
    Command("left", "left,h", "left", "One head to the left", GRIDS),
    Command("right", "right,l", "right", "One head to the right", GRIDS),
    Command("up", "up,k", "up", "One layer up", GRIDS),
    Command("down", "down,j", "down", "One layer down", GRIDS),
    Command("next_sick", "n", "next sick", "To the next sick head", (DIAGNOSE,), 1),
    Command("next_sick", "n", "next sick", "To the next sick head", (TARGET,)),
    Command("previous_sick", "N", "previous sick", "To the sick head before", (DIAGNOSE, TARGET)),
    # everywhere
    Command("forward", "enter,t", "plan next", "Plan the next pass", (RECORD,), 5),
    Command("forward", "enter", "target", "On to choosing targets", (DIAGNOSE,), 5),
    Command("forward", "enter", "operate", "Operate on these targets", (TARGET,), 5),
    Command("forward", "enter", "record", "On to the record, once the pass has ended", (OPERATE,), 5),
    Command("back", "escape", "back", "Back to the step before, or out of a line being typed", GRIDS, 7),
    Command("back", "escape", "back", "Back to the list from the line being typed", (LOAD,)),
    Command("worker", "r", "worker", "Start a worker; it goes on with an unfinished pass", GRIDS),
    *(
        Command(f"step({n})", str(n), name, f"To step {n}, {name.capitalize()}", STEPS)
        for n, name in enumerate(STEPS, 1)
    ),
    Command("theme", "T", "theme", "Dark or light", STEPS),
    Command("redraw", "ctrl+l", "redraw", "Draw the whole screen again", STEPS),
    Command("palette", "colon,ctrl+p", "commands", "Find a command by name", STEPS),
    Command("help", "question_mark", "help", "What this screen shows and all its keys", STEPS, 8),
    Command("leave", "q", "leave", "Leave; a running pass goes on", STEPS, 9),
)
SHOWN = 7
"""More than this does not fit 80 columns."""


def commands_of(screen: str) -> list[Command]:
    """All commands of a screen, in the table's order."""
    return [command for command in COMMANDS if screen in command.screens]


def bindings_of(screen: str) -> list[BindingType]:
    """Textual's bindings of a screen."""
    return [
        Binding(key, command.id, command.label, show=False, id=f"{screen}.{command.id}", priority=key == "ctrl+p")
        for command in commands_of(screen)
        for key in command.keys.split(",")
    ]


def key_line(screen: str, idle: Container[str] = ()) -> list[Command]:
    """The commands that the key line shows, at most ``SHOWN``; help and leave are always there.

    Args:
        idle: ids of commands that would do nothing now.
    """
    shown = sorted((c for c in commands_of(screen) if c.shown and c.id not in idle), key=lambda c: c.shown)
    fixed = [c for c in shown if c.id in ("help", "leave")]
    return [c for c in shown if c not in fixed][: SHOWN - len(fixed)] + fixed


def key_table() -> str:
    """All keys as a Markdown table, a row per key and meaning; the README holds a copy."""
    rows = ["| key | does | steps |", "| --- | --- | --- |"]
    for command in dict.fromkeys((c.display, c.help) for c in COMMANDS):
        screens = [s for c in COMMANDS if (c.display, c.help) == command for s in c.screens]
        steps = "all" if set(screens) == set(STEPS) else ", ".join(s.capitalize() for s in STEPS if s in screens)
        keys = " ".join(f"`{key}`" for key in command[0].split(" "))
        rows.append(f"| {keys} | {command[1]} | {steps} |")
    return "\n".join(rows)
