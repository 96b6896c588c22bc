"""The search over several pools of cards at once: each stage on one pool, with layers of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from functools import cached_property
from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from ..costs.columns import NAMES, Ints, Strategies
from ..hardware.mixed import all_alike, pool_names
from ..inputs.record import dataclass
from ..models.strategy import Strategy
from ..plans import Request
from .close import OPTION_SECONDS, strategy_of
from .cuts import affordable, obeying
from .exchanges import outdone
from .leaf import LeafPlan
from .lower import NEVER
from .mixed_bounds import PoolCoefficients, mixed_bound, pool_coefficients, sharpened
from .mixed_floors import ModeBounds, mode_bounds
from .mixed_leaf import POOL, MixedLeaf, mixed_options
from .options import RowOptions
from .outcome import Found, Outcome, Tally
from .search import ROW_SECONDS
from .space import rows
from .watch import is_over

NEAR = 32
"""A leaf is first solved within this part of its bound: that far away a plan is found or excluded fast."""


class Row(NamedTuple):
    """A row with its bound, and once it was opened what its leaf needs; ordered by bound, then by its key."""

    least: int
    key: tuple[int, ...]
    row: int
    parts: list[PoolCoefficients]
    shares: tuple[int, ...]
    """Stages of each pool."""
    options: RowOptions | None = None
    bounds: ModeBounds | None = None


@dataclass
class MixedSearch:
    """All pools of `request.cluster` at once: every card used, each stage whole in one pool.

    The space: stages consecutive in ranks (``tp-cp-dp-pp``), stage widths that divide every pool's cards,
    chunks alike, optimizer states on the cards. `limit_ns` is the largest step still of interest.
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
        lost = outdone(self.requests, common)
        if not self.request.choose.rules:
            self.tally.bound = int(lost.sum())
            common = common.take(~lost)
        keep = np.ones(len(common), dtype=np.bool_)
        for request in self.requests:
            keep &= obeying(request, common)
        keep &= affordable(self.request)
        self.tally.rule = int((~keep).sum())
        common = common.take(keep)
        width = common.data_parallel * common.tensor_parallel * common.context_parallel
        whole = (common.pipeline_parallel > 1) & (self.request.model.layers % common.virtual_pipeline == 0)
        for pool in self.request.cluster.pools:
            whole &= pool.gpus % width == 0
        self.tally.infeasible = int((~whole).sum())
        return common.take(whole)

    def run(self) -> Outcome:
        """Rows by rising bound: sharpened in parts, then the least of all is opened, or solved where it is.

        So a leaf is solved only when no other row may beat its bound, until none is within the limit.
        """
        strategies = self._strategies() if self.requests else None
        self.tally.deterministic_time += ROW_SECONDS * self.tally.rows
        if strategies is None or not len(strategies):
            return Outcome(None, None, True, self.tally)
        bounds = mixed_bound(pool_coefficients(self.requests, strategies), self._shares(strategies))
        order = np.argsort(bounds, kind="stable")
        waiting: list[Row] = []
        done, left = 0, None
        for batch in batches(order):
            left = self._close(waiting, int(bounds[batch[0]]))
            worth: Ints = batch[bounds[batch] <= self.limit_ns]
            if left is not None or not len(worth):
                break
            done += len(worth)
            for entry in self._sharpened(strategies.take(worth), bounds[worth]):
                heappush(waiting, entry)
        left = self._close(waiting, NEVER) if left is None else left
        if left is not None:
            return Outcome(self._settled(), left, False, self.tally)
        self.tally.bound += len(order) - done
        best = self._settled()
        self.tally.leaf = max(self.tally.leaves - (best is not None), 0)
        return Outcome(best, best.step_ns if best else None, True, self.tally)

    def _shares(self, strategies: Strategies) -> Ints:
        """Stages of each pool, (rows, pools)."""
        width = strategies.data_parallel * strategies.tensor_parallel * strategies.context_parallel
        found: Ints = np.stack([pool.gpus // width for pool in self.request.cluster.pools], axis=1)
        return found

    def _close(self, waiting: list[Row], before_ns: int) -> int | None:
        """Opens or solves rows whose bounds are at most `before_ns`; the least open bound if time ran out."""
        while waiting and waiting[0].least <= before_ns:
            if waiting[0].least > self.limit_ns:
                self.tally.bound += len(waiting)
                waiting.clear()
            elif is_over(self.tally.deterministic_time, self.time_limit):
                return waiting[0].least
            else:
                entry = heappop(waiting)
                options, known = entry.options, entry.bounds
                again = self._solve(entry, options, known) if options and known else self._opened(entry)
                if again is not None:
                    heappush(waiting, again)
        return None

    def _sharpened(self, strategies: Strategies, bounds: Ints) -> Iterator[Row]:
        """Rows that may hold a plan within the limit, with bounds that know of memory."""
        parts = pool_coefficients(self.requests, strategies)
        stages = self._shares(strategies)
        least = sharpened(parts, stages, bounds, self.limit_ns)
        self.tally.infeasible += int((least > self.limit_ns).sum())
        for row in np.flatnonzero(least <= self.limit_ns).tolist():
            yield Row(int(least[row]), strategies.key(row), row, parts, tuple(stages[row].tolist()))

    def _opened(self, entry: Row) -> Row | None:
        """The row with its options and bounds of its modes; None where no plan can be within the limit.

        Where a mode is sure to reach a step, nothing slower is of interest any more.
        """
        options = mixed_options(entry.parts, entry.row, self.limit_ns)
        self.tally.deterministic_time += OPTION_SECONDS * len(entry.parts)
        if options is None:
            self.tally.infeasible += 1
            return None
        bounds = mode_bounds(options, entry.shares, self.limit_ns)
        self.limit_ns = min(self.limit_ns, int(bounds.upper.min()))
        least = max(int(bounds.lower.min()), entry.least)
        if least > self.limit_ns:
            self.tally.bound += 1
            return None
        return entry._replace(least=least, options=options, bounds=bounds)

    def _solve(self, entry: Row, options: RowOptions, bounds: ModeBounds) -> Row | None:
        """Keeps a fastest plan of an opened row; the row with a higher bound where none is near its own."""
        trial = min(self.limit_ns, entry.least + entry.least // NEAR)
        near, fronts = bounds.within(options, trial)
        leaf = MixedLeaf(near, trial, fronts, shares=entry.shares)
        result = leaf.fastest(None)
        self.tally.deterministic_time += result.deterministic_time
        if result.plan is None and trial < self.limit_ns:
            return entry._replace(least=trial + 1)
        self.tally.leaves += 1
        if result.plan is not None:
            self._winner = (entry.parts[0].strategies, entry.row, leaf, result.plan)
            self.limit_ns = result.plan.step_ns - 1
        return None

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
        model = self.request.model
        names, found = pool_names(self.request.cluster), strategy_of(strategies, row, plan, model)
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
