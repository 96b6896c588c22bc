"""How far the stages of a pipeline of several kinds of layers reach; whole numbers only."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from ..costs.book import Sum
from ..costs.columns import Bools, Ints
from ..inputs.record import dataclass
from .cases import SELECTIVE, Cases
from .coefficients import Coefficients, capacity_kib
from .counted import host_holds
from .lines import Rounds, Weights
from .lower import NEVER

GRID = 2**12
"""Spans whose ends are tried all at once rather than halved: so few cost less than the calls for them."""

Span = tuple[Ints, Ints, Ints]
"""Cases, and the places from which on to which before their stages hold layers."""


@dataclass(frozen=True)
class Held:
    """What spans weigh: the longest chunk, the first and the last; by moment the stage and a chunk in flight.

    Nanoseconds and KiB, nothing fixed and no ends counted.
    """

    chunk: Ints
    outer: tuple[Ints, Ints]
    memory: list[tuple[Ints, Ints]]


@dataclass(frozen=True)
class Reach:
    """How far stages reach, taking as many layers as fit one after another.

    A span that fits still does without some of its layers, so who starts deeper ends deeper, and taking
    the longest is never wrong. Under full recompute of a number of layers of several kinds a span's
    weight is bounded from below, and of several chunks the usual ones alone are weighed; else it is exact.
    """

    coefficients: Coefficients
    cases: Cases
    upto: Ints | None = None
    """Where given, each case stands for all numbers of recomputed layers from its own to this one."""

    @cached_property
    def _lines(self) -> tuple[Ints, Ints]:
        """Distinct rows, once as they are and once with partly recomputed layers; the line of each case."""
        rows, place = np.unique(self.cases.row, return_inverse=True)
        return rows, place.reshape(-1) + len(rows) * (self.cases.word == SELECTIVE)

    @cached_property
    def line(self) -> Ints:
        """The line of each case."""
        return self._lines[1]

    @cached_property
    def rounds(self) -> Rounds:
        """The rounds of chunks of the cases."""
        return Rounds.of(self.coefficients.request.model, self.chunks, self.cases.places)

    def _weights(self, part: dict[str, Ints]) -> Weights:
        """Of the coefficients of a sum."""
        rows = self._lines[0]
        stay = part["layer"][rows] + np.minimum(part["offloaded"][rows], 0)
        layer = np.concatenate([stay, stay + part["selective"][rows]])
        return Weights(layer, np.tile(part["full"][rows], (2, 1)))

    @cached_property
    def time(self) -> Weights:
        """Nanoseconds of a chunk."""
        return self._weights(self.coefficients.chunk.stage)

    @cached_property
    def tail(self) -> Weights:
        """Nanoseconds of a stage once a step."""
        return self._weights(self.coefficients.tail.stage)

    @cached_property
    def host(self) -> Weights:
        """Host KiB of a card of a stage."""
        return self._weights(self.coefficients.host.stage)

    @cached_property
    def memory(self) -> list[tuple[Sum, Weights, Weights | None]]:
        """KiB of a card at each moment: over the stage, and for each chunk in flight."""
        found = []
        for total in self.coefficients.binding:
            flying = any(values.any() for values in total.flight.values())
            flight = self._weights(total.flight) if flying else None
            found.append((total, self._weights(total.stage), flight))
        return found

    @cached_property
    def chunks(self) -> Ints:
        """Chunks of a stage in each case."""
        found: Ints = self.coefficients.strategies.virtual_pipeline[self.cases.row]
        return found

    @property
    def layers(self) -> Ints:
        """Places of a round of chunks in each case."""
        return self.cases.places

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
        c, rows = self.coefficients, self.cases.row
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
            every, held = self._each((case, start, end)), self._exact((case, start, end))
            busy, fixed = self._busy(stage, case, held), c.chunk.stage["fixed"][rows[case]]
            slowest[case], total[case] = np.maximum(slowest[case], busy), total[case] + busy
            common[case] = np.maximum(common[case], held.chunk + fixed)
            last[case] = held.outer[1] + fixed
            first[case] = held.outer[0] + fixed if stage == 0 else first[case]
            for found, weights, sums in ((tail, self.tail, c.tail), (host, self.host, c.host)):
                over = self._times(self._chunks(weights, case, every), case)
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
            fits = self._fits(stage, case[:, None], self._at_least(stage, span), tau[:, None])
            fits &= each <= (high - low)[:, None]
            furthest: Ints = start + np.logical_and.accumulate(fits, axis=1).sum(axis=1)
            return furthest
        while (low < high).any():
            middle = (low + high + 1) // 2
            fits = self._fits(stage, case, self._at_least(stage, (case, start, middle)), tau)
            low, high = np.where(fits, middle, low), np.where(fits, high, middle - 1)
        return low

    def _exactly_furthest(self, case: Ints, stage: int, start: Ints, most: Ints, tau: Ints) -> Ints:
        """A depth, at most `most`, to which a stage holds layers from `start`; `start` if none is found."""
        low, high = start, np.minimum(start + tau // self.lightest[case], most)
        while (low < high).any():
            middle = (low + high + 1) // 2
            fits = self._fits(stage, case, self._exact((case, start, middle)), tau)
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
        for (total, _, flight), (stay, each) in zip(self.memory, held.memory, strict=True):
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
            room = (held.chunk - held.outer[0]) // self.chunks[case]
            found = found + np.maximum(part["first"][rows] - room, 0)
        last = self.stages[case] == stage + 1
        if last.any():
            room = (held.chunk - held.outer[1]) // self.chunks[case]
            found = found + last * np.maximum(part["last"][rows] - room, 0)
        return found

    def _at_least(self, stage: int, span: Span) -> Held:
        """At least what spans weigh: of their chunks the usual ones, and those with embedding and head."""
        rounds, case = self.rounds, span[0]
        usual = rounds.counts(rounds.usual, *span)
        chunk = self._least(self.time, case, usual)
        first = last = chunk
        if stage == 0 and not rounds.single:
            first = self._least(self.time, case, rounds.counts(rounds.outer[0], *span))
        if not rounds.single and (self.stages[case] == stage + 1).any():
            last = self._least(self.time, case, rounds.counts(rounds.outer[1], *span))
        memory = [
            (self._over_at_least(stay, span, usual), self._least(flight, case, usual) if flight else chunk)
            for _, stay, flight in self.memory
        ]
        return Held(np.maximum(np.maximum(chunk, first), last), (first, last), memory)

    def _least(self, weights: Weights, case: Ints, counts: Ints) -> Ints:
        """At least what chunks weigh, also of a range of numbers.

        The weight rises with the number or falls with it, so it is least at an end of the range.
        """
        found = weights.weigh(self.line[case], counts, self.cases.number[case])
        if self.upto is None or weights.unmoved:
            return found
        return np.minimum(found, weights.weigh(self.line[case], counts, self.upto[case]))

    def _over_at_least(self, weights: Weights, span: Span, usual: Ints) -> Ints:
        """At least what all chunks of spans weigh, of which the usual ones hold as told."""
        rounds, case = self.rounds, span[0]
        if weights.unmoved:
            whole = rounds.counts(rounds.whole, *span)
            return self._least(weights, case, whole)
        if rounds.single:
            alike: Ints = rounds.times[0, rounds.shape[case]] * self._least(weights, case, usual)
            return alike
        each = (self._least(weights, case, counts) for counts, _ in self._each(span))
        return self._times(each, case)

    def _exact(self, span: Span) -> Held:
        """What spans weigh."""
        case, every = span[0], self._each(span)
        each = self._chunks(self.time, case, every)
        chunk, first, last = np.maximum.reduce(each), each[0], each[0]
        place = self.rounds.last[self.rounds.shape[case]]
        for index, weight in enumerate(each[1:], start=1):
            last = np.where(place == index, weight, last)
        memory = [
            (
                self._times(self._chunks(stay, case, every), case),
                np.maximum.reduce(self._chunks(flight, case, every)) if flight else chunk,
            )
            for _, stay, flight in self.memory
        ]
        return Held(chunk, (first, last), memory)

    def _each(self, span: Span) -> list[tuple[Ints, Ints]]:
        """Layers of each kind that spans hold in each distinct round, and of them those recomputed whole."""
        case, start, end = span
        shape, prefix, found = self.rounds.shape[case], self.rounds.prefix, []
        for before in self.rounds.before:
            first, edge = before[shape, start], before[shape, end]
            again = np.minimum(first + self.cases.number[case], edge)
            found.append((prefix[edge] - prefix[first], prefix[again] - prefix[first]))
        return found

    def _chunks(self, weights: Weights, case: Ints, every: list[tuple[Ints, Ints]]) -> list[Ints]:
        """What the chunks of each distinct round weigh."""
        return [weights.exact(self.line[case], *counts) for counts in every]

    def _times(self, each: Iterable[Ints], case: Ints) -> Ints:
        """The sum over all rounds of what a chunk of each distinct one weighs."""
        times = self.rounds.times[:, self.rounds.shape[case]]
        found: Ints = np.add.reduce([number * weight for number, weight in zip(times, each, strict=True)])
        return found

    def _ends(self, part: dict[str, Ints], rows: Ints, stage: int) -> Ints:
        """Fixed, first and last coefficients of one stage."""
        last = self.coefficients.strategies.pipeline_parallel[rows] == stage + 1
        found: Ints = part["fixed"][rows] + np.where(last, part["last"][rows], 0)
        return found + part["first"][rows] if stage == 0 else found
