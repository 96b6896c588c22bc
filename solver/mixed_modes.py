"""What the modes of a row on several pools can hold, and what that costs at least: all modes at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from math import prod

import numpy as np

from ..costs.columns import Bools, Ints, distinct
from ..inputs.record import dataclass
from .lower import NEVER
from .mixed_bounds import most_held
from .options import RowOptions

SUM_NEVER = 2**50
"""A sum of chunks no stages reach, ns: small enough that stages of them can be added."""

MOST_STATES = 2**20
"""Counts of stages and layers over all modes of a row that are looked at one by one."""


@dataclass(frozen=True)
class ModeCosts:
    """Chunk and tail in ns of what stages may hold, (modes, stages, pools, layers); `NEVER` where not."""

    chunk: Ints
    tail: Ints
    layers: int
    shares: tuple[int, ...]
    """Stages of each pool; none where they are too many to count: then each stage chooses freely."""
    exact: bool
    """Whether what fits here is a plan: one kind of layers, one option for each number of them."""

    @classmethod
    def of(cls, options: RowOptions, stages_of_pools: tuple[int, ...]) -> ModeCosts:
        """The cheapest of the options that hold as many layers, wherever they start."""
        modes, stages, pools = len(options.tables), len(options.tables[0]), len(stages_of_pools)
        flat = [table for tables in options.tables for table in tables]
        every = np.concatenate(flat)
        place = np.repeat(np.arange(len(flat)), [len(table) for table in flat])
        shape = (modes, stages, pools, int(every[:, 1].max()) + 1)
        where = (place // stages, place % stages, every[:, -1], every[:, 1])
        costs = []
        for column in (5, 6):
            cost = np.full(shape, NEVER, dtype=np.int64)
            np.minimum.at(cost, where, every[:, column])
            costs.append(cost)
        states = modes * prod(share + 1 for share in stages_of_pools[1:]) * (options.layers + 1)
        shares = stages_of_pools if states <= MOST_STATES else ()
        exact = bool(shares) and not options.contiguous and len(every) == int((costs[0] < NEVER).sum())
        return cls(costs[0], costs[1], options.layers, shares, exact)

    @cached_property
    def chunks(self) -> Ints:
        """Distinct chunks, ascending."""
        return distinct(self.chunk[self.chunk < NEVER])

    @cached_property
    def tails(self) -> Ints:
        """Distinct tails, ascending."""
        return distinct(self.tail[self.tail < NEVER])

    def _allowed(self, tau: Ints, theta: Ints) -> Bools:
        """What stages of each mode may hold with chunks of at most `tau` and tails of at most `theta`."""
        found: Bools = (self.chunk <= tau[:, None, None, None]) & (self.tail <= theta[:, None, None, None])
        return found

    def _hold_all(self, tau: Ints, theta: Ints) -> Bools:
        numbers = np.arange(self.chunk.shape[3])
        most = np.where(self._allowed(tau, theta), numbers, -(2**20)).max(axis=3)
        if len(self.shares) == 2:
            held = most_held(most, np.full(len(most), self.shares[1]))
        else:
            held = self._most_placed(most)
        enough: Bools = held >= self.layers
        return enough

    def _most_placed(self, most: Ints) -> Ints:
        """Most layers of each mode with every pool's number of stages, stage after stage."""
        most = most if self.shares else most.max(axis=2, keepdims=True)
        before = np.full((len(most), *(share + 1 for share in self.shares[1:])), -(2**40))
        before.reshape(len(before), -1)[:, 0] = 0
        for stage in range(most.shape[1]):
            after = np.full_like(before, -(2**40))
            for pool in range(most.shape[2]):
                left, into = _placed(pool, before.ndim - 1)
                here = most[:, stage, pool].reshape(-1, *[1] * (before.ndim - 1))
                np.maximum(after[into], before[left] + here, out=after[into])
            before = after
        found: Ints = before.reshape(len(before), -1)[:, -1]
        return found

    def least_chunk(self, theta: Ints) -> Ints:
        """The least bottleneck of each mode with tails of at most `theta`; `NEVER` where there is none."""
        return _least(self.chunks, len(theta), lambda tau: self._hold_all(tau, theta))

    def least_tail(self, tau: Ints) -> Ints:
        """The least longest tail of each mode with chunks of at most `tau`; `NEVER` where there is none."""
        return _least(self.tails, len(tau), lambda theta: self._hold_all(tau, theta))

    def least_sum(self, tau: Ints, theta: Ints) -> Ints:
        """The least sum of chunks of each mode with chunks up to `tau`, tails up to `theta`.

        Stage after stage, over the stages placed on each pool but the first and the layers held so far;
        `SUM_NEVER` and more where the stages cannot hold all layers.
        """
        cost = np.where(self._allowed(tau, theta), self.chunk, SUM_NEVER)
        cost = cost if self.shares else cost.min(axis=2, keepdims=True)
        placed = tuple(share + 1 for share in self.shares[1:])
        before = np.full((len(cost), *placed, self.layers + 1), SUM_NEVER, dtype=np.int64)
        before.reshape(len(before), -1)[:, 0] = 0
        for stage in range(cost.shape[1]):
            after = np.full_like(before, SUM_NEVER)
            for pool in range(cost.shape[2]):
                left, into = _placed(pool, len(placed))
                for held in _held(cost[:, stage, pool], self.layers):
                    here = cost[:, stage, pool, held].reshape(-1, *[1] * (before.ndim - 1))
                    reached = before[left][..., : self.layers + 1 - held] + here
                    target = after[into][..., held:]
                    np.minimum(target, reached, out=target)
            before = after
        found: Ints = before[..., -1].reshape(len(before), -1)[:, -1]
        return found


def _placed(pool: int, others: int) -> tuple[tuple[slice, ...], tuple[slice, ...]]:
    """Where states lie before and after one stage more is placed on `pool`; the first is not counted."""
    left, into = [slice(None)] * (others + 1), [slice(None)] * (others + 1)
    if pool:
        left[pool], into[pool] = slice(None, -1), slice(1, None)
    return tuple(left), tuple(into)


def _least(values: Ints, modes: int, held: Callable[[Ints], Bools]) -> Ints:
    """For each mode the least of `values`, which ascend, at which it holds all; `NEVER` without one."""
    low, high = np.zeros(modes, dtype=np.int64), np.full(modes, len(values))
    while (low < high).any():
        middle = np.minimum((low + high) // 2, len(values) - 1)
        enough = held(values[middle])
        low, high = (
            np.where(enough, low, np.minimum(middle + 1, high)),
            np.where(enough, np.minimum(middle, high), high),
        )
    found: Ints = np.append(values, NEVER)[low]
    return found


def _held(cost: Ints, layers: int) -> Iterator[int]:
    """Numbers of layers that some mode may hold on a stage."""
    for held in np.flatnonzero((cost < SUM_NEVER).any(axis=0)).tolist():
        if held <= layers:
            yield held
