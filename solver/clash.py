"""Why nothing fits: a smallest set of limits that clash, told in sentences, with cures."""

from __future__ import annotations

from ..plans import Conflict, NoPlan, Request
from .answer import versions
from .answering import Asking
from .cures import cures
from .feasible import feasible
from .members import members, without
from .outcome import Without
from .reasons import reasons
from .software import refusals


def no_plan(asked: Request, found: Without, asking: Asking) -> NoPlan:
    """The answer to what was `asked` when every row was excluded without a plan."""
    request, tally = found.request, found.outcome.tally
    conflict = clash(request)
    return NoPlan(
        inputs_hash=asked.inputs_hash(),
        versions=versions(),
        reasons=reasons(request, conflict),
        conflict=conflict or _refused(request),
        cures=cures(asked, conflict, asking),
        rows_considered=tally.rows,
        rows_excluded_by=tally.excluded(),
    )


def clash(request: Request) -> tuple[Conflict, ...]:
    """Limits of an infeasible `request` that clash: all of them together leave no plan, any fewer do.

    A deletion filter: each member in turn is left out for good where no plan is known without it. What stays
    is gone through again until a plan is known without each single member. Empty where no limit is to blame:
    no backend runs the model or the job at all.
    """
    everything = members(request)
    kept = everything
    before: list[Conflict] = []
    while kept != before:
        before = kept
        for member in list(kept):
            fewer = [other for other in kept if other != member]
            if not any_plan(request, [other for other in everything if other not in fewer]):
                kept = fewer
    return tuple(kept)


def any_plan(request: Request, dropped: list[Conflict]) -> bool | None:
    """Whether some plan exists once the `dropped` limits are gone; None where that is not settled."""
    found = False
    for free in without(request, dropped):
        fits = feasible(free)
        if fits:
            return True
        found |= fits is None
    return None if found else False


def _refused(request: Request) -> tuple[Conflict, ...]:
    """What no backend runs, where nothing else is to blame: the model or a field of the job."""
    fields = dict.fromkeys(field for field, _ in refusals(request)) or {"model": None}
    values = {f"training.{name}": str(value) for name, value in request.training}
    values["model"] = request.model.name
    return tuple(
        Conflict(limit=field, value=values[field], origin=request.origin(field))
        for field in fields
        if field in values
    )
