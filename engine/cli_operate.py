"""Commands that operate: one pass, a plan file, a protocol of several arms; and those that go on with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from engine.cli import (
    Checkpointing,
    Device,
    Dtype,
    Parts,
    Root,
    SessionFolder,
    Texts,
    Treated,
    WholeGroups,
    app,
    config_folder,
)
from engine.errors import Failure, InputError

if TYPE_CHECKING:
    from engine.journal import Entry
    from engine.plan import Plan
    from engine.protocol import Protocol, Run
    from engine.trial import Trial


@app.command()
def operate(
    model: Annotated[
        str, typer.Argument(help="`demo`, a folder, a .gguf file or a hub name; may be left out if the plan names it")
    ] = "",
    targets: Annotated[str | None, typer.Option(help="which heads, e.g. 'sick & band'")] = None,
    plan: Annotated[
        str | None, typer.Option(help="TOML file with passes or arms, or a built-in one (see `headsurgeon plans`)")
    ] = None,
    corpus: Annotated[
        list[str] | None,
        typer.Option(
            help="file, folder or hub name, SOURCE@3 to read it three times; NAME=SOURCE for one that the plan names; "
            "repeatable"
        ),
    ] = None,
    strict: Annotated[bool, typer.Option("--strict", help="stop at a broken line of the corpus")] = False,
    steps: Annotated[int | None, typer.Option(help="optimizer steps")] = None,
    epochs: Annotated[int | None, typer.Option(help="times through the corpus, where no steps are given")] = None,
    lr: Annotated[float | None, typer.Option(help="peak learning rate")] = None,
    length: Annotated[int | None, typer.Option(help="tokens per sample")] = None,
    micro_batch: Annotated[int | None, typer.Option(help="samples at once")] = None,
    accumulate: Annotated[int | None, typer.Option(help="micro-batches per step")] = None,
    check_every: Annotated[int | None, typer.Option(help="steps between checks")] = None,
    patience: Annotated[int | None, typer.Option(help="checks without a better one until it stops; 0: never")] = None,
    init: Annotated[str | None, typer.Option(help="xavier_normal or xavier_uniform")] = None,
    parts: Parts = None,
    whole_groups: WholeGroups = False,
    treatment: Treated = None,
    no_reinit: Annotated[bool, typer.Option("--no-reinit", help="the control: train the slices as they are")] = False,
    checkpointing: Checkpointing = False,
    watch: Annotated[list[str] | None, typer.Option(help="another text whose perplexity is told; repeatable")] = None,
    no_generate: Annotated[
        bool, typer.Option("--no-generate", help="let it write no prompts before and after")
    ] = False,
    seed: Annotated[
        int | None, typer.Option(help="seed of every random draw; the plan's own where it names any, else 42")
    ] = None,
    texts: Texts = "",
    device: Device = "auto",
    dtype: Dtype = "auto",
    root: Root = None,
) -> None:
    """Diagnose, operate, diagnose again; leaves a session folder, or one with a session for each arm of a plan."""
    from engine.protocol import Run, find_protocol, read_protocol, runs_of
    from engine.trial import check_targets

    given: dict[str, Any] = {
        "strict": strict or None,
        "steps": steps,
        "epochs": epochs,
        "lr": lr,
        "length": length,
        "micro_batch": micro_batch,
        "accumulate": accumulate,
        "check_every": check_every,
        "patience": patience,
        "init": init,
        "parts": parts,
        "whole_groups": whole_groups or None,
        "treatment": treatment,
        "reinit": False if no_reinit else None,
        "checkpointing": checkpointing or None,
        "watch": watch or None,
        "generate": False if no_generate else None,
        "seed": seed,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if epochs is not None and steps is not None:
        raise InputError("give --steps or --epochs, not both")
    if (targets is None) == (plan is None):
        raise InputError("give either --targets for one pass or --plan for a file or a built-in plan")
    if targets is not None:
        if not model:
            raise InputError("name the patient: `demo`, a local folder, a .gguf file or a hub name")
        plans = [_one_pass(model, targets, corpus, given)]
        _operate(Run("", "", 42 if seed is None else seed, model, dtype, texts, plans), device, root)
        return
    protocol = read_protocol(find_protocol(str(plan)), model)
    runs = runs_of(
        protocol, model, n_heads=_n_heads(protocol, model), given=given, corpora=corpus, dtype=dtype, texts=texts
    )  # fmt: skip
    check_targets(runs, {name: _shape(name) for name in dict.fromkeys(run.model for run in runs)})
    if protocol.single:
        _operate(runs[0], device, root)
    else:
        _carry_out(_begin(protocol, runs, device, root))


def _one_pass(model: str, targets: str, corpus: list[str] | None, given: dict[str, Any]) -> Plan:
    from engine import demo
    from engine.plan import make_plan, over

    sources = {"corpus": corpus} if corpus else {}
    return make_plan(over(demo.pass_defaults(model), {"targets": targets, **sources, **given}), "the options")


def _n_heads(protocol: Protocol, model: str) -> int:
    """Of the patient, where an arm stands for each column of heads."""
    if not any(arm.each_column for arm in protocol.arms):
        return 0
    return _shape(model or protocol.model)[1]


def _shape(model: str) -> tuple[int, int]:
    """Layers and heads of a patient, from its config.json alone."""
    from engine.anatomy import anatomy_of, read_config

    if not model:
        raise InputError("the plan names no patient; name it: headsurgeon operate MODEL --plan PLAN")
    anatomy = anatomy_of(read_config(config_folder(model)), model)
    return anatomy.n_layers, anatomy.n_heads


def _operate(run: Run, device: str, root: Path | None) -> None:
    from engine.nn.trials import check_runs
    from engine.nn.worker import Worker
    from engine.session import create_session, sessions_root
    from engine.show import entry_line
    from engine.trial import made_whole, request

    check_runs([run])
    session = create_session(sessions_root(root), request(made_whole(run), device))
    with session.held():
        worker = Worker(session, _printer(entry_line))
        try:
            worker.open()
        except InputError:
            if not worker.chart.passes:  # nothing was begun, so nothing half-done stays
                session.discard()
            raise
        except KeyboardInterrupt:
            typer.echo(f"interrupted; go on with: headsurgeon resume {session.folder}", err=True)
            raise
        worker.close()
    _tell(session.folder)


def _begin(protocol: Protocol, runs: list[Run], device: str, root: Path | None) -> Trial:
    from engine.nn.trials import check_runs
    from engine.session import sessions_root
    from engine.trial import create_trial, made_whole

    check_runs(runs)
    return create_trial(sessions_root(root), protocol, [made_whole(run) for run in runs], device)


def _carry_out(trial: Trial) -> None:
    """Run what is left of a trial, and tell what came of its arms.

    Raises:
        Failure: an arm could not be carried out.
    """
    from engine.nn.trials import carry_out
    from engine.printable import printable
    from engine.record import load
    from engine.show import entry_line
    from engine.show_arms import arms_text

    def show(run: Run, entry: Entry) -> None:
        text = entry_line(entry)
        if text:
            typer.echo(f"{run.name}: {text}", err=True)

    try:
        wrong = carry_out(trial, show)
    except KeyboardInterrupt:
        typer.echo(f"interrupted; go on with: headsurgeon resume {trial.folder}", err=True)
        raise
    records = [load(session) for _, session in trial.begun() if session.record.exists()]
    typer.echo(f"{printable(trial.title)}: {trial.folder}")
    if records:
        typer.echo(f"\n{arms_text(records)}")
    if wrong:
        name, message = next(iter(wrong.items()))
        raise Failure(
            f"{len(wrong)} of {len(trial.runs)} arms did not come to their end; {name}: {message}; "
            f"then: headsurgeon resume {trial.folder}"
        )


def _printer(line: Any) -> Any:
    def show(entry: Entry) -> None:
        text = line(entry)
        if text:
            typer.echo(text, err=True)

    return show


def _tell(folder: Path) -> None:
    from engine.record import load
    from engine.session import Session
    from engine.show import record_text

    typer.echo(record_text(load(Session(folder)), folder))


@app.command()
def resume(
    session: SessionFolder,
    micro_batch: Annotated[
        int | None, typer.Option(help="samples at once from now on, as many a step as before")
    ] = None,
    checkpointing: Checkpointing = False,
) -> None:
    """Go on with a session, or with a protocol's arms, from the last saved state."""
    from engine.nn.worker import carry_out
    from engine.session import is_trial, open_session
    from engine.show import entry_line
    from engine.trial import open_trial

    values: dict[str, Any] = {} if micro_batch is None else {"micro_batch": micro_batch}
    if checkpointing:
        values["checkpointing"] = True
    if is_trial(session):
        if values:
            raise InputError(f"{session} holds several sessions; set options where one stands: resume {session}/ARM")
        _carry_out(open_trial(session))
        return
    opened = open_session(session)
    carry_out(opened, _printer(entry_line), values)
    _tell(opened.folder)


@app.command()
def plans(
    name: Annotated[str, typer.Argument(help="print this one, as a start for a file of your own")] = "",
) -> None:
    """List the built-in plans: the paper's experiments and the questions it leaves open."""
    from engine.protocol import BUILT_IN, find_protocol, read_protocol
    from engine.show_plans import plans_text

    if name:
        typer.echo(find_protocol(name).read_text("utf-8"), nl=False)
    else:
        typer.echo(plans_text([read_protocol(find_protocol(name)) for name in BUILT_IN]))


@app.command(hidden=True)
def worker(session: SessionFolder) -> None:
    """Own a session's patient and serve the screen, or carry a protocol out (started by the app)."""
    from engine.nn.trials import work as work_trial
    from engine.nn.worker import work
    from engine.session import is_trial, open_session
    from engine.trial import open_trial

    if is_trial(session):
        work_trial(open_trial(session))
    else:
        work(open_session(session))
