"""What rows on several pools of cards cost and cannot beat: coefficients a pool, with one shared boundary."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ..costs.columns import Bools, Ints, Strategies
from ..costs.mixed import BOUNDARY
from ..costs.sums import Sum
from ..inputs.record import dataclass
from ..plans import Request
from .coefficients import Coefficients
from .loose import most_layers
from .lower import NEVER, layers_by_kind


@dataclass(frozen=True)
class PoolCoefficients(Coefficients):
    """Coefficients of rows as if all cards were of pool `index`, but with the slowest pool's boundary.

    `boundaries` are the nanoseconds of a chunk's boundary on each pool's own network; all pools share them.
    """

    index: int
    boundaries: dict[int, Ints]

    @cached_property
    def chunk(self) -> Sum:
        """Nanoseconds of a chunk for one micro-batch."""
        found = super().chunk
        slowest = np.max(list(self.boundaries.values()), axis=0)
        found.stage["fixed"] = found.stage["fixed"] + slowest - self.boundaries[self.index]
        return found

    def own_boundary(self) -> Ints:
        """Nanoseconds of a chunk's boundary on this pool's own network."""
        boundary = [term for term in self._shared[0].unspread if term.name == BOUNDARY]
        return self._sum(boundary).stage["fixed"]


def pool_coefficients(requests: Sequence[Request], strategies: Strategies) -> list[PoolCoefficients]:
    """Coefficients of the rows on each pool."""
    shared: dict[int, Ints] = {}
    parts = [PoolCoefficients(request, strategies, i, shared) for i, request in enumerate(requests)]
    shared |= {part.index: part.own_boundary() for part in parts}
    return parts


HALVINGS = 12
"""How often the bottleneck of a row is halved between what its work needs and what the limit leaves."""


def sharpened(parts: list[PoolCoefficients], stages: Ints, bounds: Ints, limit_ns: int) -> Ints:
    """Lower bounds, at least `bounds`, that know of memory; `NEVER` where no plan is within `limit_ns`."""
    high, other = _room(parts, limit_ns)
    passes = np.maximum(parts[0].passes - 1, 1)
    low = np.minimum(np.maximum(bounds - other, 0) // passes, high)
    within = _hold_all(parts, stages, high)
    for _ in range(HALVINGS):
        middle = (low + high) // 2
        held = _hold_all(parts, stages, middle)
        low, high = np.where(held, low, np.minimum(middle + 1, high)), np.where(held, middle, high)
    found: Ints = np.maximum(
        bounds, np.where(parts[0].passes > 1, (parts[0].passes - 1) * low + other, bounds)
    )
    return np.where(within, found, NEVER)


def _hold_all(parts: list[PoolCoefficients], stages: Ints, tau: Ints) -> Bools:
    """Whether the stages of each row can hold all layers in memory with chunks of at most `tau` ns."""
    p = parts[0].strategies.pipeline_parallel
    most = np.stack([most_layers(part, tau) for part in parts], axis=2)
    most = np.where(most < 1, -(2**20), np.minimum(most, 2**20))
    absent = np.arange(most.shape[1])[None, :] >= p[:, None]
    most[absent] = (0, *[-(2**40)] * (most.shape[2] - 1))
    layers = parts[0].request.model.layers // parts[0].strategies.virtual_pipeline
    found: Bools = most_held(most, stages[:, 1]) >= layers
    return found


def most_held(most: Ints, second: Ints) -> Ints:
    """Most layers that all stages hold, from the most of each, (rows, stages, pools).

    Exact for two pools, of which the second has `second` stages; with more a stage chooses freely.
    """
    if most.shape[2] != 2:
        free: Ints = most.max(axis=2).sum(axis=1)
        return free
    gain = np.sort(most[:, :, 1] - most[:, :, 0], axis=1)[:, ::-1]
    taken = np.arange(gain.shape[1])[None, :] < second[:, None]
    found: Ints = most[:, :, 0].sum(axis=1) + np.where(taken, gain, 0).sum(axis=1)
    return found


def _room(parts: list[PoolCoefficients], limit_ns: int) -> tuple[Ints, Ints]:
    """The slowest chunk within `limit_ns`, and the least of all other work, of each row."""
    s, passes = parts[0].strategies, parts[0].passes
    v, p = s.virtual_pipeline, s.pipeline_parallel
    chunk_layers = int(layers_by_kind(parts[0].request).sum()) // v
    least = np.min([part.chunk.stage["layer"].min(axis=1) for part in parts], axis=0)
    fixed = np.min([part.chunk.stage["fixed"] for part in parts], axis=0)
    ends = np.min([part.chunk.stage["first"] + part.chunk.stage["last"] for part in parts], axis=0)
    fullest = -(-chunk_layers // p) * v
    tails = [part.tail.stage["layer"].min(axis=1) * fullest + part.tail.stage["fixed"] for part in parts]
    other = chunk_layers * least + fixed * p + ends + np.min(tails, axis=0)
    room = np.maximum(limit_ns - other, 0) // np.maximum(passes - 1, 1)
    tau: Ints = np.where(passes > 1, room, NEVER)
    return tau, other


def mixed_bound(parts: list[PoolCoefficients], stages: Ints) -> Ints:
    """A lower bound of each row's step whatever the stages hold; `stages` (rows, pools) of each pool.

    Within a bottleneck tau a stage holds whole layers, as many as its pool works through in tau, so tau is
    at least what lets the stages hold all; the sum of chunks is at least all layers at the cheapest pool.
    """
    layers = int(layers_by_kind(parts[0].request).sum()) // parts[0].strategies.virtual_pipeline
    least = np.stack([np.maximum(part.chunk.stage["layer"].min(axis=1), 1) for part in parts], axis=1)
    fixed = np.stack([part.chunk.stage["fixed"] for part in parts], axis=1)
    low, high = np.zeros_like(layers), (fixed + least * layers[:, None]).max(axis=1)
    while (low < high).any():
        middle = (low + high) // 2
        held = (stages * np.maximum((middle[:, None] - fixed) // least, 0)).sum(axis=1)
        low, high = np.where(held >= layers, low, middle + 1), np.where(held >= layers, middle, high)
    bound: Ints = (parts[0].passes - 1) * low + _room(parts, NEVER)[1]
    return bound
