"""How far measured step times lie from predicted ones: by row, by kind of run, and without a source.

A row's kind is what a planner knows before a run: its card is new where no other source of the fit measured
it; on other cards the step is near what the cards can do at all, or far from it (`shardwise.costs.scatter`).
`ends` says how an interval is drawn; a kind of fewer than `LEAST_SOURCES` has that of all runs.

Once these two facts are known no other makes kinds whose intervals score better on left-out sources: not how
many of its settings a row tells, nor experts, adapters, precision, software, how many cards, which links,
offload or how long a step is; nor do they where each multiplies the scatter instead.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean

import numpy as np

from shardwise.costs.interval import ANY, LEAST_SOURCES
from shardwise.costs.scatter import OwnScatter, Scatter, StepKind, drawn, step_kind
from shardwise.runs.priced import Run

from .ends import INSIDE, Pool, alike_of
from .fit import trusted
from .left_out import constants_without


@dataclass(frozen=True)
class Residual:
    """A run's ln(measured / predicted), and what decides its kind."""

    source: str
    log: float
    limit_fraction: float
    """The physical limit over the predicted step."""
    stack: str
    gpu: str
    trusted: bool = True
    fitted: bool = True
    """Whether its source was in the fit."""

    @classmethod
    def of(cls, run: Run) -> Residual:
        """Of a run with a measured time."""
        source = run.job.record.text("source")
        return cls(
            source=source,
            log=log((run.measured_seconds or 0.0) / run.seconds),
            limit_fraction=run.ledger.limit_fraction,
            stack=run.candidate.strategy.software_stack,
            gpu=run.job.cluster.node.gpu.name,
            trusted=trusted(run.job.record),
            fitted=source in constants_without(),
        )

    @property
    def ran(self) -> str:
        """Its software on its card."""
        return f"{self.stack}/{self.gpu}"

    def kind(self, cards: Mapping[str, Collection[str]]) -> StepKind:
        """Its kind, where `cards` has the sources of the fit that measured a card."""
        return step_kind(self.limit_fraction, self.measured(cards))

    def measured(self, cards: Mapping[str, Collection[str]]) -> bool:
        """Whether another source of the fit measured its card."""
        return bool(set(cards.get(self.gpu, ())) - {self.source})


def sources_by(rows: Iterable[Residual], key: Callable[[Residual], str]) -> dict[str, list[str]]:
    """Sources of the fit by what they ran."""
    found: dict[str, set[str]] = defaultdict(set)
    for row in rows:
        if row.fitted:
            found[key(row)].add(row.source)
    return {name: sorted(sources) for name, sources in sorted(found.items())}


Kinds = dict[str, Pool]


def pools_of(rows: Sequence[Residual]) -> Kinds:
    """The rows of each kind, and of all; a kind of few sources is left to that of all."""
    cards = sources_by(rows, lambda row: row.gpu)
    found: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for row in rows:
        for kind in (row.kind(cards), ANY):
            found[kind].append((row.source, row.log))
    pools = {kind: Pool.of(found[kind]) for kind in sorted(found)}
    return {kind: pool for kind, pool in pools.items() if kind == ANY or len(pool.names) >= LEAST_SOURCES}


def scatters_of(pools: Kinds, without: str | None = None) -> dict[str, Scatter]:
    """Scatter by kind; that `without` a source of the kinds that it has rows of.

    >>> rows = [Residual(s, 0.1 * i, 0.5, "", "T4") for s in "abcd" for i in range(6)]
    >>> found = scatters_of(pools_of(rows))["near"]
    >>> round(found.low, 2), round(found.high, 2), found.rows, found.sources
    (1.0, 1.49, 24, 4)
    """
    if without is None:
        return {kind: _scatter(pool) for kind, pool in pools.items()}
    return {
        kind: _scatter(pool, {pool.names.index(without)})
        for kind, pool in pools.items()
        if without in pool.names and len(pool.names) > 1
    }


def _scatter(pool: Pool, without: Collection[int] = ()) -> Scatter:
    low, high = pool.drawn(without)
    kept = ~np.isin(pool.sources, list(without))
    return Scatter(
        low=round(exp(low), 4),
        high=round(exp(high), 4),
        rows=int(kept.sum()),
        sources=len(pool.names) - len(without),
    )


def own_scatter_of(rows: Iterable[Residual]) -> OwnScatter:
    """How far rows of the fit lie from the mean of the other rows of their source."""
    logs: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.fitted:
            logs[row.source].append(row.log)
    several = [mine for _, mine in sorted(logs.items()) if len(mine) > 1]
    sizes = [[abs(each - (sum(mine) - each) / (len(mine) - 1)) for each in mine] for mine in several]
    scale, alike = fmean(map(fmean, sizes)), alike_of(sizes)
    return OwnScatter(
        scale=round(scale, 4),
        alike=round(alike, 2),
        times=round(_times(sizes, scale, alike), 2),
        rows=sum(map(len, sizes)),
        sources=len(sizes),
    )


def _times(sizes: Sequence[Sequence[float]], scale: float, alike: float) -> float:
    """What 80 % of rows lie within, in scales drawn from the other rows of their source; sources alike."""
    found = [
        (size / drawn([*mine[:place], *mine[place + 1 :]], scale, alike), 1.0 / len(mine))
        for mine in sizes
        for place, size in enumerate(mine)
    ]
    enough, total = INSIDE * sum(weight for _, weight in found), 0.0
    for ratio, weight in sorted(found):
        total += weight
        if total >= enough - 1e-9:
            return ratio
    return max(found)[0]
