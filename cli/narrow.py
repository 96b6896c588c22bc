"""Searching for a plan that a launch target can write."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..plans import Outcome, Request


def searched_for(request: Request, target: str, origin: str, limit: float | None = None) -> Outcome:
    """The best outcome under the target's narrowings of what the request leaves free.

    A plan the target can write goes before one it cannot, then the faster one; without any plan, the
    outcome of the first narrowing. Raises `InputError` for a name that is no target.
    """
    from ..launch import narrowings, writable_by
    from ..plans import Plan
    from ..solver import plan as search

    outcomes = []
    for narrowing in _fitting(request, narrowings(target)):
        free = {name: v for name, v in narrowing.items() if getattr(request.choose, name) is None}
        narrowed = request.changed({f"choose.{name}": value for name, value in free.items()}, origin=origin)
        outcomes.append(search(narrowed, time_limit=limit, writers=writable_by))
    plans = [outcome for outcome in outcomes if isinstance(outcome, Plan)]
    ranked = sorted(plans, key=lambda plan: (target not in plan.writable_by, plan.time.step_seconds))
    return ranked[0] if ranked else outcomes[0]


def _fitting(request: Request, all_of: Sequence[dict[str, object]]) -> Sequence[dict[str, object]]:
    """The narrowings to a backend that the request allows; the first where it allows none."""
    allowed = request.choose.backend
    if allowed is None:
        return all_of
    return [each for each in all_of if each.get("backend", allowed[0]) in allowed] or all_of[:1]
