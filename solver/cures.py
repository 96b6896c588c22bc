"""Cures: small changes after which a plan exists, each found by solving again."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice
from math import log2

from ..models.divisors import divisors_of, legal_degrees
from ..plans import Conflict, Cure, Request
from .answering import Asking
from .changes import changes
from .cure_words import value_now
from .cured import Change, cured, values_to_set
from .more_cards import more_cards

DEGREES = ("tensor_parallel", "pipeline_parallel", "context_parallel", "expert_parallel")
"""Knobs of which the values nearest to an impossible one are told too."""

NEAREST = 2
"""Of each of them so many values beside the fastest."""


def cures(request: Request, conflict: tuple[Conflict, ...], asking: Asking) -> tuple[Cure, ...]:
    """Changes that make `request` feasible: without new cards first, then fewest cards, then step time.

    Each is solved as its asker will put it. Single changes, of degrees also those nearest to what was asked;
    pairs where no single one without new cards is enough; more nodes with one change where neither helps; all
    knobs left free together where nothing else does.
    """
    singles = list(changes(request, {member.limit for member in conflict}, asking))
    found = [cure for change in singles if (cure := cured(request, asking, change))]
    if not found:
        each = [change for change in singles if change[0] in _paired(request)]
        pairs = [pair for pair in combinations(each, 2) if pair[0][0] != pair[1][0]]
        found = [cure for pair in pairs if (cure := cured(request, asking, *pair))]
    found += _near(request, found, asking)
    more = more_cards(request, asking)
    if more is None and not found:
        freed = [change for change in singles if change[0].startswith("choose.")]
        found = [cure for change in freed if (cure := more_cards(request, asking, change))]
    found += [more] if more else []
    if not found:
        found = list(_all_freed(request, singles, asking))
    return tuple(sorted(found, key=_rank))


def _rank(cure: Cure) -> tuple[int, bool, float, str]:
    """Fewest new cards first, then what leaves the job and its safety as they are, then step time."""
    other = "training." in cure.set or "limits.memory_margin" in cure.set or cure.verdict == "risky"
    return cure.new_gpus, other, cure.resulting_step_seconds, cure.set


def _paired(request: Request) -> set[str]:
    """Fields that a pair of changes may touch: knobs, limits and the optimizer."""
    knobs = {f"choose.{name}" for name in type(request.choose).model_fields}
    return knobs | {f"limits.{name}" for name in type(request.limits).model_fields} | {"training.optimizer"}


def _all_freed(request: Request, singles: list[Change], asking: Asking) -> Iterator[Cure]:
    """All knobs left free together; told are those whose value changes by it."""
    knobs = tuple(change for change in singles if change[0].startswith("choose.") and change[1] is None)
    if len(knobs) < 3:
        return
    to = values_to_set(request, asking, knobs)
    changed = [one for one, text in zip(knobs, to, strict=False) if text != value_now(request, one[0])]
    cure = cured(request, asking, *changed) if changed else None
    if cure:
        yield cure


def _near(request: Request, found: list[Cure], asking: Asking) -> Iterator[Cure]:
    """Of each degree that a cure changes the values nearest to the asked ones with which a plan exists."""
    taken = {cure.set for cure in found}
    for axis in DEGREES:
        asked, field = getattr(request.choose, axis), f"choose.{axis}"
        if not asked or not any(one.startswith(f"{field}=") and "," not in one for one in taken):
            continue
        near = [degree for degree in _degrees(request, axis) if f"{field}={degree}" not in taken]
        near.sort(key=lambda degree: (min(abs(log2(degree / one)) for one in asked), degree))
        words = f"change {axis} to a near value"
        tried = (cured(request, asking, (field, degree, words)) for degree in near if degree not in asked)
        yield from islice((cure for cure in tried if cure), NEAREST)


def _degrees(request: Request, axis: str) -> list[int]:
    """Degrees of an axis that divide the cards, and what it cuts of the model."""
    cards = divisors_of(request.cluster.gpus)
    if axis not in ("tensor_parallel", "expert_parallel"):
        return cards
    whole = legal_degrees(
        request.model, "tensor_parallel" if axis == "tensor_parallel" else "expert_parallel"
    )
    return [degree for degree in cards if degree in whole]
