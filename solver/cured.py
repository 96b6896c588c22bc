"""A cure: changes made together, solved as their asker will paste them."""

from __future__ import annotations

from typing import Any

from ..inputs import InputError
from ..plans import Cure, Request
from .answering import Asking
from .cure_words import text_of, value_now, value_to_set
from .pasted import answer, fits, pasted

Change = tuple[str, Any, str]
"""(dotted field, value to try, what it means)."""


def cured(request: Request, asking: Asking, *changes: Change, new_gpus: int = 0) -> Cure | None:
    """The cure that `changes` make together, or None where they do not.

    What a freed field takes is that of the best plan; what is offered is then solved as it will be pasted.
    """
    to = values_to_set(request, asking, changes)
    setting = ",".join(f"{field}={value}" for (field, _, _), value in zip(changes, to, strict=False))
    found = pasted(setting, asking) if to else None
    if found is None:
        return None
    return Cure(
        change=" and ".join(words for _, _, words in changes),
        set=setting,
        from_="; ".join(value_now(request, field) for field, _, _ in changes),
        to="; ".join(to),
        new_gpus=new_gpus,
        proved=found.status == "optimal",
        verdict="risky" if "risky" in (found.memory.verdict, found.memory.host_verdict) else "fits",
        strategy=found.strategy,
        resulting_step_seconds=found.time.step_seconds,
    )


def values_to_set(request: Request, asking: Asking, changes: tuple[Change, ...]) -> list[str]:
    """What to write for each change, of a freed one what the fastest plan takes; nothing where none tells."""
    if all(value is not None for _, value, _ in changes):
        return [text_of(value) for _, value, _ in changes]
    fastest = {"objective.minimize": "step_seconds"}
    try:
        free = request.changed(fastest | {field: value for field, value, _ in changes})
    except InputError:
        return []
    found = answer(free, asking)
    return [value_to_set(request, field, value, found) for field, value, _ in changes] if found else []


def fits_with(request: Request, changes: dict[str, Any], asking: Asking) -> bool:
    """Whether some plan is known to keep all limits of `request` once its `changes`, by field, are made."""
    try:
        return fits(request.changed(changes), asking)
    except InputError:
        return False
