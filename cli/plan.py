"""`plan`: the fastest layout that fits, and the proof."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from . import complete, options
from .errors import INTERRUPTED, NO, OK, STOPPED
from .narrow import searched_for
from .progress import stoppable, working
from .voice import Voice

if TYPE_CHECKING:
    from pathlib import Path

    from ..plans import Asked, Outcome, Plan, Request


def plan(
    source: options.Source,
    *,
    job: options.Job,
    size: options.Size,
    time_limit: options.TimeLimit = None,
    top: Annotated[str, typer.Option("--top", metavar="N", help="Other layouts shown.")] = "3",
    emit: Annotated[
        str | None,
        typer.Option(
            "--emit",
            metavar="TARGET",
            help="Also write launch files of this target.",
            autocompletion=complete.targets,
        ),
    ] = None,
    output: options.Output = None,
    force: options.Force = False,
    strict: options.Strict = False,
    voice: Voice,
) -> int:
    """Find the fastest layout that fits, with proof.

    Says why when none does, and what would cure it. Ctrl-C shows the best so far.
    """
    from ..plans import NoPlan, OutOfTime, Plan, read_asked
    from .output import refuse_taken
    from .parsed import seconds_of, whole_of

    shown = whole_of(top, "--top", least=0)
    limit = seconds_of(time_limit, "--time-limit")
    if output is not None:
        refuse_taken(output, force=force)
    asked = read_asked(source, job.flags() | size.flags(), job.settings)
    request = asked.request()
    with stoppable() as watch, working("searching", not (voice.quiet or voice.as_json), watch):
        outcome = _searched(request, asked, limit, emit, voice)
        outcome = outcome.whole() if isinstance(outcome, Plan) else outcome
    if isinstance(outcome, NoPlan | OutOfTime):
        code = _without_plan(outcome, request, voice)
    else:
        code = _with_plan(outcome, voice, shown, emit, output, force, strict)
    return INTERRUPTED if watch.stopped else code


def _searched(
    request: Request, asked: Asked, limit: float | None, target: str | None, voice: Voice
) -> Outcome:
    """The outcome of the search; imported here so that bad input is told without loading the solver."""
    from ..launch import backends_of, targets, writable_by
    from ..models.strategy import BACKENDS

    if target is None:
        from ..solver import plan as search
        from ..solver.answering import Asking
        from ..solver.tables import Tables

        again = Asking(asked.request)
        return search(request, time_limit=limit, writers=writable_by, tables=Tables(), asking=again)
    _known_target(target, targets())
    written = backends_of(target)
    if request.choose.backend is None and len(written) < len(BACKENDS):
        voice.note(f"searching layouts of {' and '.join(written)} only, for --emit {target}")
    return searched_for(request, target, f"--emit {target}", limit, asked.request)


def _known_target(target: str, known: tuple[str, ...]) -> None:
    from ..inputs import InputError, nearest

    if target not in known:
        legal = nearest(target, known)
        raise InputError("target", target, "--emit", "is not a known target", legal=legal)


def _without_plan(outcome: object, request: Request, voice: Voice) -> int:
    """Says why there is no plan; 1 when that is proved, 3 when the search was stopped."""
    from ..plans import NoPlan, OutOfTime, as_json
    from .no_plan_text import cure_hints, no_plan_text, out_of_time_text

    if voice.as_json:
        voice.data(as_json(outcome))
    elif isinstance(outcome, NoPlan):
        voice.data(no_plan_text(outcome, request))
        for hint in cure_hints(outcome):
            voice.hint(hint)
    elif isinstance(outcome, OutOfTime):
        voice.data(out_of_time_text(outcome, request))
        voice.hint("give the search more with --time-limit, or narrow it with --set")
    return NO if isinstance(outcome, NoPlan) else STOPPED


def _with_plan(
    plan: Plan, voice: Voice, top: int, emit: str | None, output: str | None, force: bool, strict: bool
) -> int:
    """Shows and writes a plan; launch files are made before anything is printed or written."""
    from ..plans import as_json
    from .output import as_text

    files: dict[str, str] = {}
    if emit:
        from .emit import launch_files, refused

        made = launch_files(plan, emit)
        if made.refused:
            return refused(made, voice)
        files = made.files
    text = as_json(plan)
    written = _written(output, text, files, emit, force) if output and output != "-" else []
    if voice.as_json or output == "-":
        voice.data(text)
    else:
        from .plan_text import plan_text

        voice.data(plan_text(plan, top, voice.verbose))
    for path in written:
        voice.note(f"wrote {path}")
    if files and not voice.as_json and output is None:
        voice.data("\n" + as_text(files))
    return _closing(plan, voice, emit, output, strict)


def _written(
    output: str, text: str, files: dict[str, str], emit: str | None, force: bool
) -> Sequence[str | Path]:
    """Writes the plan alone where `output` is named as JSON, else a folder; the paths written."""
    from .output import write_all, write_file

    if emit or not output.lower().endswith(".json"):
        return write_all(output, {"plan.json": text, **files}, force=force)
    write_file(output, text, force=force)
    return [output]


def _closing(plan: Plan, voice: Voice, emit: str | None, output: str | None, strict: bool) -> int:
    """Warnings, offers and the next command on standard error; the exit code."""
    from .words import risk, seconds

    voice.warnings(plan.warnings)
    if not voice.as_json:
        for offer in plan.offers:
            gain = f"step {seconds(offer.resulting_step_seconds)}, {offer.gain_percent:.1f} % less"
            voice.hint(f"--set {shlex.quote(offer.set)} would pay: {gain}; {offer.caveat}")
    if not emit:
        _next(plan, voice, output)
    risky = "risky" in (plan.memory.verdict, plan.memory.host_verdict)
    if risky and not voice.as_json and not any(w.code.startswith("risky") for w in plan.warnings):
        voice.warn(risk(plan.memory), "memory above 92 % is known to fail later; --strict exits 1 for it")
    return NO if risky and strict else OK


def _next(plan: Plan, voice: Voice, output: str | None) -> None:
    """The command that writes launch files, or what to change so that one can."""
    if not plan.writable_by:
        backend = plan.strategy.backend
        voice.hint(f"no launch target writes a {backend} plan like this: plan again with --emit TARGET")
        return
    where = output if output and output != "-" else "plan.json"
    where = where if where.endswith(".json") else f"{where}/plan.json"
    where = shlex.quote(where)
    keep = "" if output and output != "-" else f"keep it with -o {where}, then "
    command = f"shardwise emit {where} --to {plan.writable_by[0]} -o run"
    voice.hint(f"{keep}write launch files: {command}")
