"""The search: rows by bound, a master over survivors, leaves for the stages, and the count of it all."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ..costs.columns import Bools, Ints, Strategies
from ..models.strategy import Stage, Strategy
from ..plans import Request
from .bounds import NEVER, can_fit, time_bound, within
from .coefficients import Coefficients
from .frontier import frontier, row_bound
from .leaf import Leaf, LeafPlan
from .master import Master
from .options import RowOptions, row_options
from .rules import Rule
from .space import cut_by, rows
from .table import FIELDS
from .uniform import uniform

FIRST_BATCH = 64
BATCH = 2048
"""Rows whose memory is priced at once, the first time and later."""

MASTER_ROWS = 200
"""Rows a master holds at most."""

ROW_SECONDS = 2e-6
PRICED_SECONDS = 2e-5
OPTION_SECONDS = 1e-3
SPAN_FACTOR = 5
"""Deterministic seconds charged for a row listed, a row's memory priced, and a row's option tables.

Stacks of several kinds have a table of spans a stage, which takes `SPAN_FACTOR` as long.
"""


@dataclass
class Tally:
    """What was considered and why it fell out: the certificate."""

    rows: int = 0
    rule: int = 0
    infeasible: int = 0
    bound: int = 0
    leaf: int = 0
    leaves: int = 0
    masters: int = 0
    deterministic_time: float = 0.0
    by_rule: dict[str, int] = field(default_factory=dict)

    def excluded(self) -> dict[str, int]:
        """Rows excluded by each means."""
        return {"rule": self.rule, "infeasible": self.infeasible, "bound": self.bound, "leaf": self.leaf}


@dataclass(frozen=True)
class Found:
    """The best plan of a row, with the row's strategy."""

    strategy: Strategy
    step_ns: int
    key: tuple[int, ...]


@dataclass(frozen=True)
class Outcome:
    """How a search ended: the best found, the proved bound, whether it is proved."""

    best: Found | None
    bound_ns: int | None
    proved: bool
    tally: Tally


@dataclass
class Search:
    """One question. `limit_ns` is the largest step still of interest."""

    request: Request
    time_limit: float | None = None
    tally: Tally = field(default_factory=Tally)
    best: Found | None = None
    limit_ns: int = NEVER - 1

    def __post_init__(self) -> None:
        deadline = self.request.limits.max_step_seconds
        if deadline is not None:
            self.limit_ns = int(deadline * 1e9)
        origin = self.request.origin("choose.rules")
        self.rules = [Rule(text, origin) for text in self.request.choose.rules]

    def run(self) -> Outcome:
        """Search to the end, or to the time limit."""
        for rule in self.rules:
            _ = rule.tree
        coefficients = Coefficients(self.request, self._filtered(rows(self.request)))
        if not len(coefficients.strategies):
            return Outcome(None, None, True, self.tally)
        open_rows = self._survivors(coefficients)
        return self._close(open_rows)

    def _filtered(self, strategies: Strategies) -> Strategies:
        """Rows that obey every rule and limit on knobs."""
        self.tally.rows = len(strategies)
        self._charge(ROW_SECONDS * len(strategies))
        keep = np.ones(len(strategies), dtype=np.bool_)
        for name, mask in cut_by(self.request, strategies).items():
            self.tally.by_rule[name] = int((~mask).sum())
            keep &= mask
        self.tally.rule = int((~keep).sum())
        return strategies.take(keep)

    def _charge(self, seconds: float) -> None:
        self.tally.deterministic_time += seconds

    def _out_of_time(self) -> bool:
        return self.time_limit is not None and self.tally.deterministic_time >= self.time_limit

    def _survivors(self, coefficients: Coefficients) -> list[tuple[int, Coefficients, int]]:
        """(bound, coefficients, row) of rows that may hold a plan within the limit, by rising bound."""
        bounds = time_bound(coefficients)
        order = np.argsort(bounds, kind="stable")
        parts: list[tuple[Coefficients, Ints, Bools]] = []
        done = 0
        for batch in _batches(order):
            worth: Ints = batch[bounds[batch] <= self.limit_ns]
            if not len(worth):
                break
            done += len(worth)
            part = coefficients.take(worth)
            fits = can_fit(part)
            self.tally.infeasible += int((~fits).sum())
            self._charge(PRICED_SECONDS * len(worth))
            self.limit_ns = min(self.limit_ns, self._uniform(part, fits))
            parts.append((part, bounds[worth], fits))
            if len(worth) < len(batch):
                break
        self.tally.bound += len(bounds) - done
        return [entry for part, some, fits in parts for entry in self._near(part, some, fits)]

    def _near(self, part: Coefficients, bounds: Ints, fits: Bools) -> Iterator[tuple[int, Coefficients, int]]:
        """Rows of a part that may still be within the limit, now that every part has told its incumbent."""
        near = fits & within(part, bounds, self.limit_ns)
        self.tally.bound += int((fits & ~near).sum())
        for row in np.flatnonzero(near):
            yield int(bounds[row]), part, int(row)

    def _uniform(self, part: Coefficients, fits: Bools) -> int:
        return int(np.where(fits, uniform(part), NEVER).min(initial=NEVER))

    def _close(self, open_rows: list[tuple[int, Coefficients, int]]) -> Outcome:
        """Masters over bound-ordered batches until no open row can be better."""
        position, size = 0, 8
        while position < len(open_rows) and open_rows[position][0] <= self.limit_ns:
            if self._out_of_time():
                return self._stopped(open_rows[position][0])
            batch = [e for e in open_rows[position : position + size] if e[0] <= self.limit_ns]
            least = self._batch(batch)
            if least is not None:
                return self._stopped(min([least] + [e[0] for e in open_rows[position + len(batch) :][:1]]))
            position += len(batch)
            size = min(size * 4, MASTER_ROWS)
        self.tally.bound += len(open_rows) - position
        return Outcome(self.best, self.best.step_ns if self.best else None, True, self.tally)

    def _stopped(self, bound: int) -> Outcome:
        return Outcome(self.best, bound, False, self.tally)

    def _batch(self, batch: list[tuple[int, Coefficients, int]]) -> int | None:
        """Close every row of a batch; the least open bound if time ran out."""
        tables: dict[int, RowOptions] = {}
        bounds: list[int] = []
        kept: list[tuple[int, Coefficients, int]] = []
        for bound, part, row in batch:
            if self._out_of_time():
                return min([bound, *bounds])
            options = row_options(part, row, self.limit_ns)
            stages = int(part.strategies.pipeline_parallel[row])
            several = len(self.request.model.kinds) > 1
            self._charge(OPTION_SECONDS * (SPAN_FACTOR * stages if several else 1))
            points = frontier(options) if options else []
            sharper = row_bound(options, points) if options else None
            if options is None or sharper is None:
                self.tally.infeasible += 1
                continue
            tables[len(kept)] = options
            bounds.append(max(bound, sharper))
            kept.append((bound, part, row))
        if not kept:
            return None
        strategies = Strategies.join([part.strategies.take(np.array([row])) for _, part, row in kept])
        return self._master(Master(strategies, bounds, self.rules), tables, kept)

    def _master(
        self, master: Master, tables: dict[int, RowOptions], kept: list[tuple[int, Coefficients, int]]
    ) -> int | None:
        """Leaves in the master's order; each result returns to it as a cut."""
        closed: set[int] = set()
        while (chosen := master.solve()) is not None:
            row, bound, spent = chosen
            self.tally.masters += 1
            self._charge(spent)
            if bound > self.limit_ns:
                break
            if self._out_of_time():
                return bound
            left = None if self.time_limit is None else self.time_limit - self.tally.deterministic_time
            result = Leaf(tables[row], self.limit_ns).solve(left)
            self.tally.leaves += 1
            self._charge(result.deterministic_time)
            if result.plan is not None:
                self._improve(kept[row], result.plan)
            if not result.proved:
                return min(bound, result.bound_ns)
            closed.add(row)
            master.cut(row)
        winner = 1 if self.best is not None and self._holds(kept) else 0
        self.tally.leaf += len(closed) - winner
        self.tally.bound += len(kept) - len(closed)
        return None

    def _holds(self, kept: list[tuple[int, Coefficients, int]]) -> bool:
        """Whether the best plan so far is of one of these rows."""
        return self.best is not None and any(
            part.strategies.key(row) == self.best.key for _, part, row in kept
        )

    def _improve(self, entry: tuple[int, Coefficients, int], plan: LeafPlan) -> None:
        """A better plan: from now on only a strictly faster one is of interest."""
        _, part, row = entry
        found = Found(strategy_of(part.strategies, row, plan), plan.step_ns, part.strategies.key(row))
        self.best = found
        self.limit_ns = plan.step_ns - 1


def _batches(order: Ints) -> Iterator[Ints]:
    start, size = 0, FIRST_BATCH
    while start < len(order):
        yield order[start : start + size]
        start, size = start + size, min(size * 4, BATCH)


def strategy_of(strategies: Strategies, row: int, plan: LeafPlan) -> Strategy:
    """The strategy of a row with the stages a leaf chose."""
    knobs = strategies.row(row)
    chunks = knobs["virtual_pipeline"]
    at = {name: FIELDS.index(name) for name in FIELDS}
    stages = tuple(
        Stage(
            layers=chosen[at["layers"]] * chunks,
            recompute_full_layers=chosen[at["full"]] * chunks,
            recompute_selective_layers=chosen[at["selective"]] * chunks,
            offloaded_layers=chosen[at["offloaded"]],
        )
        for chosen in plan.stages
    )
    return Strategy(**knobs, stages=stages)
