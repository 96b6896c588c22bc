"""`emit`: the files that start a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from . import options
from .errors import NO, OK
from .voice import Voice

if TYPE_CHECKING:
    from ..plans import Plan


def emit(
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="A plan.json of `plan -o`, or - for stdin.")],
    target: Annotated[str, typer.Option("--to", metavar="TARGET", help="deepspeed, fsdp, ...")],
    output: options.Output = None,
    force: options.Force = False,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    no_color: options.NoColor = False,
) -> int:
    """Write the files that start a plan with another tool."""
    from ..plans import as_json as json_text
    from ..plans import read_plan
    from .output import as_text, refuse_taken, write_all

    voice = Voice(as_json, quiet, verbose, no_color)
    if output is not None:
        refuse_taken(output, force=force)
    files = launch_files(read_plan(plan), target)
    if isinstance(files, str):
        return refused(files, target, voice)
    written: list[str] = []
    if output and output != "-":
        written = [str(path) for path in write_all(output, files, force=force)]
    if voice.as_json:
        voice.data(json_text({"target": target, "files": files, "written": written}))
    elif not written:
        voice.data(as_text(files))
    for path in written:
        voice.note(f"wrote {path}")
    return OK


def launch_files(plan: Plan, target: str) -> dict[str, str] | str:
    """File name to text of `target` for `plan`, or the sentence why it cannot be written."""
    from ..launch import emit as write

    made = write(plan, target)
    return dict(made) if isinstance(made, dict) else str(getattr(made, "reason", made))


def refused(reason: str, target: str, voice: Voice) -> int:
    """Tells that `target` cannot run the plan, and why."""
    from ..plans import as_json

    if voice.as_json:
        voice.data(as_json({"target": target, "files": {}, "refused": reason}))
    else:
        voice.data(f"{target} cannot run this plan: {reason}")
    return NO
