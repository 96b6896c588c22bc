"""The public face of the search: plan, check, curve. What only some questions need is loaded with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

from ..hardware import Cluster
from ..inputs import InputError
from ..inputs.kinds import refuse_other
from ..models import Strategy
from ..plans import NoPlan, OutOfTime, Plan, Request, padded_request
from ..plans.report import (
    cost_report,
    host_verdict,
    memory_report,
    price,
    seconds,
    time_report,
    traffic_report,
    verdict,
)
from .answer import Writers, out_of_time, versions
from .answering import Asking, answered
from .notices import notices
from .outcome import Without
from .search import Search
from .tables import Tables

if TYPE_CHECKING:
    from ..plans import Check, Curve

MOST_NODES = 256
"""Nodes that `min_resources` looks at, at most."""


def plan(
    request: Request,
    time_limit: float | None = None,
    writers: Writers | None = None,
    tables: Tables | None = None,
    asking: Asking | None = None,
) -> Plan | NoPlan | OutOfTime:
    """The best plan of `request` with its proof, or why there is none, or out of time.

    With the objective `gpus` the plan's request has the cluster that was chosen.

    `time_limit` counts deterministic seconds. `writers` tells which launch targets can write a
    plan. `tables` are kept for later questions, those about what stands beside the plan among them.
    `asking` tells how its asker puts the question again, and which plans serve him: those that do go first.
    Raises `InputError` for a rule outside the grammar. Same request, same answer.
    """
    refuse_other(request, Request)
    _refuse_limit(time_limit)
    ways = [request] if asking is None else asking.narrowed(request)
    found = [answered(one, time_limit, writers, tables) for one in ways]
    plans = [one for one in found if isinstance(one, Plan)]
    if len(plans) > 1 and asking is not None:
        return min(plans, key=lambda plan: (not asking.serves(plan), plan.time.step_seconds))
    return plans[0] if plans else _none(request, [one for one in found if isinstance(one, Without)], asking)


def _none(request: Request, found: list[Without], asking: Asking | None) -> NoPlan | OutOfTime:
    """Why there is none and what cures that, or that time ran out in one of the ways to look."""
    first = next((one for one in found if not one.outcome.proved), found[0])
    if not first.outcome.proved:
        return out_of_time(request, first.outcome)
    from .clash import no_plan
    from .pasted import changed_by

    return no_plan(request, first, asking or Asking(changed_by(request)))


def check(request: Request, strategy: Strategy, tables: Tables | None = None) -> Check:
    """What a given strategy costs, whether it fits, which rules it breaks, and its loss against the best.

    On free cards, and on pools that its stages do not name, it is laid where it is fastest. A plan made for
    free cards says in its request which these are; `Planner.check` takes it for what it was asked.
    `tables` are kept for later questions: the best is searched for once.
    Raises `InputError` where it cannot be priced: it does not use the cluster's cards or meet the batch.
    """
    from ..plans import Best, Check
    from .laid import laid_out
    from .legal import breaches
    from .priceable import refuse_unpriceable

    refuse_other(request, Request)
    refuse_other(strategy, Strategy)
    asked, _ = padded_request(request, (strategy.context_parallel,), (strategy.precision,))
    request, strategy = laid_out(request, strategy)
    refuse_unpriceable(request, strategy)
    request, told = padded_request(request, (strategy.context_parallel,), (strategy.precision,))
    ledger = price(request, [strategy])[0]
    time = time_report(request, strategy, ledger)
    best = _fastest(asked, tables or Tables())
    status: Literal["optimal", "infeasible"] = "infeasible" if best is None else "optimal"
    worst = max(verdict(ledger), host_verdict(request, ledger), key=_SEVERITY.index)
    return Check(
        inputs_hash=asked.inputs_hash(),
        versions=versions(),
        verdict=worst,
        strategy=strategy,
        breaches=breaches(request, strategy),
        memory=memory_report(request, ledger),
        time=time,
        traffic=traffic_report(ledger),
        cost=cost_report(request, time),
        best=Best(
            status=status,
            strategy=best[0] if best else None,
            step_seconds=seconds(best[1]) if best else None,
        ),
        loss_percent=round(100.0 * (ledger.step_ns / best[1] - 1.0), 4) if best else None,
        warnings=(*told, *notices(request, ledger, strategy)),
    )


def _fastest(request: Request, tables: Tables) -> tuple[Strategy, int] | None:
    """The fastest strategy of a request and its step, ns; None where none fits."""
    if request.cluster.free or request.cluster.others:
        found = plan(request)
        return (found.strategy, round(found.time.step_seconds * 1e9)) if isinstance(found, Plan) else None
    best = tables.outcome(request, Search(request, tables=tables).run).best
    return (best.strategy, best.step_ns) if best else None


_SEVERITY = ("fits", "risky", "does_not_fit")


def _refuse_limit(time_limit: object) -> None:
    """Refuses what is no positive number of seconds, nor None."""
    number = isinstance(time_limit, int | float) and not isinstance(time_limit, bool)
    if time_limit is not None and not (number and 0 < time_limit <= 1e9):  # type: ignore[operator]
        reason = "must be a positive number of seconds, at most 1e9"
        raise InputError("time_limit", time_limit, "argument", reason, legal=["10"])


class Planner:
    """Questions about one cluster. Keeps tables of earlier questions, a bounded number; thread-safe."""

    def __init__(self, cluster: Cluster) -> None:
        refuse_other(cluster, Cluster)
        self.cluster = cluster
        self._tables = Tables()

    def _on(self, request: Request) -> Request:
        refuse_other(request, Request)
        return (
            request
            if request.cluster == self.cluster
            else request.model_copy(update={"cluster": self.cluster})
        )

    def plan(self, request: Request, time_limit: float | None = None) -> Plan | NoPlan | OutOfTime:
        """As `plan`, on this cluster."""
        return plan(self._on(request), time_limit, tables=self._tables)

    def check(self, request: Request, strategy: Strategy) -> Check:
        """As `check`, on this cluster."""
        return check(self._on(request), strategy, self._tables)

    def curve(self, request: Request, gpus: Sequence[int], envelope: bool = False) -> Curve:
        """The best plan for each number of cards: see `curve`."""
        from .counts import curve

        return curve(self._on(request), gpus, envelope)

    def min_resources(self, request: Request) -> Plan | NoPlan | OutOfTime:
        """The plan on the fewest whole nodes that have one; as `plan` where none has."""
        from .feasible import feasible

        nodes = 1
        while nodes <= MOST_NODES:
            sized = self._on(request).changed({"cluster.nodes": nodes})
            if feasible(sized):
                return plan(sized, tables=self._tables)
            nodes += 1
        return plan(self._on(request), tables=self._tables)

    def whatif(self, answer: Plan, **changes: Any) -> Plan | NoPlan | OutOfTime:
        """The answer to the plan's request with fields changed, named as for ``--set``.

        ``__`` stands for the dot: ``whatif(found, nodes=4, training__optimizer="adamw-8bit")``. Raises
        `InputError`.
        """
        from ..plans.settings import field_of

        refuse_other(answer, Plan)
        fields = {field_of(name.replace("__", "."), "whatif"): value for name, value in changes.items()}
        return plan(answer.request.changed(fields), tables=self._tables)
