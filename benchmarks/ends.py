"""The ends of an interval that holds rows of sources it was drawn without.

Rows are put in order, each source with the weight of its credibility: rows of one source err alike, so a
hundred of them weigh little more than ten, and one weighs less. The ends at a level have that share of the
weight on their inner side. The level is the least at which, each source left out of drawing in turn, the
weighed share of rows inside is `INSIDE`. The two ends need not lie alike, and the prediction lies between
them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

INSIDE = 0.8
"""Share of rows that an interval shall hold."""
LEVELS = np.arange(100, 201) / 200.0
"""Shares of the weight on the inner side of an end: 0.5 to 1."""


@dataclass(frozen=True)
class Pool:
    """ln(measured / predicted) of rows in ascending order, and the source of each."""

    logs: Array
    sources: npt.NDArray[np.int64]
    names: tuple[str, ...]

    @classmethod
    def of(cls, rows: Iterable[tuple[str, float]]) -> Pool:
        """Of pairs of source and ln(measured / predicted)."""
        ordered = sorted(rows, key=lambda row: row[1])
        names = tuple(sorted({source for source, _ in ordered}))
        place = {name: index for index, name in enumerate(names)}
        sources = np.array([place[source] for source, _ in ordered], dtype=np.int64)
        return cls(np.array([size for _, size in ordered]), sources, names)

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """Rows of each source."""
        return np.bincount(self.sources, minlength=len(self.names))

    @cached_property
    def credibility(self) -> Array:
        """The weight of each source: n rows weigh n / (n + alike), see `alike_of`."""
        alike = alike_of([self.logs[self.sources == index] for index in range(len(self.names))])
        found: Array = self.counts / (self.counts + alike)
        return found

    @cached_property
    def weights(self) -> Array:
        """A source's weight, shared by its rows."""
        found: Array = (self.credibility / self.counts)[self.sources]
        return found

    def ends(self, levels: Array, without: Collection[int] = ()) -> tuple[Array, Array]:
        """Lower and upper end at each level, of the sources that are not `without`."""
        kept = ~np.isin(self.sources, list(without))
        logs, weights = self.logs[kept], self.weights[kept]
        up, down = np.cumsum(weights), np.cumsum(weights[::-1])
        last = len(logs) - 1
        high = logs[np.minimum(np.searchsorted(up, levels * up[-1] - 1e-9), last)]
        low = logs[::-1][np.minimum(np.searchsorted(down, levels * down[-1] - 1e-9), last)]
        return np.minimum(low, 0.0), np.maximum(high, 0.0)

    def held(self, without: Collection[int] = ()) -> Array:
        """The weighed share of rows inside at each of `LEVELS`, each source drawn without itself."""
        left = [index for index in range(len(self.names)) if index not in without]
        shares = []
        for index in left:
            low, high = self.ends(LEVELS, {index, *without})
            mine = self.logs[self.sources == index][:, None]
            shares.append(((low <= mine) & (mine <= high)).mean(axis=0))
        found: Array = np.average(shares, axis=0, weights=self.credibility[left])
        return found

    def drawn(self, without: Collection[int] = ()) -> tuple[float, float]:
        """Lower and upper end; of a single source its least and greatest row."""
        level = LEVELS[-1:]
        if len(self.names) - len(without) > 1:
            enough = np.flatnonzero(self.held(without) >= INSIDE - 1e-9)
            level = LEVELS[enough[:1]] if len(enough) else level
        low, high = self.ends(level, without)
        return float(low[0]), float(high[0])


def alike_of(sizes: Sequence[Sequence[float] | Array]) -> float:
    """Variance of `sizes` within sources over that between their means; all rows where sources do not differ.

    The k of the credibility n / (n + k) of n rows (Bühlmann, Experience rating and credibility, ASTIN
    Bulletin 4, 1967).

    >>> round(alike_of([[0.1, 0.3], [0.5, 0.7], [0.9, 1.1]]), 3)
    0.207
    """
    several = [mine for mine in sizes if len(mine) > 1]
    rows = float(sum(map(len, sizes)))
    if not several:
        return rows
    within = float(np.mean([np.var(mine, ddof=1) for mine in several]))
    between = float(np.var([np.mean(mine) for mine in sizes])) - within * float(
        np.mean([1.0 / len(mine) for mine in sizes])
    )
    return within / between if between > 0.0 else rows
