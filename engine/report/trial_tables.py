"""The CSV and JSON files of a report on several arms: every figure of every run, and every series."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from engine.analysis import column_indices
from engine.arms import Arm, comparable, figures_of, of_arm, patients_of, text_matrix
from engine.arms_told import extremes, findings
from engine.figures import Figure, Run
from engine.paper import beside
from engine.report.material import targets_of
from engine.report.plain import analysis_told, json_text
from engine.report.tables import check_header, check_rows, csv_text, shown, yes
from engine.report.trial_material import TrialMaterial
from engine.report.trial_settings import differing

FORMAT = "headsurgeon-trial-report-1"


def arms_csv(m: TrialMaterial) -> str:
    """A row per run and pass, a column per figure; empty where nothing is known."""
    figures = figures_of(m.arms)
    header = ["arm", "pass", "seed", "session", "outcome", *(shown(figure.key) for figure in figures)]
    return csv_text(
        header,
        (
            [*_run(arm, run), _outcome(run), *(figure.of(run) for figure in figures)]
            for arm in m.arms
            for run in arm.runs
        ),
    )


def spread_csv(m: TrialMaterial) -> str:
    """A row per arm, pass and figure: how many runs know it, mean, sample standard deviation, lowest, highest."""
    figures = figures_of(m.arms)
    rows = (
        [shown(arm.name), arm.number, shown(figure.key), found.n, found.mean, found.sd, found.low, found.high]
        for arm in m.arms
        for figure in figures
        if (found := of_arm(figure, arm)).n
    )
    return csv_text(["arm", "pass", "figure", "n", "mean", "sd", "low", "high"], rows)


def series_csv(m: TrialMaterial) -> str:
    """Every check of every run; step 0 is the cut."""
    indices = sorted({index for arm in m.done for p in arm.passes for index in column_indices(p)})
    rows = (
        [*_run(arm, run), *row[1:]]  # without the number of the pass
        for arm in m.done
        for run in arm.runs
        if run.pass_
        for row in check_rows(run.pass_, indices)
    )
    return csv_text(["arm", "pass", "seed", "session", *check_header(indices)], rows)


def heads_of_all_csv(m: TrialMaterial) -> str:
    """Every head of every session at every stage that it was diagnosed at."""
    header = ["session", "arm", "seed", "stage", "layer", "head", "bos_mass", "bos_low", "bos_high", "entropy", "class"]
    return csv_text([*header, "borderline", "target"], _head_rows(m))


def _head_rows(m: TrialMaterial) -> Iterable[list[object]]:
    for x in m.materials:
        s = x.record.session
        targets = {f"pass-{p.number}": frozenset(targets_of(p)) for p in x.record.passes}
        for stage, found in x.maps.items():
            for head in found.heads():
                figures = [found.mass(head), *found.interval(head), found.entropy[head.layer][head.head]]
                kind = [found.class_of(head), yes(found.is_borderline(head)), yes(head in targets.get(stage, ()))]
                yield [shown(s.id), shown(s.arm), s.seed, shown(stage), head.layer, head.head, *figures, *kind]


def _run(arm: Arm, run: Run) -> list[object]:
    return [shown(arm.name), arm.number, run.seed, shown(run.record.session.id)]


def _outcome(run: Run) -> str:
    return shown(run.pass_.outcome if run.pass_ else run.record.session.state)


def trial_json(m: TrialMaterial) -> str:
    """Records and everything worked out of them."""
    figures = figures_of(m.arms)
    told = {
        "format": FORMAT,
        "title": m.title,
        "questions": m.questions,
        "comparable": comparable(m.done) if m.done else None,
        "arms": [_arm(arm, figures) for arm in m.arms],
        "differs": {f"pass-{number}": _differs(m, number) for number in m.numbers},
        "first": [
            {"of": one.label, "arms": [arm.label for arm in one.first], "next": one.after.label if one.after else None}
            for one in extremes(m.done)
        ],
        "perplexities": _texts(m),
        "patients": [
            {name: value for name, value in vars(row).items() if name != "record"} for row in patients_of(m.arms)
        ],
        "paper": {x.record.session.id: [asdict(group) for group in beside(x.record)] for x in m.materials},
        "records": [x.record.model_dump(by_alias=True) for x in m.materials],
    }
    return json_text(told)


def _arm(arm: Arm, figures: list[Figure]) -> dict[str, Any]:
    phrases = {found.label: text for found, text in findings([arm])}
    return {
        "arm": arm.name,
        "label": arm.label,
        "pass": arm.number,
        "seeds": arm.seeds,
        "sessions": [run.record.session.id for run in arm.runs],
        "outcomes": [run.pass_.outcome if run.pass_ else None for run in arm.runs],
        "figures": {figure.key: vars(of_arm(figure, arm)) for figure in figures},
        "findings": phrases.get(arm.label, []),
        "analysis": [analysis_told(run.found) if run.found else None for run in arm.runs],
    }


def _differs(m: TrialMaterial, number: int) -> dict[str, dict[str, Any]]:
    arms = [arm for arm in m.done if arm.number == number]
    return {
        name: dict(zip((arm.label for arm in arms), values, strict=True)) for name, values in differing(arms).items()
    }


def _texts(m: TrialMaterial) -> dict[str, Any]:
    found = text_matrix(m.arms)
    return {
        "texts": found.texts,
        "stock": [vars(cell) for cell in found.stock],
        "after": {arm.label: [vars(cell) for cell in row] for arm, row in zip(found.arms, found.after, strict=True)},
    }
