"""One request answered: searched on whole machines, free cards or pools, with what stands beside its plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..inputs.later import later
from ..inputs.record import dataclass
from ..plans import Plan, Request, padded_request
from .alternatives import alternatives, offers
from .answer import Writers, plan_of
from .ladder import ladder
from .outcome import Without
from .search import Search
from .software import default_precision
from .tables import Tables


@dataclass(frozen=True)
class Asking:
    """What a cure must know of the asker.

    `again` reads the request with one more ``--set`` and raises `InputError` where that cannot be;
    `narrowed` are the requests to search for one, a launch target may have several; `writers` tell which
    targets can write a plan, and `serves` whether the asker can use it.
    """

    again: Callable[[str], Request]
    narrowed: Callable[[Request], Sequence[Request]] = lambda request: [request]
    writers: Writers | None = None
    serves: Callable[[Plan], bool] = lambda plan: True


CURE_SECONDS = 10.0
"""Deterministic seconds of the search behind one cure."""


def planned(request: Request, writers: Writers | None = None) -> Plan | None:
    """The plan of a changed request, in the time of a cure; None where none is found."""
    found = answered(request, CURE_SECONDS, writers)
    return found if isinstance(found, Plan) else None


def answered(
    request: Request,
    time_limit: float | None = None,
    writers: Writers | None = None,
    tables: Tables | None = None,
) -> Plan | Without:
    """As `plan`, without looking for what is to blame where there is none."""
    given, tables = tables, tables or Tables()
    asked, choose = request, request.choose
    precisions = choose.precision or (default_precision(request),)
    request, notes = padded_request(request, choose.context_parallel or (1,), precisions)
    if request.cluster.free or request.cluster.others:
        answer = _uneven(request, time_limit, writers)
        if not isinstance(answer, Plan):
            return answer
        found = answer.model_copy(update={"warnings": (*notes, *answer.warnings)})
        if found.status != "optimal":
            return found
        return _beside_pools(request, found) if request.cluster.others else _beside_blocks(request, found)
    if request.objective.minimize == "gpus":
        from .fewest import fewest

        request, outcome = fewest(request, time_limit, tables)
        asked = request
    else:
        search = Search(request, time_limit, tables=tables)
        outcome = search.run() if time_limit else tables.outcome(request, search.run)
    if outcome.best is None:
        return Without(asked, outcome)
    found = plan_of(request, outcome, writers)
    found = found.model_copy(update={"warnings": (*notes, *found.warnings)})
    if not outcome.proved:
        return found
    return _with_asides(request, found, given or Tables())


def _uneven(request: Request, time_limit: float | None, writers: Writers | None) -> Plan | Without:
    """The answer on free cards, or on pools of several types."""
    if request.cluster.free:
        from .fragments import plan_fragments

        return plan_fragments(request, time_limit, writers)
    from .pools import plan_mixed

    return plan_mixed(request, time_limit, writers)


def _with_asides(request: Request, found: Plan, tables: Tables) -> Plan:
    """The plan with what stands beside it, each searched for when it is first looked at."""
    return found.model_copy(
        update={
            "alternatives": later(lambda: alternatives(request, found, tables)),
            "offers": later(lambda: offers(request, found, tables)),
            "ladder": later(lambda: ladder(request, found)),
        }
    )


def _beside_blocks(request: Request, found: Plan) -> Plan:
    """The plan on free cards with what other choices reach on them, and the ladder on its own blocks."""
    from .fragments import scattered

    return found.model_copy(
        update={
            "alternatives": later(lambda: alternatives(request, found, None, scattered)),
            "offers": later(lambda: offers(request, found, None, scattered)),
            "ladder": later(lambda: ladder(found.request, found)),
        }
    )


def _beside_pools(request: Request, found: Plan) -> Plan:
    """The plan with the other choices of pools beside it; a plan on one pool has its ladder too."""
    from .pool_asides import pool_alternatives, pool_offers

    one = not found.request.cluster.others
    return found.model_copy(
        update={
            "alternatives": later(lambda: pool_alternatives(request, found)),
            "offers": later(lambda: pool_offers(found)),
            "ladder": later(lambda: ladder(found.request, found) if one else ()),
        }
    )
