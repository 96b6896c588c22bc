"""Levels: how slow the slowest chunk must be under each way of recomputing, and a plan about as slow."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..costs.columns import Bools, Ints
from ..inputs.record import dataclass
from .cases import Cases
from .coefficients import Coefficients
from .counted import Counted
from .lower import NEVER, layers_by_kind, work_of
from .spans import Reach

HALVINGS = 6
"""How often the gap between what is too fast and what is possible is halved at a time."""

BETWEEN, FEW = 7, 128
"""Times tried at once, a power of two less one, where cases are few: as many."""


@dataclass(frozen=True)
class Level:
    """For each case what no plan beats, and the step of a real plan; ns.

    Not all chunks of a plan are `floor` or faster; chunks of `ceiling` hold all layers, or so it seems.
    `lower` bounds the step, `upper` is that of a real plan, `NEVER` where the layers found make none.
    """

    cases: Cases
    floor: Ints
    ceiling: Ints
    lower: Ints
    upper: Ints

    def take(self, some: Bools) -> Level:
        """Some of the cases."""
        rest = (part[some] for part in (self.floor, self.ceiling, self.lower, self.upper))
        return Level(self.cases.take(some), *rest)

    @classmethod
    def join(cls, parts: Sequence[Level]) -> Level:
        """The cases of all parts, which are of the same coefficients."""
        names = ("floor", "ceiling", "lower", "upper")
        rest = (np.concatenate([getattr(part, name) for part in parts]) for name in names)
        return cls(Cases.join([part.cases for part in parts]), *rest)

    def by_row(self, rows: int) -> tuple[Ints, Ints]:
        """(lower, upper) of each of `rows` rows; (`NEVER`, `NEVER`) where no case is left."""
        lower, upper = (np.full(rows, NEVER, dtype=np.int64) for _ in range(2))
        np.minimum.at(lower, self.cases.row, self.lower)
        np.minimum.at(upper, self.cases.row, self.upper)
        return lower, upper


def level(coefficients: Coefficients, found: Cases, most: Ints, spent: Ints) -> Level:
    """Levels of cases that hold all layers with chunks of at most `most` ns; `spent` is the rest of a step.

    The mean chunk is a floor to start from.
    """
    s, rows = coefficients.strategies, found.row
    count = layers_by_kind(coefficients.request)
    work = work_of(coefficients.chunk.stage, count, s.pipeline_parallel, s.virtual_pipeline)
    mean = np.minimum(-(-work // s.pipeline_parallel)[rows], most)
    lower = (coefficients.passes[rows] - 1) * mean + spent
    return halved(coefficients, Level(found, mean - 1, most, lower, np.full_like(most, NEVER)))


def halved(coefficients: Coefficients, one: Level) -> Level:
    """The level with the gap between floor and ceiling halved `HALVINGS` times.

    Of few cases several times between are tried at once: each try of a handful costs as much as of many.
    """
    between = BETWEEN if len(one.lower) <= FEW else 1
    low, high = one.floor, one.ceiling
    reach = reach_of(coefficients, one.cases.repeated(between))
    every = np.arange(len(low))
    for _ in range(HALVINGS // between.bit_length()):
        parts = (high - low)[:, None] // (between + 1) * np.arange(between + 2)[None, :]
        taus = np.concatenate([low[:, None] + parts[:, :-1], high[:, None]], axis=1)
        holds = reach.holds(taus[:, 1:-1].reshape(-1)).reshape(len(low), between)
        fast = np.logical_and.accumulate(~holds, axis=1).sum(axis=1)
        low, high = taus[every, fast], taus[every, fast + 1]
    gained = (coefficients.passes[one.cases.row] - 1) * (low - one.floor)
    upper = reach_of(coefficients, one.cases).step(high)
    return Level(one.cases, low, high, one.lower + gained, np.minimum(one.upper, upper))


def reach_of(coefficients: Coefficients, found: Cases) -> Reach | Counted:
    """What tells how far the stages of cases reach."""
    several = len(coefficients.request.model.kinds) > 1
    return Reach(coefficients, found) if several else Counted(coefficients, found)
