"""What no plan of a mode beats, and a step that one reaches: for the modes of a row on several pools."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ..costs.columns import Bools, Ints
from ..inputs.record import dataclass
from .frontier import Breakpoint
from .lower import NEVER
from .mixed_modes import ModeCosts
from .options import RowOptions


@dataclass(frozen=True)
class ModeBounds:
    """For each mode of a row, in ns: the least bottleneck, what no step beats, a step that a plan reaches.

    `NEVER` stands where no plan is within the limit, as `upper` also where none is sure to be.
    """

    slowest: Ints
    lower: Ints
    upper: Ints
    points: tuple[tuple[Breakpoint, ...], ...]
    """Of each mode, within the limit: tails up to `theta_ns` need a bottleneck of at least `tau_ns`."""

    def within(self, options: RowOptions, limit_ns: int) -> RowOptions:
        """The modes of a row that may hold a plan within the limit, with their floors."""
        kept = self._kept(limit_ns)
        return replace(
            options,
            modes=tuple(options.modes[mode] for mode in kept),
            tables=tuple(options.tables[mode] for mode in kept),
            floors=tuple((int(self.slowest[mode]), int(self.lower[mode])) for mode in kept),
        )

    def frontier(self, limit_ns: int) -> list[Breakpoint]:
        """Breakpoints by falling tails that hold for every mode within the limit."""
        every = {(p.tau_ns, p.theta_ns) for mode in self._kept(limit_ns) for p in self.points[mode]}
        found: list[Breakpoint] = []
        for tau, theta in sorted(every):
            if not found or theta < found[-1].theta_ns:
                found.append(Breakpoint(theta, tau))
        return found

    def _kept(self, limit_ns: int) -> list[int]:
        kept: list[int] = np.flatnonzero(self.lower <= limit_ns).tolist()
        return kept


def mode_bounds(options: RowOptions, stages_of_pools: tuple[int, ...], limit_ns: int) -> ModeBounds:
    """Bounds of the modes of a row for steps of at most `limit_ns`.

    Every plan has some breakpoint's bottleneck and tail at least, and no less a sum of chunks than
    bottlenecks within the limit allow. Stages that keep to a breakpoint in both reach a step.
    """
    costs, more = ModeCosts.of(options, stages_of_pools), options.passes - 1
    modes = len(options.modes)
    slowest, lower, upper = (np.full(modes, NEVER) for _ in range(3))
    points: list[list[Breakpoint]] = [[] for _ in range(modes)]
    longest = np.full(modes, costs.tails[-1])
    total = costs.least_sum(np.full(modes, limit_ns // max(more, 1)), longest)
    left = limit_ns - total
    room = left // more if more else np.where(left >= 0, limit_ns, -1)
    for alive, tau, theta in _breakpoints(costs, room):
        for mode in np.flatnonzero(alive).tolist():
            points[mode].append(Breakpoint(int(theta[mode]), int(tau[mode])))
        apart = more * tau + theta
        slowest = np.where(alive, np.minimum(slowest, tau), slowest)
        lower = np.where(alive, np.minimum(lower, apart + total), lower)
        if costs.exact:
            reached = apart + costs.least_sum(tau, theta)
            upper = np.where(alive, np.minimum(upper, reached), upper)
    return ModeBounds(slowest, lower, upper, tuple(map(tuple, points)))


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
