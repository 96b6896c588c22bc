"""The end of a search: a master over the rows that are left, leaves for their stages, ties by their order."""

from __future__ import annotations

import numpy as np

from ..costs.columns import FLAGS, Strategies
from ..inputs.record import dataclass
from ..models.strategy import Stage, Strategy
from ..models.transformer import Transformer
from ..plans import Request
from .coefficients import Coefficients
from .few import few_ways
from .frontier import Frontier, frontier, row_bound
from .leaf import Leaf, LeafPlan
from .lower import NEVER
from .master import Master
from .options import RowOptions, row_options
from .outcome import Entry, Found, Outcome, Tally
from .rules import Rule
from .slots import chunk_sizes
from .table import FIELDS
from .watch import is_over, tell

MASTER_ROWS = 200
"""Rows a master holds at most."""

OPTION_SECONDS = 1e-3
SPAN_FACTOR = 5
"""Deterministic seconds charged for a row's option tables; for stacks of several kinds as often a stage."""


@dataclass
class _Row:
    """A row of a batch: the sharpest bound known, `NEVER` once it is closed, and its option tables."""

    entry: Entry
    bound: int
    made: tuple[RowOptions, tuple[Frontier, ...]] | None = None


@dataclass
class Closing:
    """Rows by rising bound, until none can be better or tie with better headroom or fewer mechanisms."""

    request: Request
    rules: list[Rule]
    tally: Tally
    limit_ns: int
    time_limit: float | None
    best: Found | None = None

    def run(self, entries: list[Entry]) -> Outcome:
        """The best plan of `entries`, which lie in order of their bounds."""
        distinct = _without_twins(entries)
        self.tally.bound += len(entries) - len(distinct)
        for first in range(0, len(distinct), MASTER_ROWS):
            batch = distinct[first : first + MASTER_ROWS]
            if batch[0].bound > self.limit_ns:
                self.tally.bound += len(distinct) - first
                break
            if self._out_of_time():
                return Outcome(self.best, batch[0].bound, False, self.tally)
            least = self._batch(batch)
            if least is not None:
                rest = [entry.bound for entry in distinct[first + len(batch) :][:1]]
                return Outcome(self.best, min([least, *rest]), False, self.tally)
        self.tally.leaf -= self.best is not None
        return Outcome(self.best, self.best.step_ns if self.best else None, True, self.tally)

    def early(self, entry: Entry) -> bool:
        """Whether a row is closed: solved before the others are known, so that its plan lowers the limit."""
        made = self._tables(entry)
        if made is None:
            self.tally.infeasible += 1
            return True
        if self._leaf(entry, *made[:2]) is None:
            return True
        self.tally.leaf -= 1
        return False

    def _charge(self, seconds: float) -> None:
        self.tally.deterministic_time += seconds

    def _out_of_time(self) -> bool:
        return is_over(self.tally.deterministic_time, self.time_limit)

    def alone(self, entry: Entry) -> Found | None:
        """The best plan of one row, or the best known by the time limit."""
        made = self._tables(entry)
        if made is not None:
            self._leaf(entry, *made[:2])
        return self.best

    def _batch(self, batch: list[Entry]) -> int | None:
        """Close every row of a batch; the least open bound if time ran out.

        The master chooses among rows whose bounds are as sharp as option tables make them; what a leaf proves
        of its choice returns to it.
        """
        rows = [_Row(entry, entry.bound) for entry in batch]
        known: list[_Row] = []
        master: Master | None = None
        closed = 0
        while True:
            closed += self._sharpened(rows)
            least = min(row.bound for row in rows)
            tell(self.limit_ns if self.limit_ns < NEVER - 1 else None, min(least, self.limit_ns))
            if least > self.limit_ns:
                break
            if self._out_of_time():
                return least
            if not known:
                known = [row for row in rows if row.bound <= self.limit_ns]
                master = self._master(known)
            row = known[0] if master is None else self._chosen(known, master)
            if row is None:
                break
            assert row.made is not None
            proved = self._leaf(row.entry, *row.made)
            if proved is not None:
                return min(row.bound, proved)
            closed, row.bound = closed + 1, NEVER
        self.tally.bound += len(batch) - closed
        return None

    def _master(self, known: list[_Row]) -> Master | None:
        """A master over the rows; None where there is one and no rule: nothing to choose."""
        if len(known) == 1 and not self.rules:
            return None
        return Master(_strategies(known), [row.bound for row in known], self.rules)

    def _chosen(self, known: list[_Row], master: Master) -> _Row | None:
        """The row the master chooses among those whose bounds it is told."""
        master.tell([row.bound for row in known])
        chosen = master.solve()
        if chosen is None:
            return None
        index, _, spent = chosen
        self.tally.masters += 1
        self._charge(spent)
        return known[index]

    def _sharpened(self, rows: list[_Row]) -> int:
        """Option tables for rows of least bound, until none without them may be the best; how many hold none.

        Ends early when time is over.
        """
        empty = 0
        while not self._out_of_time():
            least = min((row.bound for row in rows if row.made is not None), default=self.limit_ns)
            vague = [row for row in rows if row.made is None and row.bound <= min(least, self.limit_ns)]
            if not vague:
                break
            row = min(vague, key=lambda row: row.bound)
            made = self._tables(row.entry)
            if made is None:
                row.bound, empty = NEVER, empty + 1
            else:
                row.made, row.bound = made[:2], max(row.bound, made[2])
        self.tally.infeasible += empty
        return empty

    def _tables(self, entry: Entry) -> tuple[RowOptions, tuple[Frontier, ...], int] | None:
        """(options, frontier, bound) of a row, None where nothing of it is within the limit."""
        options = row_options(entry.part, entry.row, self.limit_ns, entry.level)
        stages = int(entry.part.strategies.pipeline_parallel[entry.row])
        several = len(self.request.model.kinds) > 1
        self._charge(OPTION_SECONDS * (SPAN_FACTOR * stages if several else 1))
        if options is None:
            return None
        fronts = frontier(options)
        bound = row_bound(options, fronts)
        return None if bound is None else (options, fronts, bound)

    def _leaf(self, entry: Entry, options: RowOptions, fronts: tuple[Frontier, ...]) -> int | None:
        """Solve a row; the proved bound if time ran out."""
        left = None if self.time_limit is None else self.time_limit - self.tally.deterministic_time
        result = few_ways(options, self.limit_ns) or Leaf(options, self.limit_ns, fronts).solve(left)
        self.tally.leaves += 1
        self.tally.leaf += 1
        self._charge(result.deterministic_time)
        if result.plan is not None:
            found = _found(entry, result.plan)
            if self.best is None or found.rank < self.best.rank:
                self.best = found
                self.limit_ns = found.step_ns
        return None if result.proved else result.bound_ns


def _strategies(rows: list[_Row]) -> Strategies:
    return Strategies.join([row.entry.part.strategies.take(np.array([row.entry.row])) for row in rows])


def _without_twins(entries: list[Entry]) -> list[Entry]:
    """Rows without those that cost the same in every coefficient; of such the least in (mechanisms, row)."""
    if len(entries) < 2:
        return entries
    least: dict[tuple[bytes, ...], Entry] = {}
    for entry in sorted(entries, key=lambda entry: (switches(entry.part, entry.row), entry.key)):
        least.setdefault(entry.part.signature(entry.row), entry)
    kept = {id(entry) for entry in least.values()}
    return [entry for entry in entries if id(entry) in kept]


def switches(coefficients: Coefficients, row: int) -> int:
    """Mechanisms a row turns on: degrees above one, ZeRO, interleaving, offload, the flags."""
    knobs = coefficients.strategies.row(row)
    degrees = ("tensor", "pipeline", "context", "expert", "expert_tensor", "data")
    on = [knobs[f"{name}_parallel"] > 1 for name in degrees]
    on += [knobs["secondary_shard_group_size"] > 1]
    on += [knobs["virtual_pipeline"] > 1, knobs["zero_stage"] > 0, *(knobs[name] for name in FLAGS)]
    on += [knobs[name] != "none" for name in ("offload_optimizer", "offload_params")]
    return sum(bool(value) for value in on)


def _found(entry: Entry, plan: LeafPlan) -> Found:
    """A plan with its rank among plans of equal step: most headroom, fewest mechanisms, least row."""
    at = {name: FIELDS.index(name) for name in FIELDS}
    headroom = min(stage[at["spare_kib"]] for stage in plan.stages)
    layers = sum(stage[at[name]] for stage in plan.stages for name in ("full", "selective", "offloaded"))
    mechanisms = switches(entry.part, entry.row) + layers
    strategy = strategy_of(entry.part.strategies, entry.row, plan, entry.part.request.model)
    return Found(strategy, plan.step_ns, entry.key, headroom, mechanisms)


def strategy_of(strategies: Strategies, row: int, plan: LeafPlan, model: Transformer) -> Strategy:
    """The strategy of a row with the stages a leaf chose, which hold the layers of `model`."""
    knobs = strategies.row(row)
    chunks = knobs["virtual_pipeline"]
    at = {name: FIELDS.index(name) for name in FIELDS}
    every = chunk_sizes(model, chunks, [chosen[at["layers"]] for chosen in plan.stages])
    stages = []
    for chosen, sizes in zip(plan.stages, every, strict=True):
        full, selective, offloaded = (chosen[at[name]] for name in ("full", "selective", "offloaded"))
        stages.append(
            Stage(
                layers=sum(sizes),
                recompute_full_layers=sum(min(full, size) for size in sizes),
                recompute_selective_layers=sum(min(selective, size) for size in sizes),
                offloaded_layers=min(offloaded, sum(sizes)),
                chunk_layers=sizes,
            )
        )
    return Strategy(**knobs, stages=tuple(stages))
