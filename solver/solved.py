"""A request solved aside, on whichever cluster: equal machines, free cards, or pools of different cards."""

from __future__ import annotations

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

    `reasons` say why there is none, where the search tells that itself.
    """

    request: Request
    outcome: Outcome
    reasons: tuple[str, ...] = ()

    @property
    def uneven(self) -> bool:
        """Whether the cards stand in pools or fragments."""
        return bool(self.request.cluster.free or self.request.cluster.others)


def solved(request: Request) -> Solved:
    """The best plan of `request`, bounded as searches aside are."""
    request = padded(request)
    uneven = plan_fragments if request.cluster.free else plan_mixed if request.cluster.others else None
    if uneven is None:
        return Solved(request, searched(request))
    answer = uneven(request, ASIDE_SECONDS, None)
    if isinstance(answer, Plan):
        ns, bound = round(answer.time.step_seconds * 1e9), round(answer.proof.bound_seconds * 1e9)
        best = Found(answer.strategy, ns, ())
        return Solved(answer.request, Outcome(best, bound, answer.status == "optimal", Tally()))
    outcome = Outcome(None, None, answer.outcome.proved, Tally())
    told = reasons(answer.request, clash(answer.request)) if outcome.proved else ()
    return Solved(request, outcome, tuple(told))
