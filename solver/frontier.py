"""The tail against bottleneck frontier of a row: what makes a leaf's proof short, and bounds its step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from ..costs.columns import Ints
from ..inputs.record import dataclass
from .lower import NEVER
from .options import RowOptions

FAR = 2**60
"""Nanoseconds no chunk or tail takes; two of them can be added."""


@dataclass(frozen=True)
class Breakpoint:
    """With tails up to `theta_ns` only, the slowest chunk is at least `tau_ns`."""

    theta_ns: int
    tau_ns: int


@dataclass(frozen=True)
class Frontier:
    """Of one mode: its breakpoints by falling tails, none where no way holds all layers; ns.

    Between breakpoints tau does not change, so any assignment has, for each pair of neighbours
    (theta_k, tau_k), either a tail above theta_k or a bottleneck of at least tau_k.
    """

    points: tuple[Breakpoint, ...]
    total_ns: int
    """The least sum of the chunks of all stages."""

    def least(self, passes: int, slowest_ns: int = 0) -> int:
        """What no step of the mode beats: min_k ((m v - 1) tau_k + theta_k) and the least sum of chunks.

        Where its slowest chunk takes at least `slowest_ns`.
        """
        ends = [(passes - 1) * max(point.tau_ns, slowest_ns) + point.theta_ns for point in self.points]
        return min(ends) + self.total_ns if ends else NEVER


def frontier(options: RowOptions) -> tuple[Frontier, ...]:
    """The frontier of each mode of a row."""
    return tuple(
        _Ways(options, mode.places or options.layers, tables).frontier()
        for mode, tables in zip(options.modes, options.tables, strict=True)
    )


def row_bound(options: RowOptions, modes: Sequence[Frontier]) -> int | None:
    """A lower bound of the row's step; None where no mode holds all layers."""
    floors = options.floors or ((0, 0),) * len(modes)
    each = [
        max(mode.least(options.passes, slow), step) for mode, (slow, step) in zip(modes, floors, strict=True)
    ]
    least = min(each, default=NEVER)
    return least if least < NEVER else None


def pooled(modes: Sequence[Frontier]) -> list[Breakpoint]:
    """Breakpoints by falling tails that hold whichever the mode."""
    found: list[Breakpoint] = []
    for tau, theta in sorted({(point.tau_ns, point.theta_ns) for mode in modes for point in mode.points}):
        if not found or theta < found[-1].theta_ns:
            found.append(Breakpoint(theta, tau))
    return found


@dataclass(frozen=True)
class _Ways:
    """Ways through the stages of one mode that hold all layers, each stage starting where one before ends.

    Where all layers are alike, options start anywhere.
    """

    options: RowOptions
    layers: int
    tables: tuple[Ints, ...]

    @cached_property
    def every(self) -> Ints:
        """The options of all stages."""
        return np.concatenate(self.tables)

    @cached_property
    def place(self) -> tuple[Ints, Ints, Ints]:
        """Stage, start and layers of each option; from 0 on where it may start anywhere."""
        stage = np.repeat(np.arange(len(self.tables)), [len(table) for table in self.tables])
        start = self.every[:, 0] if self.options.contiguous else np.zeros_like(stage)
        return stage, start, self.every[:, 1]

    @cached_property
    def before(self) -> Ints:
        """The depth from which so many layers end at a depth, (depths, layers); one too deep for none."""
        depths = np.arange(self.layers + 1)[:, None]
        found: Ints = depths - np.arange(int(self.every[:, 1].max(initial=0)) + 1)[None, :]
        return np.where(found < 0, self.layers + 1, found)

    def _least(self, column: int, other: int, most: int, join: np.ufunc) -> int:
        """The least `column` of all stages joined, of options with at most `most` in the column `other`."""
        depths, layers = self.before.shape
        some = self.every[:, other] <= most
        starts = depths + 1 if self.options.contiguous else 1
        cost = np.full((len(self.tables), starts, layers), FAR)
        np.minimum.at(cost, tuple(part[some] for part in self.place), self.every[some, column])
        start = self.before if self.options.contiguous else np.zeros_like(self.before)
        reached = np.full(depths + 1, FAR)
        reached[0] = 0
        for stage in cost:
            here = join(reached[self.before], stage[start, np.arange(layers)])
            reached[:-1] = np.minimum(here.min(axis=1), FAR)
        return int(reached[-2])

    def _points(self) -> Iterator[Breakpoint]:
        """For the longest tail the least bottleneck, for that the least tail; then with shorter tails."""
        theta = FAR
        while (tau := self._least(5, 6, theta, np.maximum)) < FAR:
            theta = self._least(6, 5, tau, np.maximum)
            yield Breakpoint(theta, tau)
            theta -= 1

    def frontier(self) -> Frontier:
        """The breakpoints and the least sum."""
        points = tuple(self._points())
        return Frontier(points, self._least(5, 6, FAR, np.add) if points else FAR)
