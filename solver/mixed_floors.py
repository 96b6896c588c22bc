"""What no plan of a mode beats, and a step that one reaches: for the modes of a row on several pools."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..costs.columns import Bools, Ints
from ..inputs.record import dataclass
from .frontier import Breakpoint, Frontier
from .lower import NEVER
from .mixed_modes import ModeCosts
from .options import RowOptions


@dataclass(frozen=True)
class ModeBounds:
    """For each mode of a row: its frontier within the limit, and a step that a plan reaches, ns.

    `NEVER` stands where no plan is sure to be within the limit.
    """

    fronts: tuple[Frontier, ...]
    upper: Ints
    lower: Ints
    """What no step beats."""

    def within(self, options: RowOptions, limit_ns: int) -> tuple[RowOptions, tuple[Frontier, ...]]:
        """The modes of a row that may hold a plan within the limit, and their frontiers."""
        kept: list[int] = np.flatnonzero(self.lower <= limit_ns).tolist()
        modes = tuple(options.modes[mode] for mode in kept)
        tables = tuple(options.tables[mode] for mode in kept)
        return replace(options, modes=modes, tables=tables), tuple(self.fronts[mode] for mode in kept)


def mode_bounds(options: RowOptions, stages_of_pools: tuple[int, ...], limit_ns: int) -> ModeBounds:
    """Bounds of the modes of a row for steps of at most `limit_ns`.

    Every plan has some breakpoint's bottleneck and tail at least, and no less a sum of chunks than
    bottlenecks within the limit allow. Stages that keep to a breakpoint in both reach a step, unless
    interleaved chunks wait for those of the ends.
    """
    costs, more = ModeCosts.of(options, stages_of_pools), options.passes - 1
    modes = len(options.modes)
    upper = np.full(modes, NEVER)
    points: list[list[Breakpoint]] = [[] for _ in range(modes)]
    longest = np.full(modes, costs.tails[-1])
    total = costs.least_sum(np.full(modes, limit_ns // max(more, 1)), longest)
    left = limit_ns - total
    room = left // more if more else np.where(left >= 0, limit_ns, -1)
    for alive, tau, theta in _breakpoints(costs, room):
        for mode in np.flatnonzero(alive).tolist():
            points[mode].append(Breakpoint(int(theta[mode]), int(tau[mode])))
        if costs.exact and options.chunks == 1:
            reached = more * tau + theta + costs.least_sum(tau, theta)
            upper = np.where(alive, np.minimum(upper, reached), upper)
    fronts = tuple(Frontier(tuple(some), least) for some, least in zip(points, total.tolist(), strict=True))
    return ModeBounds(fronts, upper, np.array([front.least(options.passes) for front in fronts]))


def _breakpoints(costs: ModeCosts, room: Ints) -> Iterator[tuple[Bools, Ints, Ints]]:
    """(modes that have one, bottleneck, tail) by rising bottlenecks, which are at most `room`; else 0."""
    alive = room >= 0
    theta = np.full(len(room), costs.tails[-1])
    while True:
        tau = costs.least_chunk(theta)
        alive = alive & (tau <= room)
        if not alive.any():
            return
        tau = np.where(alive, tau, 0)
        theta = np.where(alive, costs.least_tail(tau), 0)
        yield alive, tau, theta
        theta = theta - 1
