"""Leaves with few ways to fill their stages: all are looked at, without a solver."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..costs.columns import Bools, Ints
from ..inputs.record import dataclass
from .leaf import LARGEST, LeafPlan, LeafResult, steps_of
from .options import RowOptions
from .stage_limits import SHARES
from .table import SHOWN_CHUNK, SHOWN_TAIL

MOST = 2**14
"""Ways into a stage, times its options, that are still looked at."""


def few_ways(options: RowOptions, limit_ns: int) -> LeafResult | None:
    """What `Leaf.solve` answers, where every way can be looked at; None where there are too many.

    Of one stage all options are.
    """
    best: tuple[tuple[int, ...], LeafPlan] | None = None
    for mode, tables in zip(options.modes, options.tables, strict=True):
        stages = _ways(options, tables, limit_ns)
        if stages is None:
            return None
        step = steps_of(stages, options.passes, options.chunks)
        some = np.flatnonzero(_kept(options, stages, step) & (step <= limit_ns))
        if not len(some):
            continue
        spare, switched = stages[some, :, 8].min(axis=1), stages[some, :, 2:5].sum(axis=(1, 2))
        first = np.lexsort((switched, -spare, step[some]))[0]
        rank = (int(step[some[first]]), -int(spare[first]), int(switched[first]))
        if best is None or rank < best[0]:
            best = rank, LeafPlan(rank[0], mode, tuple(map(tuple, stages[some[first]].tolist())))
    if best is None:
        return LeafResult(None, LARGEST, True, 0.0)
    return LeafResult(best[1], best[1].step_ns, True, 0.0)


@dataclass(frozen=True)
class _Rest:
    """What the stages from each one on hold at least and at most, and how long their chunks are at least."""

    fewest: list[int]
    most: list[int]
    chunks: list[int]

    @classmethod
    def of(cls, tables: Sequence[Ints]) -> _Rest:
        """The sums behind each stage of `tables`."""
        ends = ((1, np.min), (1, np.max), (5, np.min))
        each = [[int(least(table[:, column])) for table in tables] for column, least in ends]
        return cls(*([sum(values[stage:]) for stage in range(len(tables) + 1)] for values in each))


def _ways(options: RowOptions, tables: Sequence[Ints], limit_ns: int) -> Ints | None:
    """Options of all stages of each way that holds all layers, (ways, stages, fields); None if too many.

    Stage by stage, without those that the rest cannot complete within the limit.
    """
    rest = _Rest.of(tables)
    picked = np.zeros((1, 0), dtype=np.int64)
    held = slowest = total = tail = np.zeros(1, dtype=np.int64)
    for stage, table in enumerate(tables):
        if stage and len(held) * len(table) > MOST:
            return None
        way, option = (part.reshape(-1) for part in np.indices((len(held), len(table))))
        here = table[option]
        start, held = held[way], held[way] + here[:, 1]
        slowest, tail = np.maximum(slowest[way], here[:, 5]), np.maximum(tail[way], here[:, 6])
        total = total[way] + here[:, 5]
        least = (options.passes - 1) * slowest + total + rest.chunks[stage + 1] + tail
        kept: Bools = least <= limit_ns
        if options.contiguous:
            kept &= start == here[:, 0]
        else:
            left = options.layers - held
            kept &= (rest.fewest[stage + 1] <= left) & (left <= rest.most[stage + 1])
        picked = np.column_stack([picked[way[kept]], option[kept]])
        held, slowest, total, tail = held[kept], slowest[kept], total[kept], tail[kept]
    return np.stack([table[picked[:, stage]] for stage, table in enumerate(tables)], axis=1)


def _kept(options: RowOptions, stages: Ints, step: Ints) -> Bools:
    """Ways whose nodes hold what is offloaded, and that show little enough communication."""
    firsts = np.arange(0, stages.shape[1], options.node_stages)
    blocks = np.add.reduceat(stages[:, :, 7], firsts, axis=1)
    found: Bools = blocks.max(axis=1) * options.node_cards <= options.host_capacity_kib
    if options.comm_share is None:
        return found
    every = np.arange(len(stages))
    slowest, longest = stages[:, :, 5].argmax(axis=1), stages[:, :, 6].argmax(axis=1)
    shown = options.passes * stages[every, slowest, SHOWN_CHUNK] + stages[every, longest, SHOWN_TAIL]
    little: Bools = found & (SHARES * shown <= options.comm_share * step)
    return little
