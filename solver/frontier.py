"""The tail against bottleneck frontier of a row: what makes a leaf's proof short."""

from __future__ import annotations

import numpy as np

from ..costs.columns import Ints, distinct
from ..inputs.record import dataclass
from .options import RowOptions


@dataclass(frozen=True)
class Breakpoint:
    """With tails up to `theta_ns` only, the slowest chunk is at least `tau_ns`."""

    theta_ns: int
    tau_ns: int


def _pooled(options: RowOptions) -> list[Ints]:
    """(layers, chunk, tail) of each stage over all modes: a relaxation of every mode at once."""
    return [
        np.concatenate([tables[stage][:, [1, 5, 6]] for tables in options.tables])
        for stage in range(len(options.tables[0]))
    ]


def _least_bottleneck(pools: list[Ints], layers: int, theta: int) -> int | None:
    """The least tau for which the stages can hold `layers` with chunks <= tau and tails <= theta."""
    usable = [pool[pool[:, 2] <= theta] for pool in pools]
    if not all(len(pool) for pool in usable):
        return None
    floor = max(int(pool[:, 1].min()) for pool in usable)
    taus = distinct(np.concatenate([pool[:, 1] for pool in usable]))
    taus = taus[taus >= floor]
    low, high = 0, len(taus) - 1
    if _held(usable, int(taus[high])) < layers:
        return None
    while low < high:
        middle = (low + high) // 2
        if _held(usable, int(taus[middle])) >= layers:
            high = middle
        else:
            low = middle + 1
    return int(taus[low])


def _held(pools: list[Ints], tau: int) -> int:
    """Most layers the stages hold with chunks of at most `tau`."""
    return sum(int(pool[pool[:, 1] <= tau, 0].max()) for pool in pools)


def frontier(options: RowOptions) -> list[Breakpoint]:
    """Breakpoints by falling theta; empty where no tails allow all layers.

    Between breakpoints tau does not change, so any assignment has, for each pair of neighbours
    (theta_k, tau_k), either a tail above theta_k or a bottleneck of at least tau_k.
    """
    pools = _pooled(options)
    thetas = distinct(np.concatenate([pool[:, 2] for pool in pools]))
    found: list[Breakpoint] = []
    index = len(thetas) - 1
    while index >= 0:
        tau = _least_bottleneck(pools, options.layers, int(thetas[index]))
        if tau is None:
            break
        low, high = 0, index
        while low < high:
            middle = (low + high) // 2
            if _least_bottleneck(pools, options.layers, int(thetas[middle])) == tau:
                high = middle
            else:
                low = middle + 1
        found.append(Breakpoint(int(thetas[low]), tau))
        index = low - 1
    return found


def row_bound(options: RowOptions, points: list[Breakpoint]) -> int | None:
    """A lower bound of the row's step: the best breakpoint, and every stage at its lightest.

    min_k ((m v - 1) tau_k + theta_k) + the least sum of chunks over stages that hold all layers.
    """
    if not points:
        return None
    least = min((options.passes - 1) * point.tau_ns + point.theta_ns for point in points)
    return least + _least_sum(options)


def _least_sum(options: RowOptions) -> int:
    """A lower bound of the sum of chunks: layers at the least cost a layer, and each stage's fixed part.

    For each stage the cheapest line under its options: chunk >= alpha layers + beta_stage.
    """
    pools = _pooled(options)
    alpha = min(
        (int(pool[i, 1]) - int(pool[j, 1])) // (int(pool[i, 0]) - int(pool[j, 0]))
        if pool[i, 0] > pool[j, 0]
        else 0
        for pool in pools
        for i, j in [(int(pool[:, 0].argmax()), int(pool[:, 0].argmin()))]
    )
    alpha = max(alpha, 0)
    betas = sum(int((pool[:, 1] - alpha * pool[:, 0]).min()) for pool in pools)
    return alpha * options.layers + betas
