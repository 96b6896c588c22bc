"""A request solved aside, on whichever cluster: equal machines, free cards, or pools of different cards."""

from __future__ import annotations

from functools import cached_property

from ..inputs.record import dataclass
from ..plans import Plan, Request
from .alternatives import ASIDE_SECONDS
from .clash import clash
from .fragments import plan_fragments
from .outcome import Found, Outcome, Tally
from .points import padded, searched
from .pools import plan_mixed
from .reasons import reasons


@dataclass(frozen=True)
class Solved:
    """How a search ended; `request` is the one its plan is priced by: of free cards or pools, those it uses.

    `blamed` is the request whose limits say why there is none: of pools, one of them alone.
    """

    request: Request
    outcome: Outcome
    blamed: Request

    @property
    def uneven(self) -> bool:
        """Whether the cards stand in pools or fragments."""
        return bool(self.request.cluster.free or self.request.cluster.others)

    @cached_property
    def reasons(self) -> tuple[str, ...]:
        """Why there is no plan, on whichever cluster, or that the search was stopped; none where there is."""
        if self.outcome.best is not None:
            return ()
        if not self.outcome.proved:
            return ("the search was stopped by its limit",)
        return reasons(self.blamed, clash(self.blamed))


def solved(request: Request) -> Solved:
    """The best plan of `request`, bounded as searches aside are."""
    request = padded(request)
    uneven = plan_fragments if request.cluster.free else plan_mixed if request.cluster.others else None
    if uneven is None:
        return Solved(request, searched(request), request)
    answer = uneven(request, ASIDE_SECONDS, None)
    if isinstance(answer, Plan):
        ns, bound = round(answer.time.step_seconds * 1e9), round(answer.proof.bound_seconds * 1e9)
        best = Found(answer.strategy, ns, ())
        outcome = Outcome(best, bound, answer.status == "optimal", Tally())
        return Solved(answer.request, outcome, answer.request)
    return Solved(request, Outcome(None, None, answer.outcome.proved, Tally()), answer.request)
