"""The sections of a report on several arms that are about all of them."""

from __future__ import annotations

from dataclasses import replace

from engine.arms import Arm, comparable, figures_of, of_arm, one_patient, patients_of, text_matrix
from engine.arms_told import BY_KEY, PERPLEXITY, checked, extremes, of_curves, plain, range_of, told, words_of
from engine.figures import GROUPS, Figure
from engine.heads import CLASSES
from engine.paper import beside
from engine.printable import printable
from engine.report.beside import preface, tables_of
from engine.report.blocks import Block, Facts, Figures, Fold, Heading, Listing, Paragraph, Table
from engine.report.blocks import Figure as Picture
from engine.report.grid import head_grid
from engine.report.histogram import histogram
from engine.report.trial_material import TrialMaterial
from engine.report.trial_pictures import bands_picture, drift_picture, heldout_picture
from engine.report.trial_settings import codes
from engine.report.whole import how_to_read, measured_on, patient
from engine.report.words import NOT_KNOWN, Code, Text, grouped
from engine.show_arms import patient_cells


def opening_of(m: TrialMaterial) -> list[Block]:
    """Title, question, and what was run."""
    models = list(dict.fromkeys(x.record.session.model for x in m.materials))
    names = list(dict.fromkeys(arm.name for arm in m.arms))
    seeds = sorted({run.seed for arm in m.arms for run in arm.runs})
    states = [x.record.session.state for x in m.materials]
    counted = ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states))
    rows: list[tuple[str, Text]] = [("question", [question]) for question in m.questions]
    return [
        Heading(1, [m.title]),
        Facts(
            [
                *rows,
                ("patient" if len(models) == 1 else "patients", codes(models)),
                ("arms", codes(names)),
                ("seeds", [", ".join(map(str, seeds))]),
                ("sessions", [f"{len(states)}: {counted}"]),
            ]
        ),
    ]


# -- what came of it


def results(m: TrialMaterial) -> list[Block]:
    """The answer first: a row per arm, what each came to, and the curves of all in one picture."""
    blocks: list[Block] = [Heading(2, ["What came of it"])]
    if not m.done:
        return [*blocks, *_diagnosed(m)]
    ends = [(arm, of_curves(arm)) for arm in m.done]
    return [
        *blocks,
        _overview(m.done),
        *_over_seeds(m),
        *_extremes(m.done),
        Figures(_curves(m)),
        Listing([[f"{arm.label}: ", "; ".join(phrases), "."] for arm, phrases in ends if phrases]),
        *_texts(m.done),
        *_main_tables(m.done),
    ]


_OVERVIEW = [
    ("healthy heads: before → after", ("healthy_before", "healthy_after")),
    ("woken of targets: cut → after", ("woken_at_cut", "woken", "targets")),
    ("working: stock → after, nats", ("working_stock", "working_after")),
    ("held-out perplexity: stock → kept", ("heldout_stock", "heldout_after")),
]


def _overview(arms: list[Arm]) -> Table:
    """The few figures that a protocol is about."""
    head = ["arm", *(name for name, _ in _OVERVIEW), "best at step", "at or below stock from step"]
    rows: list[list[Text]] = []
    for arm in arms:
        words = [[words_of(key, arm) for key in keys] for _, keys in _OVERVIEW]
        cells = [" → ".join(parts[:2]) + (f" of {parts[2]}" if parts[2:] else "") for parts in words]
        step = [f"{words_of('best_step', arm)} of {words_of('steps_planned', arm)}", _crossed(arm)]
        rows.append([[arm.label], *([cell] for cell in [*cells, *(step if checked(arm) else [NOT_KNOWN] * 2)])])
    return Table(head, rows)


def _crossed(arm: Arm) -> str:
    found = of_arm(BY_KEY["crossed_step"], arm)
    if not found.n:
        return "never"
    return "0, the cut" if found.high == 0 and found.n == len(arm.runs) else words_of("crossed_step", arm)


def _over_seeds(m: TrialMaterial) -> list[Block]:
    """What the figures are means of, and what keeps arms from being compared."""
    told_ = []
    if m.seeded:
        told_.append(
            "Figures are means over the seeds of an arm with the sample standard deviation (n − 1) after ±; one "
            "without ± is alike in all seeds. Where a run does not know a figure, how many do is told in brackets."
        )
    else:
        told_.append(
            "Every arm was run with one seed, so nothing is known of how far another seed would move a figure."
        )
    if not one_patient(m.done):
        told_.append("The arms operate on different patients: their figures stand on different models.")
    elif not comparable(m.done):
        told_.append(
            "The held-out parts differ between arms, so their perplexities cannot be put in one order, and no more can "
            "what heads are worth; the table of texts below has each arm on every text."
        )
    return [Paragraph([" ".join(told_)])]


def _extremes(arms: list[Arm]) -> list[Block]:
    found = extremes(arms)
    if not found:
        return []
    rows: list[list[Text]] = [
        [
            [one.label],
            [", ".join(arm.label for arm in one.first)],
            [one.words],
            [one.after.label if one.after else NOT_KNOWN],
            [one.after_words],
        ]
        for one in found
    ]
    return [Heading(3, ["First and next"]), Table(["", "first", "with", "next", "with"], rows)]


def _curves(m: TrialMaterial) -> list[Picture]:
    """Held-out perplexity and drift of all arms, pass by pass."""
    out = []
    thin = " Thin lines are single seeds, thick ones their mean." if m.seeded else ""
    for number in m.numbers:
        arms = [arm for arm in m.done if arm.number == number]
        of = f"Pass {number}: " if len(m.numbers) > 1 else ""
        suffix = f"-pass-{number}" if len(m.numbers) > 1 else ""
        pictures = [
            (
                f"heldout{suffix}.svg",
                heldout_picture(arms, f"{of}Held-out perplexity of all arms"),
                f"Held-out perplexity at every check; step 0 is the cut, dashed is stock, a ring an arm's best.{thin}",
            ),
            (
                f"drift-outside{suffix}.svg",
                drift_picture(arms, "outside", f"{of}Drift outside the zone"),
                f"Mean |δ| against stock of the untouched heads outside the zone, at every check.{thin}",
            ),
            (
                f"drift-in-band{suffix}.svg",
                drift_picture(arms, "in_band_frozen", f"{of}Drift of the frozen heads in the band"),
                f"The same of the heads inside the zone that are no targets.{thin}",
            ),
        ]
        out += [Picture(file, svg, caption) for file, svg, caption in pictures if svg]
    return out


def _texts(arms: list[Arm]) -> list[Block]:
    """Every arm on every text that any was measured on."""
    found = text_matrix(arms)
    if len(found.texts) < 2:
        return []
    rows: list[list[Text]] = [[["stock"], *([range_of(cell)] for cell in found.stock)]]
    rows += [
        [[arm.label], *([told(PERPLEXITY, cell)] for cell in cells)]
        for arm, cells in zip(found.arms, found.after, strict=True)
    ]
    return [
        Heading(3, ["Every arm on every text"]),
        Table(["perplexity after, of", *map(printable, found.texts)], rows),
        Paragraph(["A text that an arm was not measured on has no figure there."]),
    ]


def _main_tables(arms: list[Arm]) -> list[Block]:
    """The main figures, group by group."""
    shown = [figure for figure in figures_of(arms) if figure.main]
    blocks: list[Block] = []
    for group in GROUPS:
        its = [figure for figure in shown if figure.group == group]
        if its:
            rows: list[list[Text]] = [
                [[arm.label], *([told(figure, of_arm(figure, arm))] for figure in its)] for arm in arms
            ]
            blocks += [Heading(3, [group[0].upper() + group[1:]]), Table(["arm", *(f.label for f in its)], rows)]
    return blocks


# -- how to read, and whom


def how_to_read_arms(m: TrialMaterial) -> list[Block]:
    """As in the report of a session, and what an arm and a seed are."""
    more = (
        "An arm is one way of doing it; what sets an arm apart is told under its name. Each was run once per seed, as "
        "a session of its own: the seed draws the new weights and the order of the samples. Step 0 is the cut, before "
        "anything is trained. “Kept” are the slices that stay in the model, as a rule those of the best check."
    )
    return [*how_to_read(m.materials[0]), *([Paragraph([more])] if m.done else [])]


def patients(m: TrialMaterial) -> list[Block]:
    """Who was operated on: one patient as in the report of a session, several in one table."""
    found = patients_of(m.arms)
    if not m.done or len(found) > 1:
        return [] if not m.done else [Heading(2, ["Patients"]), *_patients_table(m), *measured_on(m.materials[0])]
    first = next((x for x in m.materials if x.maps), m.materials[0])
    if "stock" not in first.maps:
        return patient(first)
    bars = histogram([("stock", first.maps["stock"].bos_mass)], "BOS mass of all heads, stock", first.thresholds)
    caption = "Heads of the model as loaded per twentieth of BOS mass; the dashed lines are where the classes begin."
    return [*patient(first), *measured_on(first), Figures([Picture("histogram-stock.svg", bars, caption)])]


def _diagnosed(m: TrialMaterial) -> list[Block]:
    """Arms without a pass: the patients, as they were loaded."""
    found = patients_of(m.arms)
    if not found:
        return [Paragraph(["No patient was diagnosed yet."])]
    pictures = []
    for row in found:
        arm = next(arm for arm in m.arms if arm.runs[0].record is row.record)
        own = m.of(arm.runs[0])
        grid = head_grid(own.maps["stock"].bos_mass, (), f"BOS mass, {row.name}", own.thresholds)
        pictures.append(Picture(m.file(arm, "grid"), grid, f"Every head of {row.name}, coloured by BOS mass."))
        bars = histogram([("stock", own.maps["stock"].bos_mass)], f"BOS mass of all heads, {row.name}", own.thresholds)
        pictures.append(Picture(m.file(arm, "histogram"), bars, f"Heads of {row.name} per twentieth of BOS mass."))
    return [*_patients_table(m), Heading(3, ["Patient by patient"]), Figures(pictures), *measured_on(m.materials[0])]


def _patients_table(m: TrialMaterial) -> list[Block]:
    found = patients_of(m.arms)
    head = ["patient", "layers × heads", "sick", "sick %", "band", *CLASSES, "borderline", "texts", "tokens"]
    rows: list[list[Text]] = [[[row.name], *([cell] for cell in patient_cells(row))] for row in found]
    of: list[list[Text]] = [
        [[row.name], [Code(row.model)], [Code(row.family)], [grouped(row.parameters)], [Code(row.dtype)]]
        for row in found
    ]
    svg = bands_picture(found, "Where the heads are sick")
    caption = "Share of layers in which a head is sick, by head index from the first to the last of each patient."
    return [
        Table(head, rows),
        Figures([Picture("bands.svg", svg, caption)]),
        Table(["patient", "model", "family", "parameters", "dtype"], of),
    ]


# -- every figure


def every_figure(m: TrialMaterial) -> list[Block]:
    """Arm by arm: mean, deviation and range of whatever was measured, and each seed's."""
    if not m.done:
        return []
    blocks: list[Block] = [Heading(2, ["Every figure"])]
    figures = figures_of(m.done)
    for arm in m.done:
        blocks.append(Fold(3, [arm.label], [_of_arm(arm, figures)]))
    return blocks


def _of_arm(arm: Arm, figures: list[Figure]) -> Table:
    several = len(arm.runs) > 1
    head = ["", *(f"seed {seed}" for seed in arm.seeds), *(["mean", "sd", "lowest", "highest"] if several else [])]
    rows: list[list[Text]] = []
    for figure in figures:
        found = of_arm(figure, arm)
        if not found.n:
            continue
        finer = figure.digits or (0 if found.low == found.high else 1)  # means of counts
        cells = [plain(figure, value, figure.digits) for value in found.values]
        if several:
            cells += [plain(figure, value, finer) for value in (found.mean, found.sd)]
            cells += [plain(figure, value, figure.digits) for value in (found.low, found.high)]
        name = figure.label if figure.group != "held-out perplexity" else _heldout_name(figure)
        rows.append([[printable(name)], *([cell] for cell in cells)])
    return Table(head, rows)


def _heldout_name(figure: Figure) -> str:
    return figure.label if figure.label.startswith("perplexity of") else f"held-out perplexity: {figure.label}"


# -- the paper


def beside_the_paper(m: TrialMaterial) -> list[Block]:
    """The paper's figures beside those of each arm's first run, where the patient is one of the paper's."""
    out: list[Block] = []
    seen = set()
    for arm in m.arms:
        run, _ = m.first(arm)
        if arm.name in seen:
            continue
        seen.add(arm.name)
        groups = [group for group in beside(run.record) if any(row.measured for row in group.rows)]
        if groups:
            out.append(Heading(3, [f"{arm.name}, seed {run.seed}"]))
            out += [replace(b, level=4) if isinstance(b, Heading) else b for b in tables_of(groups)]
    return [*preface(), *out] if out else []
