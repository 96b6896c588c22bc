"""Searching for a plan that a launch target can write."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..plans import Outcome, Request


def searched_for(
    request: Request,
    target: str,
    origin: str,
    limit: float | None = None,
    again: Callable[[str], Request] | None = None,
) -> Outcome:
    """The best outcome under the target's narrowings of what the request leaves free.

    A plan the target can write goes before one it cannot, then the faster one; without any plan, why the
    first narrowing has none, with cures after which the target can write one (`again` reads the request
    with one more setting). Raises `InputError` for a name that is no target.
    """
    from ..launch import writable_by
    from ..solver import plan as search
    from ..solver.answering import Asking
    from ..solver.pasted import changed_by

    asking = Asking(
        again or changed_by(request),
        lambda asked: _narrowed(asked, target, origin),
        writable_by,
        lambda plan: target in plan.writable_by,
    )
    return search(request, time_limit=limit, writers=writable_by, asking=asking)


def _narrowed(request: Request, target: str, origin: str) -> list[Request]:
    """The request under each narrowing, laid over what it leaves free."""
    from ..launch import narrowings

    found = []
    for narrowing in _fitting(request, narrowings(target)):
        free = {name: v for name, v in narrowing.items() if getattr(request.choose, name) is None}
        found.append(request.changed({f"choose.{name}": v for name, v in free.items()}, origin=origin))
    return found


def _fitting(request: Request, all_of: Sequence[dict[str, object]]) -> Sequence[dict[str, object]]:
    """The narrowings to a backend that the request allows; the first where it allows none."""
    allowed = request.choose.backend
    if allowed is None:
        return all_of
    return [each for each in all_of if each.get("backend", allowed[0]) in allowed] or all_of[:1]
