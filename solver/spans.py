"""How far the stages of a pipeline of several kinds of layers reach; whole numbers only."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

import numpy as np

from ..costs.book import Sum
from ..costs.columns import Bools, Ints
from ..inputs.record import dataclass
from .cases import SELECTIVE, Cases
from .coefficients import Coefficients, capacity_kib
from .counted import host_holds
from .lower import NEVER

GRID = 2**12
"""Spans whose ends are tried all at once rather than halved: so few cost less than the calls for them."""


@dataclass(frozen=True)
class _Lines:
    """A sum over the first layers of the stack for each row, (rows, layers + 1), and which row a case is of.

    `kept` counts layers as a word leaves them where none is fully recomputed, `again` all fully recomputed.
    Each layer that is recomputed whole spares between `least` and `most`: less than nothing where it costs.
    """

    row: Ints
    kept: Ints
    again: Ints
    most: Ints
    least: Ints

    def weigh(self, case: Ints, start: Ints, end: Ints, number: Ints) -> Ints:
        """At least what chunks from `start` to `end` weigh, of which the first `number` are recomputed.

        Never more than what a longer chunk around them weighs.
        """
        row = self.row[case]
        kept: Ints = self.kept[row, end] - self.kept[row, start]
        if self.unmoved:
            return kept
        length, most, least = end - start, self.most[row], self.least[row]
        spared = kept - np.minimum(number, length) * most
        bare = self.again[row, end] - self.again[row, start] + np.maximum(length - number, 0) * least
        found: Ints = np.where(least >= 0, np.maximum(spared, bare), spared)
        return found

    def exact(self, case: Ints, start: Ints, end: Ints, number: Ints) -> Ints:
        """What chunks from `start` to `end` weigh, of which the first `number` are recomputed."""
        row, cut = self.row[case], np.minimum(end, start + number)
        again = self.again[row, cut] - self.again[row, start]
        found: Ints = again + self.kept[row, end] - self.kept[row, cut]
        return found

    @cached_property
    def unmoved(self) -> bool:
        """Whether full recompute changes nothing here."""
        return not (self.most.any() or self.least.any())


Weigh = Callable[[_Lines, Ints, Ints, Ints, Ints], Ints]
"""Sums, cases, starts, ends, numbers recomputed: what spans weigh."""


@dataclass(frozen=True)
class Reach:
    """How far stages reach, taking as many layers as fit one after another.

    A span that fits still does without some of its layers, so who starts deeper ends deeper, and taking
    the longest is never wrong. Under full recompute of a number of layers of several kinds a span's
    weight is bounded from below, else it is exact.
    """

    coefficients: Coefficients
    cases: Cases
    upto: Ints | None = None
    """Where given, each case stands for all numbers of recomputed layers from its own to this one."""

    @cached_property
    def _place(self) -> tuple[Ints, Ints]:
        """Distinct rows, once as they are and once with partly recomputed layers; the line of each case."""
        rows, place = np.unique(self.cases.row, return_inverse=True)
        return rows, place.reshape(-1) + len(rows) * (self.cases.word == SELECTIVE)

    def _lines(self, part: dict[str, Ints], chunks: Ints) -> _Lines:
        """Of the coefficients of a sum; `chunks` multiplies what is counted for each chunk of a stage."""
        rows, place = self._place
        kinds = np.array(self.coefficients.request.model.kind_of_layer)
        stay = part["layer"][rows] + np.minimum(part["offloaded"][rows], 0)
        wide = np.tile(chunks[rows], 2)[:, None]
        layer = np.concatenate([stay, stay + part["selective"][rows]]) * wide
        change = np.tile(part["full"][rows], (2, 1)) * wide
        return _Lines(
            place,
            _before(layer[:, kinds]),
            _before((layer + change)[:, kinds]),
            -change.min(axis=1),
            -change.max(axis=1),
        )

    @cached_property
    def _ones(self) -> Ints:
        return np.ones(len(self.coefficients.strategies), dtype=np.int64)

    @cached_property
    def time(self) -> _Lines:
        """Nanoseconds of a chunk."""
        return self._lines(self.coefficients.chunk.stage, self._ones)

    @cached_property
    def tail(self) -> _Lines:
        """Nanoseconds of a stage once a step."""
        return self._lines(self.coefficients.tail.stage, self.coefficients.strategies.virtual_pipeline)

    @cached_property
    def host(self) -> _Lines:
        """Host KiB of a card of a stage."""
        return self._lines(self.coefficients.host.stage, self.coefficients.strategies.virtual_pipeline)

    @cached_property
    def memory(self) -> list[tuple[Sum, _Lines, _Lines | None]]:
        """KiB of a card at each moment: over the stage, and for each chunk in flight."""
        chunks = self.coefficients.strategies.virtual_pipeline
        found = []
        for total in self.coefficients.binding:
            flying = any(values.any() for values in total.flight.values())
            flight = self._lines(total.flight, self._ones) if flying else None
            found.append((total, self._lines(total.stage, chunks), flight))
        return found

    @cached_property
    def layers(self) -> Ints:
        """Layers of a chunk's stack in each case."""
        found: Ints = self.coefficients.depth[self.cases.row]
        return found

    @cached_property
    def stages(self) -> Ints:
        """Stages of each case."""
        found: Ints = self.coefficients.strategies.pipeline_parallel[self.cases.row]
        return found

    def holds(self, tau: Ints) -> Bools:
        """Cases whose stages hold all layers with chunks of at most `tau` ns."""
        depth = np.zeros(len(tau), dtype=np.int64)
        able = np.ones(len(tau), dtype=np.bool_)
        for stage in range(int(self.stages.max(initial=0))):
            open_ = np.flatnonzero(able & (stage < self.stages) & (depth < self.layers))
            if not len(open_):
                break
            end = self._furthest(open_, stage, depth[open_], self.layers[open_], tau[open_], _Lines.weigh)
            able[open_] = end > depth[open_]
            depth[open_] = end
        enough: Bools = able & (depth >= self.layers)
        return enough

    def step(self, tau: Ints) -> Ints:
        """Step of a plan with chunks of at most `tau` ns whose stages go as far as they can, else `NEVER`.

        Each leaves a layer for those behind it, and the last what predicts further tokens. Host memory is
        asked for the heaviest stage.
        """
        c, rows = self.coefficients, self.cases.row
        zero = np.zeros(len(tau), dtype=np.int64)
        depth, slowest, total, tail, host = (zero.copy() for _ in range(5))
        able = np.ones(len(tau), dtype=np.bool_)
        for stage in range(int(self.stages.max(initial=0))):
            case = np.flatnonzero(able & (stage < self.stages))
            start, left = depth[case], self.stages[case] - 1 - stage
            kept = np.where(left > 0, left - 1 + max(c.request.model.mtp_layers, 1), 0)
            most = np.maximum(self.layers[case] - kept, start)
            end = self._furthest(case, stage, start, most, tau[case], _Lines.exact)
            able[case] = end > start
            busy = self._worth(self.time, c.chunk.stage, case, stage, start, end)
            slowest[case], total[case] = np.maximum(slowest[case], busy), total[case] + busy
            tail[case] = np.maximum(tail[case], self._worth(self.tail, c.tail.stage, case, stage, start, end))
            host[case] = np.maximum(host[case], self._worth(self.host, c.host.stage, case, stage, start, end))
            depth[case] = end
        able &= (depth == self.layers) & host_holds(c, rows, host)
        return np.where(able, (c.passes[rows] - 1) * slowest + total + tail, NEVER)

    def _worth(
        self, lines: _Lines, part: dict[str, Ints], case: Ints, stage: int, start: Ints, end: Ints
    ) -> Ints:
        """What a stage's span weighs in a sum."""
        inner = lines.exact(case, start, end, self.cases.number[case])
        found: Ints = inner + self._ends(part, self.cases.row[case], stage)
        return found

    def _furthest(self, case: Ints, stage: int, start: Ints, most: Ints, tau: Ints, weigh: Weigh) -> Ints:
        """The depth, at most `most`, to which a stage can hold layers from `start`; `start` if none."""
        low = start
        high = np.minimum(start + tau // self.lightest[case], most)
        longest = int((high - low).max(initial=0))
        if longest * len(case) <= GRID:
            each = np.arange(1, longest + 1)[None, :]
            end = np.minimum(start[:, None] + each, high[:, None])
            fits = self._fits(case[:, None], stage, start[:, None], end, tau[:, None], weigh)
            fits &= each <= (high - low)[:, None]
            furthest: Ints = start + np.logical_and.accumulate(fits, axis=1).sum(axis=1)
            return furthest
        while (low < high).any():
            middle = (low + high + 1) // 2
            fits = self._fits(case, stage, start, middle, tau, weigh)
            low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
        return low

    @cached_property
    def lightest(self) -> Ints:
        """Nanoseconds of the lightest layer of each case."""
        found: Ints = np.maximum(self.coefficients.chunk.stage["layer"].min(axis=1), 1)[self.cases.row]
        return found

    def _fits(self, case: Ints, stage: int, start: Ints, end: Ints, tau: Ints, weigh: Weigh) -> Bools:
        """Whether spans keep `tau` and the card's memory."""
        rows, span = self.cases.row[case], (case, start, end)
        time = self._weight(self.time, span, weigh) + self._ends(self.coefficients.chunk.stage, rows, stage)
        fits: Bools = time <= tau
        in_flight = self.coefficients.in_flight[rows, stage]
        capacity = capacity_kib(self.coefficients.request)
        for total, stay, flight in self.memory:
            used = self._weight(stay, span, weigh) + self._ends(total.stage, rows, stage)
            if flight is not None:
                each = self._weight(flight, span, weigh) + self._ends(total.flight, rows, stage)
                used = used + in_flight * each
            fits &= used <= capacity
        return fits

    def _weight(self, lines: _Lines, span: tuple[Ints, Ints, Ints], weigh: Weigh) -> Ints:
        """What spans (case, start, end) weigh; of a range of numbers at least.

        The weight rises with the number or falls with it, so it is least at an end of the range.
        """
        case, start, end = span
        found = weigh(lines, case, start, end, self.cases.number[case])
        if self.upto is None or lines.unmoved:
            return found
        return np.minimum(found, weigh(lines, case, start, end, self.upto[case]))

    def _ends(self, part: dict[str, Ints], rows: Ints, stage: int) -> Ints:
        """Fixed, first and last coefficients of one stage."""
        last = self.coefficients.strategies.pipeline_parallel[rows] == stage + 1
        found: Ints = part["fixed"][rows] + np.where(last, part["last"][rows], 0)
        return found + part["first"][rows] if stage == 0 else found


def _before(each: Ints) -> Ints:
    """Sums of the first columns, none to all."""
    found = np.zeros((each.shape[0], each.shape[1] + 1), dtype=np.int64)
    np.cumsum(each, axis=1, out=found[:, 1:])
    return found
