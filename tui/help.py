"""The words of the help page, one entry per step. ``{name}`` stands for the key of a command of that step."""

from __future__ import annotations

from tui.commands import COMPARISON, DIAGNOSE, GRIDS, LOAD, OPERATE, PLANS, RECORD, TARGET, TRIAL, Command

PAGES = {
    LOAD: (
        "Load",
        "A session is one folder: the record, the journal of everything that happened, and the patches. "
        "{choose} opens one to watch it, go on with it or read it; {replay} tells it again from its journal, as "
        "fast as you like, and changes nothing. {new} begins a new one: while a model is typed, the list offers "
        "patients of past sessions, models in the hub's cache and folders (↑↓ takes one, tab completes), and its "
        "config alone tells shape and memory. Device and dtype are asked. {rename} gives a session's folder another "
        "name.\n\n"
        "{plans} lists plans of several arms. What one of them has begun is a trial: one row here, marked ▸, with a "
        "session for each arm and seed inside. {mark} marks sessions or trials with *, and {comparison} puts the "
        "marked ones side by side. {to_trial} goes back to the trial that was open.",
    ),
    DIAGNOSE: (
        "Diagnose",
        "One cell per head, coloured by BOS mass: the mean share of attention that goes to the first token. "
        "Over 0.95 a head is dead, over 0.50 a BOS-sink; both are called sick. Below, entropy under 0.50 nats is "
        "low_entropy, the rest healthy. A head is borderline when its interval over the texts holds a limit. "
        "Uniform attention would score the mass named uniform; the penalty is what ALiBi takes off at the mean "
        "distance to the first token. Where layers share a row, the upper half of a cell is the upper layer.\n\n"
        "{view} and {view_back} go through the views: entropy is warm where it is low; class has letters; drift has "
        "+ and - where the mass moved by more than 0.05 since stock; contribution is what the loss loses when that "
        "head alone is silent, once {contributions} has had it measured. A grid larger than the screen moves by "
        "panes; the line above the legend names the part. {distribution} shows the histogram of BOS mass and the "
        "share of sick heads per head index and layer. {attention} shows, token by token, how much attention each "
        "receives and where this head looks. {generate} lets the model go on with the prompts; {texts} shows what it "
        "wrote, stock beside the newest. {stream} reads a long text through a window with and without anchors.",
    ),
    TARGET: (
        "Target",
        "× is a target; where two layers share a row, a raised sign is the upper layer, a lowered one the lower. "
        "Targets get fresh Q, K and V and an empty output column, then only they are trained. {expression} writes an "
        "expression, which joins sick, dead, bos_sink, low_entropy, healthy, borderline, band, zone, all, L16-H4, H5, "
        "H9-15, L5-22, L5-22 x H9-15, bos>0.4 with & | ! and brackets. {plan} edits the plan. {plan_file} takes a "
        "plan file, which holds a [[pass]] table per pass; they run one after the other, and each resolves its "
        "targets when it begins.\n\n"
        "The memory and the time are estimates, beside what there is. {view} and {view_back} change the view, as in "
        "step 2: contribution ({contributions} measures it) tells what each head is worth before it is cut. "
        "{distribution} shows the histogram of BOS mass, {attention} where this head looks.",
    ),
    OPERATE: (
        "Operate",
        "Perplexity of training and of the held-out part, the stock model's as a dotted line, the best check as a "
        "diamond. × is a target still sick, o one that woke. Woken says little by itself: a fresh head has low "
        "mass before any training, so the count at the cut stands beside it. Drift is the change of BOS mass in "
        "heads that were left alone; a column spreads when its mean rose by more than 0.02 since the first check. "
        "While a pass runs only the BOS mass is measured, so {view} goes between it and its drift. {history} lists "
        "every check and note.\n\n"
        "Passes that wait for their turn are named as queued and begin by themselves, also after an interruption. "
        "Out of memory, a pass stands still and loses nothing: {smaller} goes on with a smaller micro-batch of the "
        "same whole batch, or with gradient checkpointing. A worker that writes nothing for long is named; nothing is "
        "ended unasked: {worker} asks, ends it and goes on from the last saved step. Leaving does not stop the pass.",
    ),
    RECORD: (
        "Record",
        "Before and after side by side. Working is what the held-out loss loses when the targets' outputs are "
        "zeroed, in nats: the stock heads' value and the new one. The other texts show what the pass cost "
        "elsewhere. Equal hashes mean that nothing outside the targets changed. {undo_pass} gives the slices their "
        "originals back; {accept} only says in the record that you keep them. {forward} plans the next pass and "
        "proposes what is still sick.\n\n"
        "{view} and {view_back} change the view of both grids; {contributions} has contribution measured as the "
        "model stands. {difference} shows the difference and each target, with what it is worth "
        "alone; {per_target}, {columns} and {history} show targets, columns and checks in full. {attention} shows "
        "where a head looks now. {generate} lets the model go on with the prompts; {texts} shows the pairs, before "
        "and after. {stream} reads a long text on and on.",
    ),
    PLANS: (
        "Plans",
        "A plan is an experiment: a question, arms that differ in one thing, corpora by name, and seeds. Each arm is "
        "run once per seed, one after the other, each as a session of its own; then they are compared. Beside the "
        "list stands what the plan would run on the patient, or why it cannot. {patient} names another patient; "
        "without a name, the plan's own. {own_plan} takes a TOML file of your own (`headsurgeon plans NAME` prints a "
        "built-in one, to begin from).\n\n"
        "{begin} asks for a source for each corpus that the plan names, for texts to diagnose on, the device and the "
        "dtype, and then begins. {page_down} and {page_up} scroll what is told of the plan.",
    ),
    TRIAL: (
        "Trial",
        "One row per run. Healthy is the count of heads at stock and now; woken the targets that are no longer sick; "
        "perplexity that of the held-out part, stock and at the last check or at the end; drift the largest change "
        "of BOS mass in a head outside the pass's zone. A run that fails says why, and the next one begins. The time "
        "left supposes that all runs take as long as those that are done.\n\n"
        "{choose} opens a run's session as any other, also while it runs; from there {back} at Diagnose leads back. "
        "Leaving does not stop the trial. {stop_trial} ends its worker in order: at most the steps since the last "
        "check are done again when {worker} has it go on. {comparison} compares the arms as far as they have come; "
        "{replay} tells a run again.",
    ),
    COMPARISON: (
        "Comparison",
        "Figures in rows, sessions or arms in columns. Where an arm has several seeds, "
        "its column holds the mean and the standard deviation over them; {seeds} shows each session by itself. Figures "
        "with arrows are stock, after the cut where it was measured, and after. Below the figures stands what all "
        "share, what came of each arm, and what keeps the columns from being compared figure by figure.\n\n"
        "{left} and {right} move by a column, {up} and {down} by a row, {page_down} and {page_up} by a page. "
        "{write_table} writes every session's figures to a Markdown and a CSV file, and those of arms to a text.",
    ),
}
REPLAY = (
    "In a replay {replay_pause} halts or goes on, {replay_next} goes to the next milestone, {replay_faster} and "
    "{replay_slower} change the pace."
)


def page(step: str, commands: list[Command]) -> tuple[str, str]:
    """Title and words of a step's page, with the keys that its commands have now."""
    title, text = PAGES[step]
    keys = {command.name: command.first or f"“{command.label}”" for command in commands}
    return title, (f"{text}\n\n{REPLAY}" if step in GRIDS else text).format_map(keys)
