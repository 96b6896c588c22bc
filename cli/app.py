"""The commands, put together. Importing this loads neither the solver nor pydantic: `--help` is instant."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module

import typer
from typer.main import get_command

from .errors import OK, guarded
from .options import spelled

COMMANDS = (
    "plan", "check", "compare", "why", "curve", "explain", "ledger", "emit", "lint", "calibrate", "show",
    "list",
)  # fmt: skip
"""Each a module of its own, loaded when it is asked for."""


def _command(name: str) -> Callable[..., int]:
    """The function of a command, called as its module is; `list_` beside Python's own."""
    found: Callable[..., int] = getattr(
        import_module(f".{name}", __package__), "list_" if name == "list" else name
    )
    return found


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"shardwise {version('shardwise')}")
        raise typer.Exit(OK)


def _root(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Decide how to train a transformer on the GPUs you have."""


def make_app(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """The app with the commands `names`; typer builds the flags of each."""
    app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=True)
    app.callback()(_root)
    for name in names:
        app.command(name)(spelled(_command(name)))
    return app


def run(words: Sequence[str]) -> int:
    """Runs one command line and returns its exit code; nothing is raised but SystemExit of the shell."""
    command = get_command(make_app(words[:1] if words and words[0] in COMMANDS else COMMANDS))

    def body() -> int:
        code = command.main(args=list(words), prog_name="shardwise", standalone_mode=False)
        return code if isinstance(code, int) else OK

    return guarded(body, words, list(COMMANDS))
