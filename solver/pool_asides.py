"""What stands beside a plan on pools of different cards: each pool alone, all of them, and an even cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..hardware.mixed import pool_names
from ..models import Strategy
from ..models.strategy import Stage
from ..plans import Alternative, Offer, Plan, Request
from ..plans.report import host_verdict, price, seconds, verdict
from .alternatives import ASIDE_SECONDS, Where, offers
from .mixed import MixedSearch
from .outcome import Found
from .pools import part_of
from .search import Search
from .tables import Tables


def pool_alternatives(request: Request, plan: Plan) -> tuple[Alternative, ...]:
    """The best plan of each other choice of pools: one alone, or all; and the plan with even stages."""
    found = [
        _alternative(some, plan, name, best.strategy, why)
        for name, some, why in _choices(request, plan)
        if (best := searched(some)) is not None
    ]
    even = even_stages(plan.strategy)
    if plan.request.cluster.others and even is not None and _holds(plan.request, even):
        why = "the plan with equally many layers on every stage, whatever its card"
        found.append(_alternative(plan.request, plan, "even", even, why))
    return tuple(sorted(found, key=lambda item: (item.step_seconds, item.name)))


def searched(request: Request, limit_ns: int | None = None) -> Found | None:
    """The best plan on one pool or on several, None where none is proved (below `limit_ns`)."""
    kind = MixedSearch if request.cluster.others else Search
    search: MixedSearch | Search = kind(request, time_limit=ASIDE_SECONDS)
    if limit_ns is not None:
        search.limit_ns = min(search.limit_ns, limit_ns)
    outcome = search.run()
    return outcome.best if outcome.proved else None


def _choices(request: Request, plan: Plan) -> Iterator[tuple[str, Request, str]]:
    """(name, request, why) of each pool alone and of all, but for the plan's own."""
    cluster, used = request.cluster, plan.request.cluster
    names = pool_names(cluster)
    for index, name in enumerate(names):
        part = part_of(cluster, (index,))
        if part.pools != used.pools:
            yield (
                f"{name} alone",
                request.model_copy(update={"cluster": part}),
                "the best layout of that pool",
            )
    if len(used.pools) < len(names):
        yield "all pools", request, "the best cut of the layers over all pools"


def even_stages(strategy: Strategy) -> Strategy | None:
    """The strategy with equally many layers on every stage; None where that is itself, or not possible."""
    layers, stages = strategy.layers, strategy.stages
    if layers % (len(stages) * strategy.virtual_pipeline):
        return None
    each = layers // len(stages)
    full = max(stage.recompute_full_layers for stage in stages)
    cut = [Stage(layers=each, recompute_full_layers=min(each, full), device=s.device) for s in stages]
    found = strategy.model_copy(update={"stages": tuple(cut)})
    return found if found != strategy else None


def _holds(request: Request, strategy: Strategy) -> bool:
    """Whether the cards and hosts can hold it."""
    ledger = price(request, [strategy])[0]
    return "does_not_fit" not in (verdict(ledger), host_verdict(request, ledger))


def _alternative(request: Request, plan: Plan, name: str, strategy: Strategy, why: str) -> Alternative:
    ledger = price(request, [strategy])[0]
    loss = ledger.step_ns / round(plan.time.step_seconds * 1e9) - 1.0
    return Alternative(
        name=name,
        strategy=strategy,
        step_seconds=seconds(ledger.step_ns),
        memory_bytes=ledger.peak_kib * 1024,
        loss_percent=round(100.0 * loss, 4),
        why=why,
    )


def pool_offers(plan: Plan) -> tuple[Offer, ...]:
    """8-bit arithmetic on the pools in use, where all their cards have it, if it pays."""
    return offers(plan.request, plan, None, _changed)


def _changed(
    request: Request, changes: Mapping[str, Any], limit_ns: int | None, tables: Tables | None
) -> Where | None:
    found = searched(request.changed(changes), limit_ns)
    return None if found is None else (request, found)
