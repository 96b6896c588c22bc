"""The leaf of a row on several pools of cards: each stage takes a pool, each pool its number of stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..costs.columns import Ints
from ..inputs.record import dataclass
from .bounds import longest
from .coefficients import Coefficients
from .leaf import Leaf
from .options import Mode, RowOptions, mode_tables, undominated
from .table import FIELDS, RowTable

POOL = len(FIELDS)
"""Column of an option that tells its pool."""


def mixed_options(parts: Sequence[Coefficients], row: int, limit_ns: int) -> RowOptions | None:
    """Option tables of a row, the options of all pools side by side; None where no mode has any."""
    tables = [RowTable(part, row, int(part.depth[row])) for part in parts]
    first, layers = parts[0], parts[0].request.model.layers // tables[0].chunks
    passes = int(first.passes[row])
    most = max(int(longest(part, np.array([row]), limit_ns)[0]) for part in parts)
    found = list(_modes(tables, most, passes, limit_ns))
    if not found:
        return None
    modes, chosen = zip(*found, strict=True)
    contiguous = len(first.request.model.kinds) > 1
    return RowOptions(modes, chosen, passes, layers, contiguous, 1, 1, 2**60, chunks=tables[0].chunks)


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


@dataclass
class MixedLeaf(Leaf):
    """The leaf model with one count a pool: `shares` stages of each."""

    shares: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        for pool, number in enumerate(self.shares):
            picks = [
                pick
                for k, tables in enumerate(self.options.tables)
                for stage, table in enumerate(tables)
                for option, pick in zip(table, self.uses[k][stage], strict=True)
                if int(option[POOL]) == pool
            ]
            self.model.add(sum(picks) == number)
