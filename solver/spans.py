"""How far the stages of a pipeline of several kinds of layers reach; whole numbers only."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..costs.columns import Bools, Ints
from ..inputs.record import dataclass
from .capacity import capacity_kib
from .cases import Cases
from .coefficients import Coefficients
from .counted import host_holds
from .lower import NEVER
from .span_weights import Held, SpanWeights

GRID = 2**12
"""Spans whose ends are tried all at once rather than halved: so few cost less than the calls for them."""


@dataclass(frozen=True)
class Reach:
    """How far stages reach, taking as many layers as fit one after another.

    A span that fits still does without some of its layers, so who starts deeper ends deeper, and taking
    the longest is never wrong.
    """

    coefficients: Coefficients
    cases: Cases
    upto: Ints | None = None
    """Where given, each case stands for all numbers of recomputed layers from its own to this one."""

    @cached_property
    def weights(self) -> SpanWeights:
        """What spans of the cases weigh."""
        return SpanWeights(self.coefficients, self.cases, self.upto)

    @property
    def layers(self) -> Ints:
        """Places of a round of chunks in each case."""
        return self.cases.places

    @property
    def stages(self) -> Ints:
        """Stages of each case."""
        return self.weights.stages

    def holds(self, tau: Ints) -> Bools:
        """Cases whose stages hold all layers with chunks of at most `tau` ns."""
        depth = np.zeros(len(tau), dtype=np.int64)
        able = np.ones(len(tau), dtype=np.bool_)
        for stage in range(int(self.stages.max(initial=0))):
            open_ = np.flatnonzero(able & (stage < self.stages) & (depth < self.layers))
            if not len(open_):
                break
            end = self._furthest(open_, stage, depth[open_], self.layers[open_], tau[open_])
            able[open_] = end > depth[open_]
            depth[open_] = end
        enough: Bools = able & (depth >= self.layers)
        return enough

    def step(self, tau: Ints) -> Ints:
        """Step of a plan with chunks of at most `tau` ns whose stages go as far as they can, else `NEVER`.

        Each leaves a layer for those behind it, and the last what predicts further tokens. Host memory is
        asked for the heaviest stage.
        """
        c, w, rows = self.coefficients, self.weights, self.cases.row
        zero = np.zeros(len(tau), dtype=np.int64)
        depth, slowest, common, first, last, total, tail, host = (zero.copy() for _ in range(8))
        able = np.ones(len(tau), dtype=np.bool_)
        for stage in range(int(self.stages.max(initial=0))):
            case = np.flatnonzero(able & (stage < self.stages))
            start, left = depth[case], self.stages[case] - 1 - stage
            kept = np.where(left > 0, left - 1 + max(c.request.model.mtp_layers, 1), 0)
            most = np.maximum(self.layers[case] - kept, start)
            end = self._exactly_furthest(case, stage, start, most, tau[case])
            able[case] = end > start
            every, held = w.each_round((case, start, end)), w.exact((case, start, end))
            busy, fixed = self._busy(stage, case, held), c.chunk.stage["fixed"][rows[case]]
            slowest[case], total[case] = np.maximum(slowest[case], busy), total[case] + busy
            common[case] = np.maximum(common[case], held.chunk + fixed)
            last[case] = held.outer[1] + fixed
            first[case] = held.outer[0] + fixed if stage == 0 else first[case]
            for found, weights, sums in ((tail, w.tail, c.tail), (host, w.host, c.host)):
                over = w.over_rounds(w.each_chunk(weights, case, every), case)
                found[case] = np.maximum(found[case], over + self._ends(sums.stage, rows[case], stage))
            depth[case] = end
        able &= (depth == self.layers) & host_holds(c, rows, host)
        pace = c.rounds(rows, common[:, None], first, last).pace(slowest)
        return np.where(able, (c.passes[rows] - 1) * pace + total + tail, NEVER)

    def _furthest(self, case: Ints, stage: int, start: Ints, most: Ints, tau: Ints) -> Ints:
        """The depth, at most `most`, to which a stage may hold layers from `start`; `start` if none."""
        low = start
        high = np.minimum(start + tau // self.lightest[case], most)
        longest = int((high - low).max(initial=0))
        if longest * len(case) <= GRID:
            each = np.arange(1, longest + 1)[None, :]
            end = np.minimum(start[:, None] + each, high[:, None])
            span = (case[:, None], start[:, None], end)
            fits = self._fits(stage, case[:, None], self.weights.at_least(stage, span), tau[:, None])
            fits &= each <= (high - low)[:, None]
            furthest: Ints = start + np.logical_and.accumulate(fits, axis=1).sum(axis=1)
            return furthest
        while (low < high).any():
            middle = (low + high + 1) // 2
            fits = self._fits(stage, case, self.weights.at_least(stage, (case, start, middle)), tau)
            low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
        return low

    def _exactly_furthest(self, case: Ints, stage: int, start: Ints, most: Ints, tau: Ints) -> Ints:
        """A depth, at most `most`, to which a stage holds layers from `start`; `start` if none is found."""
        low, high = start, np.minimum(start + tau // self.lightest[case], most)
        while (low < high).any():
            middle = (low + high + 1) // 2
            fits = self._fits(stage, case, self.weights.exact((case, start, middle)), tau)
            low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
        return low

    @cached_property
    def lightest(self) -> Ints:
        """Nanoseconds of the lightest layer of each case."""
        found: Ints = np.maximum(self.coefficients.chunk.stage["layer"].min(axis=1), 1)[self.cases.row]
        return found

    def _fits(self, stage: int, case: Ints, held: Held, tau: Ints) -> Bools:
        """Whether what spans hold keeps `tau` and the card's memory."""
        rows = self.cases.row[case]
        fits: Bools = self._busy(stage, case, held) <= tau
        in_flight = self.coefficients.in_flight[rows, stage]
        capacity = capacity_kib(self.coefficients.request)
        for (total, _, flight), (stay, each) in zip(self.weights.memory, held.memory, strict=True):
            used = stay + self._ends(total.stage, rows, stage)
            if flight is not None:
                used = used + in_flight * (each + self._ends(total.flight, rows, stage))
            fits &= used <= capacity
        return fits

    def _busy(self, stage: int, case: Ints, held: Held) -> Ints:
        """Nanoseconds of the chunk of a stage: embedding and head first fill what their own chunk lacks."""
        rows, part = self.cases.row[case], self.coefficients.chunk.stage
        found = held.chunk + part["fixed"][rows]
        if stage == 0:
            room = (held.chunk - held.outer[0]) // self.weights.chunks[case]
            found = found + np.maximum(part["first"][rows] - room, 0)
        last = self.stages[case] == stage + 1
        if last.any():
            room = (held.chunk - held.outer[1]) // self.weights.chunks[case]
            found = found + last * np.maximum(part["last"][rows] - room, 0)
        return found

    def _ends(self, part: dict[str, Ints], rows: Ints, stage: int) -> Ints:
        """Fixed, first and last coefficients of one stage."""
        last = self.coefficients.strategies.pipeline_parallel[rows] == stage + 1
        found: Ints = part["fixed"][rows] + np.where(last, part["last"][rows], 0)
        return found + part["first"][rows] if stage == 0 else found
