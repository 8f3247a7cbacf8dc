"""The words of the help page, one entry per step."""

from __future__ import annotations

from tui.commands import DIAGNOSE, LOAD, OPERATE, RECORD, TARGET

PAGES = {
    LOAD: (
        "Load",
        "A session is one folder: the record, the journal of everything that happened, and the patches. "
        "Open one to watch it, go on with it or read it; replay tells it again from its journal. Or begin a new one: "
        "while a model is typed, the list offers patients of past sessions, models in the hub's cache and folders "
        "(↑↓ takes one, tab completes), and its config alone tells shape and memory. Device and dtype are asked.",
    ),
    DIAGNOSE: (
        "Diagnose",
        "One cell per head, coloured by BOS mass: the mean share of attention that goes to the first token. "
        "Over 0.95 a head is dead, over 0.50 a BOS-sink; both are called sick. Below, entropy under 0.50 nats is "
        "low_entropy, the rest healthy. A head is borderline when its interval over the texts holds a limit. "
        "Uniform attention would score the mass named uniform; the penalty is what ALiBi takes off at the mean "
        "distance to the first token. Where layers share a row, the upper half of a cell is the upper layer. The "
        "views: entropy is warm where it is low; class has letters; drift has + and - where the mass moved by more "
        "than 0.05 since stock; contribution is what the loss loses when that head alone is silent. A grid larger "
        "than the screen moves by panes; the line above the legend names the part. The attention window shows, token "
        "by token, how much attention each receives and where it looks.",
    ),
    TARGET: (
        "Target",
        "× is a target; where two layers share a row, a raised sign is the upper layer, a lowered one the lower. "
        "Targets get fresh Q, K and V and an empty output column, then only they are trained. An expression joins "
        "sick, dead, bos_sink, low_entropy, healthy, borderline, band, zone, all, L16-H4, H5, H9-15, L5-22, "
        "L5-22 x H9-15, bos>0.4 with & | ! and brackets. A plan file holds a [[pass]] table per pass; they run one "
        "after the other, and each resolves its targets when it begins.",
    ),
    OPERATE: (
        "Operate",
        "Perplexity of training and of the held-out part, the stock model's as a dotted line, the best check as a "
        "diamond. × is a target still sick, o one that woke. Woken says little by itself: a fresh head has low "
        "mass before any training, so the count at the cut stands beside it. Drift is the change of BOS mass in "
        "heads that were left alone; a column spreads when its mean rose by more than 0.02 since the first check. "
        "While a pass runs only the BOS mass is measured, so the views here are it and its drift. A worker that "
        "writes nothing for long is named; nothing is ended unasked. Leaving does not stop the pass.",
    ),
    RECORD: (
        "Record",
        "Before and after side by side. Working is what the held-out loss loses when the targets' outputs are "
        "zeroed, in nats: the stock heads' value and the new one. The other texts show what the pass cost "
        "elsewhere. Equal hashes mean that nothing outside the targets changed. Undo gives the slices their "
        "originals back; accept only says in the record that you keep them. The difference lists the targets one by "
        "one, with what each is worth alone.",
    ),
}
