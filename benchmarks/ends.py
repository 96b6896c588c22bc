"""The ends of an interval that holds rows of sources it was drawn without.

Rows are put in order, each source with the same weight; the ends at a level have that share of the weight
on their inner side. The level is the least at which, each source left out of drawing in turn, the sources'
mean share of rows inside is `INSIDE`. The two ends need not lie alike, and the prediction lies between them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
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
    def weights(self) -> Array:
        """A source's weight of 1, shared by its rows."""
        found: Array = 1.0 / np.bincount(self.sources, minlength=len(self.names))[self.sources]
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
        """The sources' mean share of rows inside at each of `LEVELS`, each drawn without itself."""
        left = [index for index in range(len(self.names)) if index not in without]
        shares = []
        for index in left:
            low, high = self.ends(LEVELS, {index, *without})
            mine = self.logs[self.sources == index][:, None]
            shares.append(((low <= mine) & (mine <= high)).mean(axis=0))
        found: Array = np.mean(shares, axis=0)
        return found

    def drawn(self, without: Collection[int] = ()) -> tuple[float, float]:
        """Lower and upper end; of a single source its least and greatest row."""
        level = LEVELS[-1:]
        if len(self.names) - len(without) > 1:
            enough = np.flatnonzero(self.held(without) >= INSIDE - 1e-9)
            level = LEVELS[enough[:1]] if len(enough) else level
        low, high = self.ends(level, without)
        return float(low[0]), float(high[0])
