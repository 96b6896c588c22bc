"""How many layers the stages of a pipeline hold when all layers are of one kind; whole numbers only."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..costs.columns import Bools, Ints
from ..costs.sums import Sum
from ..inputs.record import dataclass
from .capacity import capacity_kib, host_capacity_kib
from .cases import SELECTIVE, Cases
from .coefficients import Coefficients
from .lower import NEVER

PLENTY = 2**40
"""Layers of no weight that fit anywhere."""


class _Line(NamedTuple):
    """What a chunk weighs: `kept` a layer, `change` more (or less) for each fully recomputed one."""

    kept: Ints
    change: Ints

    def most(self, room: Ints, number: Ints) -> tuple[Ints, Ints]:
        """(layers when all are recomputed, layers when `number` of them are) that fit into `room`."""
        return _into(room, self.kept + self.change), _into(room - number * self.change, self.kept)


def _into(room: Ints, each: Ints) -> Ints:
    """How often `each` fits into `room`; negative where the room is."""
    found: Ints = np.where(each > 0, room // np.maximum(each, 1), np.where(room >= 0, PLENTY, -1))
    return found


@dataclass(frozen=True)
class Counted:
    """Layers of a chunk on each stage, for each case. Exact for what a bottleneck and a card allow."""

    coefficients: Coefficients
    cases: Cases

    @cached_property
    def layers(self) -> Ints:
        """Layers of a chunk's stack in each case."""
        found: Ints = self.coefficients.depth[self.cases.row]
        return found

    def holds(self, tau: Ints) -> Bools:
        """Cases whose stages hold all layers with chunks of at most `tau` ns.

        Inner stages hold at most what the last of them would without an end, which settles most cases; a last
        stage that lacks layers may hold more.
        """
        loose = self._most(np.arange(len(tau)), (self.stages - 1)[:, None], tau, False)[:, 0]
        found: Bools = loose * self.stages >= self.layers
        found |= self.coefficients.lacking[self.cases.row] > 0
        some = np.flatnonzero(found)
        most, held = self._everywhere(some, tau[some])
        able = ((most >= 1) | ~held).all(axis=1)
        found[some] = able & (most.sum(axis=1) >= self.layers[some])
        return found

    @cached_property
    def stages(self) -> Ints:
        """Stages of each case."""
        found: Ints = self.coefficients.strategies.pipeline_parallel[self.cases.row]
        return found

    def _everywhere(self, case: Ints, tau: Ints) -> tuple[Ints, Bools]:
        """Most layers on every stage of some cases, none beyond the last; and which stages there are."""
        stages = self.stages[case][:, None]
        index = np.broadcast_to(
            np.arange(int(stages.max(initial=0)))[None, :], (len(case), int(stages.max(initial=0)))
        )
        held = index < stages
        most = self._most(case, np.minimum(index, stages - 1), tau, True)
        return np.where(held, most, 0), held

    def step(self, tau: Ints) -> Ints:
        """Step of a plan with chunks of at most `tau` ns that fills stages evenly, `NEVER` where none is.

        Host memory is asked for the heaviest stage on every place of a node.
        """
        every = np.arange(len(tau))
        if not len(every):
            return tau
        most, held = self._everywhere(every, tau)
        layers = _levelled(most, self.layers)
        whole = (layers.sum(axis=1) == self.layers) & ((layers >= 1) | ~held).all(axis=1)
        rows, c = self.cases.row, self.coefficients
        index = np.minimum(np.arange(held.shape[1])[None, :], self.stages[:, None] - 1)
        again = np.minimum(layers, self.cases.number[:, None])
        line = self._line(self._time, every)
        busy = self._fixed(c.chunk.stage, rows, index, True) + line.kept * layers + line.change * again
        busy[every, self.stages - 1] += c.room[rows]
        stage = layers * c.strategies.virtual_pipeline[rows][:, None]
        tail = self._fixed(c.tail.stage, rows, index, True) + c.tail.stage["layer"][rows] * stage
        host = self._fixed(c.host.stage, rows, index, True) + c.host.stage["layer"][rows] * stage
        whole &= host_holds(c, rows, np.where(held, host, 0).max(axis=1, initial=0))
        bare = self._fixed(c.chunk.stage, rows, index, False) + line.kept * layers + line.change * again
        longest = np.where(held, bare, 0)
        rounds = c.rounds(rows, longest, longest[:, 0], longest[every, self.stages - 1])
        found = (c.passes[rows] - 1) * rounds.pace(np.where(held, busy, 0).max(axis=1, initial=0))
        found = found + np.where(held, busy, 0).sum(axis=1) + np.where(held, tail, 0).max(axis=1, initial=0)
        return np.where(whole, found, NEVER)

    def _most(self, case: Ints, stage: Ints, tau: Ints, ends: bool) -> Ints:
        """Most layers on each of the stages (cases, columns), at most those of the stack."""
        rows, number = self.cases.row[case], self.cases.number[case][:, None]
        c = self.coefficients
        room = tau[:, None] - self._fixed(c.chunk.stage, rows, stage, ends)
        every, some = self._line(self._time, case).most(room, number)
        flight = c.layout.flight_on(rows, stage)
        for total, stay, flying in self._memory:
            room = capacity_kib(c.request) - self._fixed(total.stage, rows, stage, ends)
            room = room - flight * self._fixed(total.flight, rows, stage, ends)
            here, there = self._line(stay, case), self._line(flying, case)
            line = _Line(here.kept + flight * there.kept, here.change + flight * there.change)
            all_, part = line.most(room, number)
            every, some = np.minimum(every, all_), np.minimum(some, part)
        found: Ints = np.where(every >= number, np.maximum(some, number), every)
        return np.minimum(found, self.layers[case][:, None])

    @cached_property
    def _time(self) -> _Line:
        """Nanoseconds of a layer of a chunk, (cases,)."""
        return self._every(self.coefficients.chunk.stage, np.ones_like(self.layers))

    @cached_property
    def _memory(self) -> list[tuple[Sum, _Line, _Line]]:
        """KiB of a layer at each moment that binds: over a stage, and for each chunk in flight."""
        v = self.coefficients.strategies.virtual_pipeline[self.cases.row]
        one = np.ones_like(v)
        return [
            (total, self._every(total.stage, v), self._every(total.flight, one))
            for total in self.coefficients.binding
        ]

    def _every(self, part: dict[str, Ints], chunks: Ints) -> _Line:
        """The line of each case in a sum."""
        rows = self.cases.row
        kept = part["layer"][:, 0] + np.minimum(part["offloaded"][:, 0], 0)
        kept = kept[rows] + np.where(self.cases.word == SELECTIVE, part["selective"][rows, 0], 0)
        return _Line(kept * chunks, part["full"][rows, 0] * chunks)

    @staticmethod
    def _line(line: _Line, case: Ints) -> _Line:
        """The lines of some cases, beside stages."""
        return _Line(line.kept[case][:, None], line.change[case][:, None])

    def _fixed(self, part: dict[str, Ints], rows: Ints, stage: Ints, ends: bool) -> Ints:
        """Fixed coefficients, with those of first and last stage where `ends`."""
        found: Ints = part["fixed"][rows][:, None]
        if not ends:
            return found
        last = stage == (self.coefficients.strategies.pipeline_parallel[rows] - 1)[:, None]
        found = found + last * part["last"][rows][:, None]
        both: Ints = found + (stage == 0) * part["first"][rows][:, None]
        return both


def _levelled(most: Ints, layers: Ints) -> Ints:
    """Layers of each stage, at most `most` and as even as can be, that make `layers` where they can."""
    low, high = np.zeros_like(layers), layers.copy()
    while (low + 1 < high).any():
        middle = (low + high) // 2
        enough = np.minimum(most, middle[:, None]).sum(axis=1) >= layers
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    found = np.minimum(most, high[:, None])
    full = (found == high[:, None]).cumsum(axis=1)
    spare = (found.sum(axis=1) - layers)[:, None]
    fewer: Ints = found - ((found == high[:, None]) & (full <= spare))
    return fewer


def host_holds(coefficients: Coefficients, rows: Ints, heaviest: Ints) -> Bools:
    """Rows whose nodes hold the host memory of stages as heavy as `heaviest` KiB a card."""
    stages, cards, aligned = coefficients.node_stages
    capacity = host_capacity_kib(coefficients.request)
    found: Bools = ~coefficients.on_host[rows] | (
        aligned[rows] & (heaviest * stages[rows] * cards[rows] <= capacity)
    )
    return found
