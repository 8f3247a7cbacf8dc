"""The one table of commands. Key bindings, the key line, the help page and the palette are made from it."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, replace

from textual.binding import Binding, BindingType
from textual.keys import format_key

from tui.themes import THEMES

LOAD, DIAGNOSE, TARGET, OPERATE, RECORD = STEPS = ("load", "diagnose", "target", "operate", "record")
GRIDS = (DIAGNOSE, TARGET, OPERATE, RECORD)
PLANS, TRIAL, COMPARISON = BESIDE = ("plans", "trial", "comparison")
"""What step 1 opens into besides a session."""
SCREENS = (*STEPS, *BESIDE)


@dataclass(frozen=True)
class Command:
    """Something the operator can do by a key."""

    id: str
    """Also its action."""
    keys: str
    """Textual's names of the keys, separated by commas; empty where only the palette has it."""
    label: str
    """A word or two for the key line."""
    help: str
    screens: tuple[str, ...]
    shown: int = 0
    """Place in the key line; 0: only in the help page and the palette."""

    @property
    def name(self) -> str:
        """What the settings call it: ``step-1`` for ``step(1)``."""
        return self.id.replace("(", "-").replace("'", "").rstrip(")")

    @property
    def display(self) -> str:
        """The keys as people write them."""
        return " ".join(map(key_name, self.all_keys))

    @property
    def all_keys(self) -> list[str]:
        """Textual's names of the keys."""
        return self.keys.split(",") if self.keys else []

    @property
    def first(self) -> str:
        """The key that the key line names."""
        return self.display.split(" ")[0]


def key_name(key: str) -> str:
    """One of Textual's keys as people write it: ``?``, ``^p``, ``esc``, ``space``."""
    modifier, _, last = key.rpartition("+")
    name = last if last in ("enter", "backspace") else format_key(last)
    return f"^{name}" if modifier == "ctrl" else f"{modifier}+{name}" if modifier else name


COMMANDS = (
    # step 1
    Command("choose", "enter", "open", "Open the chosen session", (LOAD,), 1),
    Command("new", "n", "new", "Name a model for a new session: demo, a folder, .gguf file or hub name", (LOAD,), 2),
    Command("demo", "d", "demo patient", "Begin a new session on the demo patient", (LOAD,), 3),
    Command("replay", "p", "replay", "Replay the chosen session from its journal", (LOAD,), 4),
    Command("plans", "P", "plans", "Plans of several arms: the built-in ones, or a file of your own", (LOAD,), 5),
    Command("mark", "space", "mark", "Mark the chosen session, or take the mark off", (LOAD,)),
    Command("comparison", "c", "compare", "Compare the marked sessions side by side", (LOAD,)),
    Command("rename", "R", "rename", "Give the chosen session's folder another name", (LOAD,)),
    Command("delete", "D", "delete", "Delete the chosen session with all its files", (LOAD,)),
    # plans
    Command("begin", "enter", "begin", "Begin the chosen plan; asks for its corpora and the device", (PLANS,), 1),
    Command("patient", "m", "patient", "Name the patient that the plan is for", (PLANS,), 2),
    Command("own_plan", "o", "own file", "Take a plan file of your own into the list", (PLANS,), 3),
    # a trial
    Command("choose", "enter", "open", "Open the chosen run's session", (TRIAL,), 1),
    Command("replay", "p", "replay", "Replay the chosen run from its journal", (TRIAL,)),
    Command("comparison", "c", "compare", "Compare the arms side by side", (TRIAL,), 2),
    Command("worker", "r", "resume", "Start a worker; it goes on with what is left", (TRIAL,), 3),
    Command("stop_trial", "s", "stop", "End the trial's worker in order; it can be resumed", (TRIAL,), 4),
    # a comparison
    Command("write_table", "w", "write", "Write the table to two files, as Markdown and as CSV", (COMPARISON,), 1),
    Command("seeds", "v", "each session", "Arms over their seeds, or each session by itself", (COMPARISON,), 2),
    Command("left", "left,h", "left", "One column back", (COMPARISON,)),
    Command("right", "right,l", "right", "One column on", (COMPARISON,)),
    Command("up", "up,k", "up", "One row up", (COMPARISON,)),
    Command("down", "down,j", "down", "One row down", (COMPARISON,)),
    Command("page_down", "pagedown,space", "page down", "A page down", (PLANS, COMPARISON)),
    Command("page_up", "pageup", "page up", "A page up", (PLANS, COMPARISON)),
    # step 3
    Command("take", "space", "toggle", "Take this head in or out; with a block, the whole block", (TARGET,), 2),
    Command("sick", "s", "sick", "Choose all sick heads", (TARGET,), 3),
    Command("band", "b", "sick & band", "Choose the sick heads of the band", (TARGET,)),
    Command("outside", "o", "outside band", "Choose the sick heads outside the band", (TARGET,)),
    Command("dead", "d", "dead", "Choose the dead heads", (TARGET,)),
    Command("borderline", "B", "borderline", "Choose the borderline heads", (TARGET,)),
    Command("expression", "slash", "write", "Write the targets as an expression", (TARGET,), 1),
    Command("plan", "e", "plan", "Edit the plan: corpus, steps, rate and the rest", (TARGET,), 4),
    Command("column", "c", "column", "Take this head index in or out on all layers", (TARGET,)),
    Command("layer", "w", "layer", "Take this layer's heads in or out", (TARGET,)),
    Command("block", "v", "block", "Begin a block here; move, then space takes it", (TARGET,)),
    Command("all", "a", "all", "Choose every head", (TARGET,)),
    Command("clear", "x", "clear", "Choose no head", (TARGET,)),
    Command("undo_choice", "u", "undo", "Back to the choice before", (TARGET,)),
    Command("redo_choice", "U", "redo", "Forward again to the choice that was undone", (TARGET,)),
    Command("plan_file", "P", "plan file", "Run all passes of a plan file, one after the other", (TARGET,)),
    # step 4
    Command("pause", "p", "pause", "Pause the pass, or let it go on", (OPERATE,), 1),
    Command("check", "c", "check now", "Evaluate now instead of at the next check", (OPERATE,), 2),
    Command("stop", "s", "stop", "Stop the pass and keep the best slices so far", (OPERATE,), 3),
    Command("note", "n", "note", "Write a note with the time into the session", (OPERATE,), 4),
    Command("note", "n", "note", "Write a note with the time into the session", (RECORD,)),
    Command("stop_last", "S", "stop, keep last", "Stop the pass and keep the slices as they are now", (OPERATE,)),
    Command("interval", "i", "interval", "Change the steps between two checks", (OPERATE,)),
    Command("smaller", "b", "smaller batch", "Out of memory: go on with a smaller micro-batch", (OPERATE,), 1),
    # step 5
    Command("accept", "a", "accept", "Keep this pass: say so in the record", (RECORD,), 1),
    Command("undo_pass", "u", "undo", "Give the slices of this pass their originals back", (RECORD,), 2),
    Command("files", "f", "files", "Where the files of this session are", (DIAGNOSE, RECORD), 3),
    Command("files", "f", "files", "Where the files of this session are", (TARGET, OPERATE)),
    Command("earlier", "left_square_bracket", "earlier pass", "Show the pass before", (RECORD,)),
    Command("later", "right_square_bracket", "later pass", "Show the pass after", (RECORD,)),
    Command("difference", "d", "difference", "Show the difference, or before and after side by side", (RECORD,), 4),
    Command("per_target", "o", "per target", "Each target: mass, woken, working, before and after", (RECORD,)),
    Command("columns", "c", "columns", "Drift per head index, check by check", (RECORD,)),
    Command("history", "L", "all checks", "Every check of this pass, and the notes", (OPERATE, RECORD)),
    # the grid
    Command("left", "left,h", "left", "One head to the left", GRIDS),
    Command("right", "right,l", "right", "One head to the right", GRIDS),
    Command("up", "up,k", "up", "One layer up", GRIDS),
    Command("down", "down,j", "down", "One layer down", GRIDS),
    Command("next_sick", "n", "next sick", "To the next sick head", (DIAGNOSE,), 1),
    Command("next_sick", "n", "next sick", "To the next sick head", (TARGET,)),
    Command("previous_sick", "N", "previous sick", "To the sick head before", (DIAGNOSE, TARGET)),
    Command("jump", "g", "go to head", "Go to a head by its numbers, like 16.4", (DIAGNOSE,), 4),
    Command("jump", "g", "go to head", "Go to a head by its numbers, like 16.4", (TARGET, OPERATE, RECORD)),
    Command(
        "view", "m", "view", "Next view: BOS mass, entropy, class, drift since stock, contribution", (DIAGNOSE,), 2
    ),
    Command(
        "view",
        "m",
        "view",
        "Next view: BOS mass, entropy, class, drift since stock, contribution",
        (TARGET, OPERATE, RECORD),
    ),
    Command("view_back", "M", "view before", "The view before", GRIDS),
    Command("block", "v", "block", "Begin a block of targets here", (DIAGNOSE,)),
    Command(
        "distribution",
        "i",
        "distribution",
        "Histogram of BOS mass; sick rate per head index and layer",
        (DIAGNOSE, TARGET),
    ),
    Command(
        "attention",
        "A",
        "attention",
        "Where this head looks: its attention on one of the texts",
        (DIAGNOSE, TARGET, RECORD),
    ),
    Command(
        "contributions",
        "C",
        "contribution",
        "Measure what the loss loses when each head alone is silent",
        (DIAGNOSE, TARGET, RECORD),
    ),
    Command("generate", "G", "generate", "Let the model go on with the prompts", (DIAGNOSE, OPERATE, RECORD)),
    Command("texts", "x", "texts", "The generated texts, stock beside the newest", (DIAGNOSE, OPERATE, RECORD)),
    Command(
        "stream",
        "S",
        "long text",
        "A long text through a window, with and without anchors, stock and repaired",
        (DIAGNOSE, RECORD),
    ),
    # a replay
    Command("replay_pause", "comma", "halt", "In a replay: halt, or go on", GRIDS),
    Command("replay_next", "full_stop", "next event", "In a replay: on to the next milestone", GRIDS),
    Command("replay_faster", "greater_than_sign", "faster", "In a replay: faster", GRIDS),
    Command("replay_slower", "less_than_sign", "slower", "In a replay: slower", GRIDS),
    # everywhere
    Command("forward", "enter,t", "plan next", "Plan the next pass", (RECORD,), 5),
    Command("forward", "enter", "target", "On to choosing targets", (DIAGNOSE,), 5),
    Command("forward", "enter", "operate", "Operate on these targets", (TARGET,), 5),
    Command("forward", "enter", "record", "On to the record, once the pass has ended", (OPERATE,), 5),
    Command("back", "escape", "back", "Back to the step before, or out of a line being typed", GRIDS, 7),
    Command("back", "escape", "back", "Back to the list from the line being typed", (LOAD,)),
    Command("back", "escape", "back", "Back to where this was opened from", BESIDE, 7),
    Command("to_trial", "0", "trial", "To the trial that this session belongs to", (LOAD, *GRIDS)),
    Command("worker", "r", "worker", "Start a worker; it goes on with an unfinished pass", (DIAGNOSE, TARGET, RECORD)),
    Command("worker", "r", "resume", "Start a worker, or end one that hangs; it goes on with the pass", (OPERATE,), 1),
    *(
        Command(f"step({n})", str(n), name, f"To step {n}, {name.capitalize()}", SCREENS)
        for n, name in enumerate(STEPS, 1)
    ),
    Command("copy", "y", "copy", "Copy the head's figures or the session's path, and write them to a file", SCREENS),
    Command("screenshot", "Y", "screenshot", "Write this screen to two files, as SVG and as text", SCREENS),
    Command("theme", "T", "theme", "Next theme: dark, light, high contrast, safe for colour-blind eyes", SCREENS),
    *(Command(f"use_theme('{name}')", "", f"{name} theme", f"Use the {name} theme", SCREENS) for name in THEMES),
    Command("redraw", "ctrl+l", "redraw", "Draw the whole screen again", SCREENS),
    Command("palette", "colon,ctrl+p", "commands", "Find a command by name", SCREENS),
    Command("help", "question_mark", "help", "What this screen shows and all its keys", SCREENS, 8),
    Command("leave", "q", "leave", "Leave; a running pass goes on", SCREENS, 9),
)
SHOWN = 7
"""More than this does not fit 80 columns."""


Table = tuple[Command, ...]


def remapped(keys: Mapping[tuple[str, str], str]) -> Table:
    """The table with other keys.

    Args:
        keys: (screen, command's name) -> Textual's names of its keys, separated by commas.
    """
    table: list[Command] = []
    for command in COMMANDS:
        screens_of: dict[str, tuple[str, ...]] = {}
        for screen in command.screens:
            wanted = keys.get((screen, command.name), command.keys)
            screens_of[wanted] = (*screens_of.get(wanted, ()), screen)
        table += [replace(command, keys=wanted, screens=screens) for wanted, screens in screens_of.items()]
    return tuple(table)


def commands_of(screen: str, table: Table = COMMANDS) -> list[Command]:
    """All commands of a screen, in the table's order."""
    return [command for command in table if screen in command.screens]


def bindings_of(screen: str) -> list[BindingType]:
    """Textual's bindings of a screen; their ids are what a keymap names them by."""
    return [
        Binding(key, command.id, command.label, show=False, id=f"{screen}.{command.name}")
        for command in commands_of(screen)
        for key in command.all_keys
    ]


def key_of(name: str, table: Table = COMMANDS, screen: str = "") -> str:
    """The first key of a command, for a sentence that names it."""
    return next((c.first for c in table if c.name == name and (not screen or screen in c.screens)), "")


def key_line(screen: str, idle: Container[str] = (), table: Table = COMMANDS) -> list[Command]:
    """The commands that the key line shows, at most ``SHOWN``; help and leave are always there.

    Args:
        idle: ids of commands that would do nothing now.
    """
    shown = sorted((c for c in commands_of(screen, table) if c.shown and c.id not in idle), key=lambda c: c.shown)
    fixed = [c for c in shown if c.id in ("help", "leave")]
    return [c for c in shown if c not in fixed][: SHOWN - len(fixed)] + fixed


def key_table() -> str:
    """All keys as a Markdown table, a row per key and meaning; the README holds a copy."""
    rows = ["| key | does | steps |", "| --- | --- | --- |"]
    for command in dict.fromkeys((c.display, c.help) for c in COMMANDS if c.keys):
        screens = [s for c in COMMANDS if (c.display, c.help) == command for s in c.screens]
        steps = "all" if set(screens) == set(SCREENS) else ", ".join(s.capitalize() for s in SCREENS if s in screens)
        keys = " ".join(f"`{key}`" for key in command[0].split(" "))
        rows.append(f"| {keys} | {command[1]} | {steps} |")
    return "\n".join(rows)
