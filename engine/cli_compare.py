"""Commands on records alone, without a model: verify and compare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from engine.cli import Json, app
from engine.errors import InputError

Folder = Annotated[Path, typer.Argument(help="a session's or a trial's folder", metavar="SESSION|TRIAL")]


@app.command()
def verify(session: Folder, as_json: Json = False) -> None:
    """Compute a record's figures anew where that needs no model, and say which hold; exit code 1 if one does not."""
    from engine.session import is_trial
    from engine.trial import recorded
    from engine.verify import verify as replay
    from engine.verify import verify_json, verify_text

    checked = [(opened, replay(opened)) for opened in recorded(session)]
    holds = all(claim.holds is not False for _, claims in checked for claim in claims)
    if as_json:
        told = [verify_json(opened, claims) for opened, claims in checked]
        whole = {"trial": session.resolve().name, "holds": holds, "sessions": told}
        typer.echo(json.dumps(whole if is_trial(session) else told[0]))
    else:
        typer.echo("\n\n".join(verify_text(opened, claims) for opened, claims in checked))
    if not holds:
        raise typer.Exit(1)


@app.command()
def compare(
    sessions: Annotated[
        list[Path], typer.Argument(help="two sessions' folders or more, or a trial's", metavar="SESSION|TRIAL...")
    ],
    to: Annotated[Path | None, typer.Option(help="write it to a file, .md or .csv")] = None,
    all_passes: Annotated[bool, typer.Option("--all-passes", help="every pass, not only the last that stands")] = False,
    as_json: Json = False,
) -> None:
    """Show sessions side by side: settings, woken and working heads, perplexities, drift."""
    from engine.compare import compare as side_by_side
    from engine.compare import compare_csv, compare_json, compare_markdown, compare_text
    from engine.files import write_text
    from engine.record import load
    from engine.trial import recorded

    opened = [session for folder in sessions for session in recorded(folder)]
    if len(opened) < 2:
        raise InputError("one session alone cannot be compared; name two or more, or see `headsurgeon report`")
    writers = {".md": compare_markdown, ".csv": compare_csv}
    if to is not None and to.suffix not in writers:
        raise InputError(f"{to} is neither .md nor .csv; name a file that ends so with --to")
    if to is not None and not to.parent.is_dir():
        raise InputError(f"folder not found: {to.parent}; make it, or name another file with --to")
    found = side_by_side([load(session) for session in opened], all_passes)
    if to is not None:
        write_text(to, writers[to.suffix](found))
        typer.echo(to)
    else:
        typer.echo(json.dumps(compare_json(found)) if as_json else compare_text(found))
