"""Where the program starts, and the one place that turns what went wrong into an exit code."""

from __future__ import annotations

import sys
from pathlib import Path

from engine.errors import Failure, InputError
from engine.printable import printable


def main() -> None:
    """Run ``headsurgeon`` with the arguments of the command line; leaves by SystemExit.

    Exit codes: 0 done, 2 the input was wrong and 1 it failed (one sentence on stderr), 130 interrupted;
    anything unforeseen shows its traceback and gives 1.
    """
    try:
        code = run(sys.argv[1:])
    except InputError as error:
        sys.stderr.write(f"headsurgeon: {printable(str(error))}\n")
        code = 2
    except Failure as error:
        sys.stderr.write(f"headsurgeon: {printable(str(error))}\n")
        code = 1
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """The app at once where nothing else is asked for, else the command line's parser.

    The parser takes longer to import than the first paint may take.
    """
    if arguments in ([], ["--demo"]):
        return open_app(demo=bool(arguments))
    match arguments:
        case ["open" | "--session", folder] if not folder.startswith("-"):
            return open_app(session=Path(folder))
    from engine.cli import run as parse_and_run

    return parse_and_run(arguments)


def open_app(*, demo: bool = False, session: Path | None = None, root: Path | None = None) -> int:
    """Open the app.

    Raises:
        InputError: there is no terminal, or no such session or trial.
    """
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):  # the app draws on stderr
        raise InputError("the app needs a terminal; without one use diagnose, operate, report … (see --help)")
    if session is not None:
        from engine.session import is_trial, open_session

        session = session.resolve() if is_trial(session) else open_session(session).folder
    from tui.app import run as run_app

    return run_app(demo=demo, session=session, root=root)


def config_path() -> Path:
    """Where the app's settings are, or would be."""
    from tui import config

    return config.config_path()


def config_text() -> str:
    """The app's settings and keys as they are now, as TOML.

    Raises:
        InputError: the settings' file is wrong.
    """
    from tui import config

    return config.shown(config.read_settings())


if __name__ == "__main__":
    main()
