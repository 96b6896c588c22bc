"""A question asked again with a setting more: read as its asker will put it, and answered as then."""

from __future__ import annotations

from collections.abc import Callable

from ..inputs import InputError
from ..plans import Plan, Request
from ..plans.settings import parsed, settings_in
from .answering import Asking, planned
from .feasible import feasible


def answer(request: Request, asking: Asking) -> Plan | None:
    """The best plan for `request` that the asker can use; None where there is none."""
    ways = [one for one in asking.narrowed(request) if _uneven(one) or feasible(one)]
    found = (planned(one, asking.writers) for one in ways)
    plans = [plan for plan in found if plan and asking.serves(plan)]
    return min(plans, key=lambda plan: plan.time.step_seconds, default=None)


def pasted(setting: str, asking: Asking) -> Plan | None:
    """The answer once `setting` stands behind a further ``--set``; None where that cannot be read."""
    try:
        return answer(asking.again(setting), asking)
    except InputError:
        return None


def fits(request: Request, asking: Asking) -> bool:
    """Whether some plan is known to keep all limits of `request`."""
    ways = asking.narrowed(request)
    return any(planned(one) is not None if _uneven(one) else feasible(one) for one in ways)


def _uneven(request: Request) -> bool:
    """Whether the cluster has free cards or pools, which have searches of their own."""
    return bool(request.cluster.free or request.cluster.others)


def changed_by(request: Request) -> Callable[[str], Request]:
    """`again` of a request that nobody wrote down: the fields of the setting are changed in it."""
    return lambda text: request.changed({field: value for field, value, _ in map(parsed, settings_in(text))})
