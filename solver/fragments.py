"""Planning on free cards: which of them to use, as blocks of equal size, and how stages lie on the leaves."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from ..hardware import Cluster
from ..inputs import InputError
from ..inputs.record import dataclass
from ..plans import Plan, Request
from .alternatives import ASIDE_SECONDS, Where
from .answer import Writers, plan_of
from .fragment_notices import fragment_notices
from .lower import NEVER
from .outcome import Entry, Outcome, Tally, Without
from .search import Search
from .shape import Shape, ideal_cluster, shapes
from .tables import Tables
from .worlds import work_bounds, worlds


@dataclass(frozen=True)
class _Opened:
    """A shape whose rows are open: those that may hold the best plan are closed once all shapes are known."""

    shape: Shape
    search: Search
    entries: list[Entry]

    @property
    def least_ns(self) -> int:
        """What no plan of it beats."""
        return min((entry.bound for entry in self.entries), default=NEVER)


@dataclass
class Fragments:
    """The search over worlds and shapes: the best plan, all else excluded by a bound or a search.

    Even plans lower the limit as shapes are opened; rows are closed at the end, those of least bounds first.
    """

    request: Request
    time_limit: float | None = None

    def __post_init__(self) -> None:
        self.best: tuple[Shape, Request, Outcome] | None = None
        self.last: tuple[Request, Outcome] | None = None
        self.proved = True
        self.leading: _Opened | None = None
        self._opened: list[_Opened] = []
        self._searches: list[Search] = []
        self._ideal: dict[int, Outcome | None] = {}

    @cached_property
    def limit_ns(self) -> int:
        """The longest step still of interest: the deadline, then one less than that of a plan."""
        deadline = self.request.limits.max_step_seconds
        return NEVER - 1 if deadline is None else int(deadline * 1e9)

    @property
    def tally(self) -> Tally:
        """Counts of all searches."""
        found = Tally()
        for search in self._searches:
            found.add(search.tally)
        return found

    def run(self) -> None:
        """Open what may hold the best plan, then close it."""
        self._open_all()
        for one in sorted(self._opened, key=lambda one: one.least_ns):
            if self._is_late and one is not self.leading:
                self.proved = False
                continue
            self._close(one)

    @property
    def _is_late(self) -> bool:
        return self.time_limit is not None and self.tally.deterministic_time >= self.time_limit

    def _open_all(self) -> None:
        """Worlds by what their work takes at least, until none can be faster than the best.

        Scattered blocks are no faster than as many cards in whole machines under one leaf, nor than blocks
        of their size under one leaf: where a search of these finds nothing, no layout is looked at.
        """
        bounds = work_bounds(self.request)
        order = sorted(
            (min(bounds[cards].values()), -cards, -size)
            for cards, size in worlds(self.request.cluster)
            if cards in bounds
        )
        sizes = Counter(cards for _, cards, _ in order)
        for least, cards, size in order:
            if least > self.limit_ns and self._opened:
                break
            stages = [p for p, bound in bounds[-cards].items() if bound <= self.limit_ns or not self._opened]
            laid = list(shapes(self.request, -cards, -size, stages))
            if not laid or (sizes[cards] > 1 and not self._worth(-cards, stages)):
                continue
            near = laid[0][0].near
            if len(laid) > 1 and self.leading is not None and not self._reaches(near, stages):
                continue
            for shape, some in laid:
                if self._is_late:
                    self.proved = False
                    return
                self._open(shape, some)

    def _worth(self, cards: int, stages: Sequence[int]) -> bool:
        """Whether so many cards in whole machines under one leaf could be faster than the best."""
        if self.leading is None:
            return True
        if cards not in self._ideal:
            ideal = ideal_cluster(self.request.cluster.node, cards)
            self._ideal[cards] = self._below(ideal, stages).run() if ideal else None
        found = self._ideal[cards]
        if found is None or not found.proved:
            return True
        return found.best is not None and found.best.step_ns <= self.limit_ns

    @property
    def whole_ns(self) -> dict[int, int]:
        """By number of cards the step on whole machines under one leaf, where it was searched for."""
        known = {cards: found for cards, found in self._ideal.items() if found and found.proved}
        return {cards: found.best.step_ns for cards, found in known.items() if found.best}

    def _reaches(self, near: Cluster, stages: Sequence[int]) -> bool:
        """Whether blocks under one leaf could be faster than the best, as far as time allowed."""
        search = self._below(near, stages)
        return bool(search.opened()) or search.left_ns <= search.limit_ns

    def _below(self, cluster: Cluster, stages: Sequence[int]) -> Search:
        """The search on a plain cluster, below the best so far."""
        search = Search(self._on(cluster, stages), self.time_limit)
        search.limit_ns = min(search.limit_ns, self.limit_ns)
        self._searches.append(search)
        return search

    def _on(self, cluster: Cluster, stages: Sequence[int]) -> Request:
        choose = self.request.choose.model_copy(
            update={"pipeline_parallel": tuple(sorted(stages)), "rank_order": ("tp-cp-dp-pp",)}
        )
        return self.request.model_copy(update={"cluster": cluster, "choose": choose})

    def _open(self, shape: Shape, stages: Sequence[int]) -> None:
        search = self._below(shape.virtual, stages)
        one = _Opened(shape, search, search.opened())
        self._opened.append(one)
        if search.leader is not None:
            self.leading, self.limit_ns = one, search.limit_ns - 1

    def _close(self, one: _Opened) -> None:
        search = one.search
        holds = one is self.leading and self.best is None
        search.limit_ns = min(search.limit_ns, self.limit_ns + holds)
        outcome = search.closed(one.entries)
        if outcome.best is not None and outcome.best.step_ns <= search.limit_ns:
            self.best = (one.shape, search.request, outcome)
            self.limit_ns = outcome.best.step_ns - 1
        if one is self._opened[0]:
            self.last = search.request, outcome
        self.proved &= outcome.proved


def scattered(
    request: Request, changes: Mapping[str, Any], limit_ns: int | None, tables: Tables | None
) -> Where | None:
    """As `plain` for free cards, with the request on the blocks that were found best."""
    try:
        found = Fragments(request.changed(changes), ASIDE_SECONDS)
    except InputError:
        return None
    if limit_ns is not None:
        found.limit_ns = min(found.limit_ns, limit_ns)
    found.run()
    if found.best is None or not found.proved or found.best[2].best is None:
        return None
    return found.best[1], found.best[2].best


def plan_fragments(request: Request, time_limit: float | None, writers: Writers | None) -> Plan | Without:
    """The fastest plan on the free cards of a cluster, and what their being scattered costs."""
    found = Fragments(request, time_limit)
    found.run()
    if found.best is None:
        virtual, outcome = found.last or (request, Outcome(None, None, True, found.tally))
        return Without(virtual, replace(outcome, proved=found.proved))
    shape, virtual, outcome = found.best
    whole = Outcome(outcome.best, outcome.bound_ns, found.proved, found.tally)
    plan = plan_of(virtual, whole, writers)
    notes = (*plan.warnings, *fragment_notices(request, shape, plan, found.whole_ns))
    return plan.model_copy(update={"inputs_hash": request.inputs_hash(), "warnings": notes})
