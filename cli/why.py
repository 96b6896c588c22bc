"""`why`: what a change costs when it is forced on a plan."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from .errors import NO, OK
from .kept import kept_plan
from .progress import working
from .voice import Voice


def why(
    plan: Annotated[str, typer.Argument(metavar="PLAN", help="A plan.json of `plan -o`, or - for stdin.")],
    changes: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...", help="Fields of the request.")],
    *,
    voice: Voice,
) -> int:
    """Force a change on a plan: what it costs and why.

    Names the time terms that grow and the limit that binds.
    """
    from ..inputs import InputError
    from ..inputs.origin import placed
    from ..plans import as_json as json_text
    from ..plans.settings import parsed, settings_in
    from .answers_text import why_text
    from .words import seconds

    told = [one for text in changes for one in settings_in(text)]
    settings = [parsed(one, "KEY=VALUE") for one in told]
    given = kept_plan(plan, voice)
    from ..solver import why as forced  # after the input: bad input is told without loading the solver

    with working("searching", not (voice.quiet or voice.as_json)):
        try:
            found = forced(given, {field: value for field, value, _ in settings})
        except InputError as error:
            raise placed(error, {field: origin for field, _, origin in settings}) from None
    if abs(found.planned_step_seconds - given.time.step_seconds) > 1e-9:
        voice.warn(
            f"the plan holds {seconds(given.time.step_seconds)} a step, this cost model says "
            f"{seconds(found.planned_step_seconds)}",
            "it was written by another release, or edited: plan again",
        )
    if voice.as_json:
        voice.data(json_text(found))
    else:
        voice.data(why_text(found, "the plan already is the best one with it"))
        if found.forced is not None and not found.held:
            texts = [one.partition("=")[2].strip() for one in told]
            each = zip(settings, texts, strict=True)
            words = " ".join(f"--set {shlex.quote(f'{field}={text}')}" for (field, _, _), text in each)
            voice.hint(f"plan with it: shardwise plan REQUEST {words}")
    return OK if found.forced is not None else NO
