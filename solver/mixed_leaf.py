"""The leaf of a row on several pools of cards: each stage takes a pool, each pool its number of stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..costs.columns import Ints
from .bounds import longest
from .coefficients import Coefficients
from .frontier import Breakpoint, frontier
from .leaf import Leaf
from .options import Mode, RowOptions, mode_tables, undominated
from .table import FIELDS, RowTable

POOL = len(FIELDS)
"""Column of an option that tells its pool."""


def mixed_options(parts: Sequence[Coefficients], row: int, limit_ns: int) -> RowOptions | None:
    """Option tables of a row, the options of all pools side by side; None where no mode has any."""
    tables = [RowTable(part, row) for part in parts]
    first, layers = parts[0], parts[0].request.model.layers // tables[0].chunks
    passes = int(first.passes[row])
    most = max(int(longest(part, np.array([row]), limit_ns)[0]) for part in parts)
    found = list(_modes(tables, most, passes, limit_ns))
    if not found:
        return None
    modes, chosen = zip(*found, strict=True)
    contiguous = len(first.request.model.kinds) > 1
    return RowOptions(modes, chosen, passes, layers, contiguous, 1, 1, 2**60)


def _modes(
    tables: Sequence[RowTable], most: int, passes: int, limit_ns: int
) -> Iterator[tuple[Mode, tuple[Ints, ...]]]:
    """Modes with the options of each stage on every pool."""
    for mode, pools in mode_tables(tables, most):
        kept = [
            [stage[stage[:, 5] * passes + stage[:, 6] <= limit_ns] for stage in stages] for stages in pools
        ]
        if mode.number is None:
            kept = [[undominated(stage) if len(stage) else stage for stage in stages] for stages in kept]
        joined = _joined(kept)
        if all(len(stage) for stage in joined):
            yield mode, joined


def _joined(pools: Sequence[Sequence[Ints]]) -> tuple[Ints, ...]:
    """The options of each stage with their pool as a last column."""
    marked = [
        [np.column_stack([stage, np.full(len(stage), index, dtype=np.int64)]) for stage in pool]
        for index, pool in enumerate(pools)
    ]
    return tuple(np.concatenate([pool[i] for pool in marked]) for i in range(len(marked[0])))


@dataclass(frozen=True)
class Shares:
    """How many stages each pool holds: what a bottleneck can hold when pools are limited."""

    stages: tuple[int, ...]

    def held(self, options: list[Ints], tau: int) -> int:
        """Most layers with chunks of at most `tau`; exact for two pools, with more a stage chooses freely."""
        if len(self.stages) != 2:
            return sum(int(stage[stage[:, 1] <= tau, 0].max()) for stage in options)
        most = np.array([[_most(stage, tau, pool) for pool in (0, 1)] for stage in options])
        gain = np.sort(most[:, 1] - most[:, 0])[::-1]
        return int(most[:, 0].sum() + gain[: self.stages[1]].sum())


def _most(stage: Ints, tau: int, pool: int) -> int:
    """Most layers of a stage on `pool` with a chunk of at most `tau`; far below none without options."""
    fits = stage[(stage[:, 1] <= tau) & (stage[:, 3] == pool), 0]
    return int(fits.max()) if len(fits) else -(2**20)


@dataclass
class MixedLeaf(Leaf):
    """The leaf model with one count a pool."""

    shares: Shares = field(default_factory=lambda: Shares(()))

    def __post_init__(self) -> None:
        if not self.points:
            self.points = mixed_frontier(self.options, self.shares)
        super().__post_init__()
        for pool, number in enumerate(self.shares.stages):
            picks = [
                pick
                for k, tables in enumerate(self.options.tables)
                for stage, table in enumerate(tables)
                for option, pick in zip(table, self.uses[k][stage], strict=True)
                if int(option[POOL]) == pool
            ]
            self.model.add(sum(picks) == number)


def mixed_frontier(options: RowOptions, shares: Shares) -> list[Breakpoint]:
    """The frontier under the pools' numbers of stages."""
    return frontier(options, shares.held)
