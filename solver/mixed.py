"""Planning on pools of different cards: stages assigned to pools with their own layers, or pools left out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, groupby

import numpy as np

from ..costs.book import Sum, spread
from ..costs.columns import NAMES, Bools, Ints, Strategies
from ..costs.mixed import BOUNDARY
from ..hardware import Cluster
from ..hardware.mixed import all_alike, pool_names
from ..models.strategy import Strategy
from ..plans import NoPlan, Notice, OutOfTime, Plan, Request
from ..plans.report import seconds
from .answer import Writers, out_of_time, plan_of
from .bounds import most_layers
from .clash import no_plan
from .close import OPTION_SECONDS, strategy_of
from .coefficients import Coefficients
from .cuts import affordable, obeying
from .frontier import Breakpoint, row_bound
from .leaf import LeafPlan
from .lower import NEVER, layers_by_kind
from .mixed_leaf import POOL, MixedLeaf, Shares, mixed_frontier, mixed_options
from .options import RowOptions
from .outcome import Found, Outcome, Tally
from .search import ROW_SECONDS, Search
from .space import rows
from .watch import is_over


@dataclass(frozen=True)
class PoolCoefficients(Coefficients):
    """Coefficients of rows as if all cards were of pool `index`, but with the slowest pool's boundary.

    `boundaries` are the nanoseconds of a chunk's boundary on each pool's own network; all pools share them.
    """

    index: int
    boundaries: dict[int, Ints]

    @cached_property
    def chunk(self) -> Sum:
        """Nanoseconds of a chunk for one micro-batch."""
        found = super().chunk
        slowest = np.max(list(self.boundaries.values()), axis=0)
        found.stage["fixed"] = found.stage["fixed"] + slowest - self.boundaries[self.index]
        return found

    def own_boundary(self) -> Ints:
        """Nanoseconds of a chunk's boundary on this pool's own network."""
        terms = [term for term in self._spelled(self._shared[0].unspread) if term.name == BOUNDARY]
        chunks, kinds = self.strategies.virtual_pipeline, len(self.request.model.kinds)
        return Sum.of([spread(term, chunks) for term in terms], len(self.strategies), kinds).stage["fixed"]


def pool_coefficients(requests: Sequence[Request], strategies: Strategies) -> list[PoolCoefficients]:
    """Coefficients of the rows on each pool."""
    shared: dict[int, Ints] = {}
    parts = [PoolCoefficients(request, strategies, i, shared) for i, request in enumerate(requests)]
    shared |= {part.index: part.own_boundary() for part in parts}
    return parts


@dataclass
class MixedSearch:
    """All pools of `request.cluster` at once: every card used, each stage whole in one pool.

    The space: stages consecutive in ranks (``tp-cp-dp-pp``), stage widths that divide every pool's cards,
    optimizer states on the cards. `limit_ns` is the largest step still of interest.
    """

    request: Request
    limit_ns: int = NEVER - 1
    time_limit: float | None = None
    tally: Tally = field(default_factory=Tally)
    _winner: tuple[Strategies, int, MixedLeaf, LeafPlan] | None = None

    @cached_property
    def requests(self) -> list[Request]:
        """The request on each pool as if all cards were of it; empty where pools do not fill one another."""
        alike = [all_alike(self.request.cluster, index) for index in range(len(self.request.cluster.pools))]
        choose = self.request.choose.model_copy(
            update={
                "rank_order": ("tp-cp-dp-pp",),
                "offload_optimizer": ("none",),
                "offload_params": ("none",),
            }
        )
        if any(part is None for part in alike):
            return []
        return [self.request.model_copy(update={"cluster": part, "choose": choose}) for part in alike]

    def _strategies(self) -> Strategies:
        """Rows that every pool can run, whose stages fill whole shares of each."""
        tables = [rows(request) for request in self.requests]
        common = tables[0]
        for other in tables[1:]:
            if np.array_equal(_table(common), _table(other)):
                continue
            known = {key.tobytes() for key in _table(other)}
            common = common.take(np.array([key.tobytes() in known for key in _table(common)], dtype=np.bool_))
        self.tally.rows = len(common)
        keep = np.ones(len(common), dtype=np.bool_)
        for request in self.requests:
            keep &= obeying(request, common)
        keep &= affordable(self.request)
        self.tally.rule = int((~keep).sum())
        common = common.take(keep)
        width = common.data_parallel * common.tensor_parallel * common.context_parallel
        whole = common.pipeline_parallel > 1
        for pool in self.request.cluster.pools:
            whole &= pool.gpus % width == 0
        self.tally.infeasible = int((~whole).sum())
        return common.take(whole)

    def run(self) -> Outcome:
        """Rows by rising bound, each an exact leaf, until no bound is within the limit."""
        strategies = self._strategies() if self.requests else None
        self.tally.deterministic_time += ROW_SECONDS * self.tally.rows
        if strategies is None or not len(strategies):
            return Outcome(None, None, True, self.tally)
        parts = pool_coefficients(self.requests, strategies)
        bounds = mixed_bound(parts, self._shares(strategies))
        order = np.argsort(bounds, kind="stable")
        done = 0
        for batch in batches(order):
            worth: Ints = batch[bounds[batch] <= self.limit_ns]
            done += len(worth)
            some = pool_coefficients(self.requests, strategies.take(worth))
            stopped = self._batch(some, bounds[worth])
            if stopped is not None:
                return Outcome(self._settled(), stopped, False, self.tally)
            if len(worth) < len(batch):
                break
        self.tally.bound += len(order) - done
        best = self._settled()
        self.tally.leaf = max(self.tally.leaves - (best is not None), 0)
        return Outcome(best, best.step_ns if best else None, True, self.tally)

    def _shares(self, strategies: Strategies) -> Ints:
        """Stages of each pool, (rows, pools)."""
        width = strategies.data_parallel * strategies.tensor_parallel * strategies.context_parallel
        found: Ints = np.stack([pool.gpus // width for pool in self.request.cluster.pools], axis=1)
        return found

    def _batch(self, parts: list[PoolCoefficients], bounds: Ints) -> int | None:
        """Closes every one of these rows; the least open bound if time ran out."""
        strategies = parts[0].strategies
        if not len(strategies):
            return None
        stages = self._shares(strategies)
        near = mixed_within(parts, stages, self.limit_ns)
        self.tally.infeasible += int((~near).sum())
        opened = []
        for row in np.flatnonzero(near).tolist():
            if bounds[row] > self.limit_ns:
                self.tally.bound += 1
            elif (found := self._opened(parts, row, Shares(tuple(stages[row].tolist())))) is not None:
                opened.append(found)
        for least, row, leaf in sorted(opened, key=lambda entry: entry[:2]):
            if least > self.limit_ns:
                self.tally.bound += 1
                continue
            if is_over(self.tally.deterministic_time, self.time_limit):
                return least
            solved = self._solved(leaf)
            if solved is not None:
                self._winner = (strategies, row, *solved)
                self.limit_ns = solved[1].step_ns - 1
        return None

    def _opened(
        self, parts: list[PoolCoefficients], row: int, shares: Shares
    ) -> tuple[int, int, tuple[RowOptions, list[Breakpoint], Shares]] | None:
        """A row's sharper bound with what its leaf needs; None where no plan can be within the limit."""
        options = mixed_options(parts, row, self.limit_ns)
        self.tally.deterministic_time += OPTION_SECONDS * len(parts)
        points = mixed_frontier(options, shares) if options else []
        least = row_bound(options, points) if options and points else None
        if options is None or least is None:
            self.tally.infeasible += 1
            return None
        if least > self.limit_ns:
            self.tally.bound += 1
            return None
        return least, row, (options, points, shares)

    def _solved(
        self, opened: tuple[RowOptions, list[Breakpoint], Shares]
    ) -> tuple[MixedLeaf, LeafPlan] | None:
        """A fastest plan of an opened row within the limit, proved, with its leaf; None where none is."""
        options, points, shares = opened
        leaf = MixedLeaf(options, self.limit_ns, points=points, shares=shares)
        result = leaf.fastest(None)
        self.tally.leaves += 1
        self.tally.deterministic_time += result.deterministic_time
        return None if result.plan is None else (leaf, result.plan)

    def _settled(self) -> Found | None:
        """The winner, of its row's plans of the same step the one with most headroom."""
        if self._winner is None:
            return None
        strategies, row, leaf, fastest = self._winner
        plan, spent = leaf.settled(fastest, None)
        self.tally.deterministic_time += spent
        return Found(self._named(strategies, row, plan), plan.step_ns, strategies.key(row))

    def _named(self, strategies: Strategies, row: int, plan: LeafPlan) -> Strategy:
        """The strategy with each stage's pool as its device."""
        names, found = pool_names(self.request.cluster), strategy_of(strategies, row, plan)
        devices = [names[chosen[POOL]] for chosen in plan.stages]
        stages = tuple(s.model_copy(update={"device": d}) for s, d in zip(found.stages, devices, strict=True))
        return found.model_copy(update={"stages": stages})


def _table(strategies: Strategies) -> Ints:
    found: Ints = np.stack([getattr(strategies, name) for name in NAMES], axis=1)
    return found


def batches(order: Ints) -> Iterator[Ints]:
    """Rows in growing parts: the first find an incumbent, the later ones are mostly told apart at once."""
    start, size = 0, 16
    while start < len(order):
        yield order[start : start + size]
        start, size = start + size, min(size * 2, 512)


def mixed_within(parts: list[PoolCoefficients], stages: Ints, limit_ns: int) -> Bools:
    """Rows that can hold all layers in memory with the slowest chunk that `limit_ns` leaves room for."""
    tau, _ = _room(parts, limit_ns)
    p = parts[0].strategies.pipeline_parallel
    most = np.stack([most_layers(part, tau) for part in parts], axis=2)
    most = np.where(most < 1, -(2**20), np.minimum(most, 2**20))
    held = (np.arange(most.shape[1])[None, :] < p[:, None])[:, :, None]
    most = np.where(held, most, 0)
    layers = parts[0].request.model.layers // parts[0].strategies.virtual_pipeline
    if most.shape[2] != 2:
        enough: Bools = most.max(axis=2).sum(axis=1) >= layers
        return enough
    gain = np.where(held[:, :, 0], most[:, :, 1] - most[:, :, 0], -(2**40))
    taken = np.arange(gain.shape[1])[None, :] < stages[:, 1:2]
    best = np.where(taken, np.sort(gain, axis=1)[:, ::-1], 0).sum(axis=1)
    found: Bools = most[:, :, 0].sum(axis=1) + best >= layers
    return found


def _room(parts: list[PoolCoefficients], limit_ns: int) -> tuple[Ints, Ints]:
    """The slowest chunk within `limit_ns`, and the least of all other work, of each row."""
    s, passes = parts[0].strategies, parts[0].passes
    v, p = s.virtual_pipeline, s.pipeline_parallel
    chunk_layers = int(layers_by_kind(parts[0].request).sum()) // v
    least = np.min([part.chunk.stage["layer"].min(axis=1) for part in parts], axis=0)
    fixed = np.min([part.chunk.stage["fixed"] for part in parts], axis=0)
    ends = np.min([part.chunk.stage["first"] + part.chunk.stage["last"] for part in parts], axis=0)
    fullest = -(-chunk_layers // p) * v
    tails = [part.tail.stage["layer"].min(axis=1) * fullest + part.tail.stage["fixed"] for part in parts]
    other = chunk_layers * least + fixed * p + ends + np.min(tails, axis=0)
    room = np.maximum(limit_ns - other, 0) // np.maximum(passes - 1, 1)
    tau: Ints = np.where(passes > 1, room, NEVER)
    return tau, other


def mixed_bound(parts: list[PoolCoefficients], stages: Ints) -> Ints:
    """A lower bound of each row's step whatever the stages hold; `stages` (rows, pools) of each pool.

    Within a bottleneck tau the stages hold at most sum of stages x tau / layer, so tau is at least
    layers over the pools' rates added; the sum of chunks is at least all layers at the cheapest pool.
    """
    layers = int(layers_by_kind(parts[0].request).sum()) // parts[0].strategies.virtual_pipeline
    least = np.stack([np.maximum(part.chunk.stage["layer"].min(axis=1), 1) for part in parts], axis=1)
    fixed = np.min([part.chunk.stage["fixed"] for part in parts], axis=0)
    tau = np.floor(layers / (stages / least).sum(axis=1) * (1.0 - 1e-9)).astype(np.int64) + fixed
    bound: Ints = (parts[0].passes - 1) * tau + _room(parts, NEVER)[1]
    return bound


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


def plan_mixed(
    request: Request, time_limit: float | None, writers: Writers | None
) -> Plan | NoPlan | OutOfTime:
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
            return out_of_time(request, last[1])
        single = request.model_copy(update={"cluster": part_of(request.cluster, (0,))})
        return no_plan(single, Search(single).run()).model_copy(update={"inputs_hash": request.inputs_hash()})
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
