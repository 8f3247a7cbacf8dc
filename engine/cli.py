"""The command line. Heavy modules are imported by the command that needs them, so help comes at once."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from engine.__main__ import config_path, config_text, open_app
from engine.errors import InputError

app = typer.Typer(
    name="headsurgeon",
    help="Guided surgery on the attention heads of language models.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Device = Annotated[str, typer.Option(help="auto, cpu or cuda:N")]
Dtype = Annotated[str, typer.Option(help="auto, bfloat16, float16 or float32; auto is the checkpoint's own")]
Texts = Annotated[str, typer.Option(help="file of probe texts: one a line, or JSONL with `text`")]
Seed = Annotated[int, typer.Option(help="seed of every random draw")]
Targets = Annotated[str, typer.Option(help="which heads, e.g. 'sick & band' or 'L5-22 x H9-15'")]
SessionFolder = Annotated[Path, typer.Argument(help="a session's folder")]
Root = Annotated[Path | None, typer.Option("--sessions", help="where sessions go [HEADSURGEON_SESSIONS, ./sessions]")]
Json = Annotated[bool, typer.Option("--json", help="print one JSON object")]
Parts = Annotated[
    str | None, typer.Option(help="which of q, k, v are trained, e.g. qk; with s the sink logit of gpt-oss too")
]
Treated = Annotated[
    str | None,
    typer.Option(
        "--treatment",
        help="reinitialise (the method), sink_logit (a learned one per target), placeholder (a trained token before "
        "every text), prune (output columns zeroed, no training) or nothing",
    ),
]
WholeGroups = Annotated[
    bool, typer.Option("--whole-groups", help="where heads share K and V, take along those that share with a target")
]
Checkpointing = Annotated[
    bool, typer.Option("--checkpointing", help="compute activations twice instead of keeping them")
]
To = Annotated[Path, typer.Option("--to", help="folder to write into")]


@app.callback(invoke_without_command=True)
def no_command(
    context: typer.Context,
    demo: Annotated[bool, typer.Option("--demo", help="open the app on the demo patient")] = False,
    session: Annotated[Path | None, typer.Option("--session", help="open the app on this session")] = None,
    root: Root = None,
    version: Annotated[bool, typer.Option("--version", help="print the version and leave")] = False,
) -> None:
    """Without a command: open the app."""
    if version:
        from engine import __version__

        typer.echo(__version__)
    elif context.invoked_subcommand is None:
        raise typer.Exit(open_app(demo=demo, session=session, root=root))


@app.command(name="open")
def open_(session: SessionFolder) -> None:
    """Open the app on a session: watch it, go on with it, or replay it."""
    raise typer.Exit(open_app(session=session))


@app.command()
def diagnose(
    model: Annotated[str, typer.Argument(help="`demo`, a local folder, a .gguf file or a hub name")],
    texts: Texts = "",
    patch: Annotated[
        Path | None, typer.Option("--patch", help="a session's folder, or a patch file: the model with it on")
    ] = None,
    device: Device = "auto",
    dtype: Dtype = "auto",
    as_json: Json = False,
) -> None:
    """Measure every head: grid, counts, band, sensitivity."""
    from engine.heads import HeadMap
    from engine.nn.attention import measure
    from engine.nn.patch import put_on
    from engine.nn.worker import load_with
    from engine.probes import read_probes
    from engine.show import diagnosis_json, diagnosis_text

    probes = read_probes(texts)
    patient, patches = load_with(model, patch, device, dtype)
    for made in patches:
        put_on(patient, made)
    for found in measure(patient, probes):
        if isinstance(found, HeadMap):
            typer.echo(
                json.dumps(diagnosis_json(patient.loaded(), found))
                if as_json
                else diagnosis_text(patient.loaded(), found)
            )


@app.command()
def preflight(
    model: Annotated[str, typer.Argument(help="`demo`, a local folder, a .gguf file or a hub name")],
    targets: Targets,
    from_session: Annotated[Path | None, typer.Option("--from", help="session with the diagnosis to use")] = None,
    dtype: Dtype = "auto",
    length: Annotated[int | None, typer.Option(help="tokens per sample")] = None,
    micro_batch: Annotated[int | None, typer.Option(help="samples at once")] = None,
    checkpointing: Checkpointing = False,
    parts: Parts = None,
    whole_groups: WholeGroups = False,
    treatment: Treated = None,
    as_json: Json = False,
) -> None:
    """Tell what a pass would take, from config.json alone."""
    from engine import demo
    from engine.anatomy import anatomy_of, context_of, read_config, stored_dtype, untrainable
    from engine.anatomy import whole_groups as whole_groups_of
    from engine.plan import make_plan, over
    from engine.preflight import free_ram
    from engine.preflight import preflight as estimate
    from engine.show import preflight_json, preflight_text
    from engine.targets import Model, needs_head_map, resolve

    folder = config_folder(model)
    config = read_config(folder)
    anatomy = anatomy_of(config, model)
    if untrainable(config):
        raise InputError(f"{model} can be diagnosed, not operated on: {untrainable(config)}")
    if needs_head_map(targets) and from_session is None:
        raise InputError(f"the targets {targets!r} name classes: give a diagnosed session with --from SESSION")
    head_map = _head_map(from_session) if from_session else None
    heads = resolve(targets, Model(anatomy.n_layers, anatomy.n_heads, head_map))
    given = {"targets": targets, "length": length, "micro_batch": micro_batch, "checkpointing": checkpointing}
    given |= {"parts": parts, "whole_groups": whole_groups, "treatment": treatment}
    plan = make_plan(over(demo.pass_defaults(model), {k: v for k, v in given.items() if v is not None}))
    heads = whole_groups_of(anatomy, heads, plan.touched, plan.whole_groups)
    dtype = stored_dtype(config) or "float32" if dtype == "auto" else dtype
    found = estimate(anatomy, heads, plan, dtype, context_of(folder, config))
    typer.echo(json.dumps(preflight_json(found)) if as_json else preflight_text(found, free_ram()))


def config_folder(model: str) -> Path:
    """Where a patient's config.json is; only a hub name is asked for elsewhere."""
    from engine import demo

    if model == "demo":
        return demo.FOLDER
    if Path(model).expanduser().exists():
        return Path(model).expanduser()
    from engine.nn.load import find  # only a hub name needs the libraries

    return find(model, weights=False)[0]


def _head_map(folder: Path) -> Any:
    from engine.chart import read_chart
    from engine.session import open_session

    head_map = read_chart(open_session(folder)).head_map
    if head_map is None:
        raise InputError(f"{folder} holds no diagnosis yet")
    return head_map


@app.command()
def sessions(root: Root = None, as_json: Json = False) -> None:
    """List sessions: id, patient, state, healthy heads before and after."""
    from engine.record import load, summary
    from engine.session import list_sessions, sessions_root
    from engine.show import sessions_text

    rows = []
    for session in list_sessions(sessions_root(root)):
        try:
            rows.append(summary(load(session)))
        except InputError as error:
            rows.append({"id": session.id, "state": "unreadable", "error": str(error)})
    typer.echo(json.dumps(rows) if as_json else sessions_text(rows))


@app.command()
def report(
    folders: Annotated[
        list[Path], typer.Argument(help="a session's folder, a trial's, or several", metavar="SESSION|TRIAL...")
    ],
    to: To,
) -> None:
    """Write a report of a session, or of several side by side: Markdown, HTML, LaTeX, JSON, CSV, SVG."""
    from engine.report import write_report
    from engine.report.trial import write_trial_report
    from engine.session import is_trial, open_session
    from engine.trial import open_trial, recorded

    if len(folders) == 1 and not is_trial(folders[0]):
        written = write_report(open_session(folders[0]), to)
    else:
        sessions = [session for folder in folders for session in recorded(folder)]
        questions = [open_trial(folder).question for folder in folders if is_trial(folder)]
        written = write_trial_report(sessions, to, questions)
    for path in written:
        typer.echo(path)


Source = Annotated[Path, typer.Argument(help="a session's folder, or a patch file", metavar="SESSION|PATCH")]


@app.command()
def apply(
    source: Source,
    to: To,
    model: Annotated[str | None, typer.Option(help="the stock model, where it has moved")] = None,
) -> None:
    """Write a full checkpoint with the patches of a session on it, and a model card that tells of them."""
    from engine.card import FILE, license_of
    from engine.files import write_text
    from engine.nn.load import find
    from engine.nn.patch import apply_patches

    patches, stock = _patches(source)
    folder = find(model or stock)[0]
    text = _card(source, patches, license_of(folder))
    apply_patches(patches, folder, to)
    write_text(to / FILE, text)
    typer.echo(to)


def _card(source: Path, patches: list[Any], license_: str) -> str:
    from engine.card import card, card_of_patch
    from engine.chart import read_chart
    from engine.record import build
    from engine.session import open_session

    if source.is_dir():  # by the journal, as the patches are: the record may lag behind it
        session = open_session(source)
        record = build(read_chart(session))
        record.session.id = session.id
        return card(record, license_)
    return card_of_patch(patches[0].about, license_)


@app.command()
def undo(source: Source, model_folder: Annotated[Path, typer.Argument(metavar="MODELDIR")], to: To) -> None:
    """Take the patches of a session off a checkpoint again."""
    from engine.nn.patch import undo_patches

    if not model_folder.is_dir():
        raise InputError(f"folder not found: {model_folder}")
    undo_patches(_patches(source)[0], model_folder, to)
    typer.echo(to)


def _patches(source: Path) -> tuple[list[Any], str]:
    from engine.nn.patch import load_patch
    from engine.nn.worker import session_patches
    from engine.session import open_session

    if source.is_dir():
        paths, model = session_patches(open_session(source))
        return [load_patch(path) for path in paths], model
    patch = load_patch(source)
    return [patch], str(patch.about["source"])


config = typer.Typer(help="The app's settings: theme, glyphs, mouse, keys.", no_args_is_help=True)
app.add_typer(config, name="config")


@config.command("path")
def config_path_() -> None:
    """Print where the settings' file is, or would be."""
    typer.echo(config_path())


@config.command("show")
def config_show() -> None:
    """Print all settings and keys as they are now, as TOML; a start for a file of your own."""
    typer.echo(config_text(), nl=False)


def run(arguments: list[str]) -> int:
    """Parse the arguments and carry out the command; the exit code.

    Raises:
        InputError: the input was wrong.
        KeyboardInterrupt: interrupted.
    """
    for more in (
        "engine.cli_operate",
        "engine.cli_vitals",
        "engine.cli_stream",
        "engine.cli_compare",
    ):  # their commands join the app by themselves
        import_module(more)
    try:
        code = app(arguments, prog_name="headsurgeon", standalone_mode=False)
    except typer.Abort as error:
        raise KeyboardInterrupt from error
    except Exception as error:
        # typer's own complaints about options: it keeps their class in a private module
        if not (hasattr(error, "show") and hasattr(error, "exit_code")):
            raise
        error.show()
        code = error.exit_code
    return code if isinstance(code, int) else 0
