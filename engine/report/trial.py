"""The report of a protocol, or of any sessions side by side: what came of its arms, and how sure that is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.report import documents, pictures_in, write_files
from engine.report.blocks import Block
from engine.report.trial_arms import arm_sections
from engine.report.trial_material import TrialMaterial, gather_all
from engine.report.trial_methods import methods_of, sessions_of
from engine.report.trial_overview import beside_the_paper, every_figure, how_to_read_arms, opening_of, patients, results
from engine.report.trial_tables import arms_csv, heads_of_all_csv, series_csv, spread_csv, trial_json
from engine.session import Session


def write_trial_report(sessions: Sequence[Session], to: Path, questions: Sequence[str] = ()) -> list[Path]:
    """Write the report on several sessions into the folder ``to``; returns its files.

    Args:
        questions: what the protocols of the sessions ask.

    Raises:
        InputError: a record cannot be read, or ``to`` cannot be written to.
    """
    return write_files(render_trial(gather_all(sessions, questions)), to)


def render_trial(m: TrialMaterial) -> dict[str, str]:
    """All files of the report, by name."""
    blocks = _blocks(m)
    return {
        **documents(blocks, m.title),
        "report.json": trial_json(m),
        "arms.csv": arms_csv(m),
        "spread.csv": spread_csv(m),
        "series.csv": series_csv(m),
        "heads.csv": heads_of_all_csv(m),
        **{figure.file: figure.svg + "\n" for figure in pictures_in(blocks)},
    }


def _blocks(m: TrialMaterial) -> list[Block]:
    return [
        *opening_of(m),
        *results(m),
        *how_to_read_arms(m),
        *patients(m),
        *arm_sections(m),
        *every_figure(m),
        *beside_the_paper(m),
        *methods_of(m),
        *sessions_of(m),
    ]
