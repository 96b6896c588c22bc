"""Planning on pools of different cards: all of them, some or one, and what leaving others out is worth."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, groupby

from ..hardware import Cluster
from ..hardware.mixed import pool_names
from ..models.strategy import Strategy
from ..plans import Notice, Plan, Request
from ..plans.report import seconds
from .answer import Writers, plan_of
from .lower import NEVER
from .mixed import MixedSearch
from .outcome import Outcome, Tally, Without
from .search import Search


def part_of(cluster: Cluster, chosen: tuple[int, ...]) -> Cluster:
    """The cluster of some of its pools."""
    pools = [cluster.pools[index] for index in chosen]
    fields = {name: getattr(pools[0], name) for name in Cluster.model_fields}
    others = [{"node": pool.node, "nodes": pool.nodes} for pool in pools[1:]]
    return Cluster.model_validate({**fields, "others": others, "notes": cluster.notes})


def subsets(cluster: Cluster) -> Iterator[tuple[int, ...]]:
    """Every choice of pools, single ones first: their plans are the first incumbents."""
    for size in range(1, len(cluster.pools) + 1):
        yield from combinations(range(len(cluster.pools)), size)


def plan_mixed(request: Request, time_limit: float | None, writers: Writers | None) -> Plan | Without:
    """The fastest plan on all pools or some of them, and what leaving the others out is worth."""
    steps: dict[tuple[int, ...], int | None] = {}
    best: tuple[Request, Outcome, tuple[int, ...]] | None = None
    last: tuple[Request, Outcome] | None = None
    tally, proved, limit = Tally(), True, NEVER - 1
    if request.limits.max_step_seconds is not None:
        limit = int(request.limits.max_step_seconds * 1e9)
    for chosen in subsets(request.cluster):
        some = request.model_copy(update={"cluster": part_of(request.cluster, chosen)})
        search = Search(some, time_limit) if len(chosen) == 1 else MixedSearch(some, limit, time_limit)
        search.limit_ns = min(search.limit_ns, limit)
        outcome = search.run()
        proved &= outcome.proved
        tally.add(outcome.tally)
        steps[chosen] = outcome.best.step_ns if outcome.best else None
        last = (some, outcome)
        if outcome.best is not None:
            best, limit = (some, outcome, chosen), outcome.best.step_ns - 1
    if best is None:
        assert last is not None
        if not proved:
            return Without(request, replace(last[1], proved=False))
        single = request.model_copy(update={"cluster": part_of(request.cluster, (0,))})
        return Without(single, Search(single).run())
    some, outcome, chosen = best
    whole = Outcome(outcome.best, outcome.bound_ns, proved, tally)
    plan = plan_of(some, whole, writers)
    told = (*plan.warnings, pool_notice(request.cluster, chosen, plan, steps))
    return plan.model_copy(update={"inputs_hash": request.inputs_hash(), "warnings": told})


def machine_order(cluster: Cluster, strategy: Strategy) -> list[str]:
    """Runs of machines in the order of the ranks, as ``4 x dgx-h100``."""
    sizes = dict(zip(pool_names(cluster), (pool.node.gpus for pool in cluster.pools), strict=True))
    width = strategy.world // strategy.pipeline_parallel
    runs = [(str(name), len(list(same))) for name, same in groupby(stage.device for stage in strategy.stages)]
    return [f"{count * width / sizes[name]:g} x {name}" for name, count in runs]


def pool_notice(
    cluster: Cluster, chosen: tuple[int, ...], plan: Plan, steps: dict[tuple[int, ...], int | None]
) -> Notice:
    """Which pools the plan uses, with the layers of each, and what single pools reach."""
    names = pool_names(cluster)
    single = [(names[only[0]], step) for only, step in steps.items() if len(only) == 1 and step]
    alone = [f"{name} alone {seconds(step):.4g} s" for name, step in single]
    left = [name for index, name in enumerate(names) if index not in chosen]
    if len(chosen) > 1:
        shares = []
        for name in names:
            layers = [str(stage.layers) for stage in plan.strategy.stages if stage.device == name]
            shares += [f"{len(layers)} stages on {name} ({', '.join(layers)} layers)"] if layers else []
        message = f"stages by pool: {'; '.join(shares)}"
        against = "; ".join(alone) or "no pool alone can hold it"
        order = ", ".join(machine_order(cluster, plan.strategy))
        hint = f"a step takes {plan.time.step_seconds:.4g} s; {against}; list machines in this order: {order}"
    else:
        message = f"{' and '.join(left)} left out: no assignment of stages to all pools is faster"
        hint = f"{'; '.join(alone)}; the cards left out are free for another job"
    return Notice(code="pools", message=message, hint=hint)
