"""Carrying a trial out: its runs one after another, each a session of its own."""

from __future__ import annotations

import signal
from collections.abc import Callable

from engine import events
from engine.chart import read_chart
from engine.errors import Failure, InputError
from engine.journal import Entry
from engine.nn.corpus import check_sources
from engine.nn.load import find
from engine.nn.worker import Worker
from engine.probes import read_probes
from engine.protocol import Run
from engine.session import Session
from engine.trial import Trial, done

Show = Callable[[Run, Entry], None]


def check_runs(runs: list[Run]) -> None:
    """Complain about a patient, a text or a corpus that is not there, before anything is done.

    Raises:
        InputError: something is missing; names it.
    """
    for model in dict.fromkeys(run.model for run in runs):
        find(model)
    for texts in dict.fromkeys(run.texts for run in runs):
        read_probes(texts)
    for run in runs:
        for plan in run.plans:
            check_sources(plan)


def carry_out(trial: Trial, show: Show = lambda run, entry: None) -> dict[str, str]:
    """Do what is left of a trial. A run that cannot go on is left where it stands, and the next is begun.

    Its sessions hear what the screen asks for, as any session does.

    Returns: what went wrong, by the run's name; empty when all is done.

    Raises:
        InputError: the trial is held by another process.
        KeyboardInterrupt: interrupted; nothing is lost.
    """
    wrong = {}
    with trial.held():
        for run in trial.runs:
            if done(run, read_chart(trial.session(run))):
                continue
            try:
                _carry_out(trial.begin(run), run, show)
            except (InputError, Failure) as error:
                wrong[run.name] = str(error)
    return wrong


def _carry_out(session: Session, run: Run, show: Show) -> None:
    with session.held():
        worker = Worker(session, lambda entry: show(run, entry))
        try:
            worker.open(worker.inbox)
        except (InputError, Failure) as error:
            worker.emit(events.Failed(message=str(error)))
            raise
        worker.close()


def work(trial: Trial) -> None:
    """``headsurgeon worker`` on a trial: carry it out while the screen looks on.

    Raises:
        InputError: the trial is held by another process.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    carry_out(trial)
