"""`emit`: the files that start a plan."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from . import complete, options
from .errors import NO, OK
from .kept import kept_plan
from .narrow import searched_for
from .voice import Voice

if TYPE_CHECKING:
    from ..plans import Plan
    from .cards import Emitted


TARGETS = "deepspeed, fsdp, accelerate, megatron, transformers, torchtitan or slurm."


def emit(
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="A plan.json of `plan -o`, or - for stdin.")],
    target: Annotated[
        str,
        typer.Option("--to", metavar="TARGET", help=TARGETS, autocompletion=complete.targets),
    ],
    output: options.Output = None,
    small: Annotated[
        bool, typer.Option("--baseline", help="The small run that checks how the plan scales.")
    ] = False,
    force: options.Force = False,
    *,
    voice: Voice,
) -> int:
    """Write the files that start a plan with another tool."""
    from ..plans import as_json as json_text
    from .output import as_text, refuse_taken, write_all

    if output is not None:
        refuse_taken(output, force=force)
    made = _files(kept_plan(plan, voice), target, small)
    if made.refused:
        return refused(made, voice)
    if output and output != "-":
        written = [str(path) for path in write_all(output, made.files, force=force)]
        made = made.model_copy(update={"written": tuple(written)})
    if voice.as_json:
        voice.data(json_text(made))
    elif not made.written:
        voice.data(as_text(made.files))
    for path in made.written:
        voice.note(f"wrote {path}")
    return OK


def _files(plan: Plan, target: str, small: bool) -> Emitted:
    """The files of the plan, or of the small run before it."""
    if not small:
        return launch_files(plan, target)
    from ..launch.baseline import baseline, beside

    less = baseline(plan)
    return launch_files(less, target, beside(plan, less))


def launch_files(plan: Plan, target: str, beside: Mapping[str, str] | None = None) -> Emitted:
    """The files of `target` for `plan`, or why it cannot have them with the best plan it could."""
    from ..launch import Refused
    from ..launch import emit as write
    from .cards import Emitted, Refusal

    try:
        return Emitted(target=target, files=write(plan, target, beside))
    except Refused as error:
        why = Refusal(field=error.field, value=error.value, reason=error.reason, backend=error.backend)
        best = _best_of(plan, target)
        return Emitted(target=target, refused=why, best=best)


def _best_of(plan: Plan, target: str) -> Plan | None:
    """The best plan the target can write for the request of `plan`; None where it has none."""
    from ..plans import Plan

    free = plan.request.changed({"choose.backend": None}, origin=f"--to {target}")
    outcome = searched_for(free, target, f"--to {target}")
    writable = isinstance(outcome, Plan) and target in outcome.writable_by
    return outcome if writable and isinstance(outcome, Plan) else None


def refused(made: Emitted, voice: Voice) -> int:
    """Tells that a target cannot write the plan, why, and what it could write."""
    from ..plans import as_json
    from .tables import items, paragraph
    from .words import knobs, seconds

    why, best = made.refused, made.best
    if voice.as_json or why is None:
        voice.data(as_json(made))
        return NO
    voice.data(paragraph(f"{made.target} cannot write this plan", "  × ", "    "))
    voice.data(paragraph(f"{why.field} is {why.value}: {why.reason}", "  ╰─▶ ", "      "))
    if best is not None:
        voice.data(f"  the best {best.strategy.backend} plan takes {seconds(best.time.step_seconds)} a step:")
        voice.data(items(knobs(best.strategy), "    "))
        voice.hint(
            f"shardwise plan with --set backend={best.strategy.backend} --emit {made.target} writes it"
        )
    return NO
