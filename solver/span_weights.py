"""What spans of layers of several kinds weigh: exactly, and from below; whole numbers only."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

import numpy as np

from ..costs.columns import Ints
from ..costs.sums import Sum
from ..inputs.record import dataclass
from .cases import SELECTIVE, Cases
from .coefficients import Coefficients
from .lines import Rounds, Weights

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
class SpanWeights:
    """Weighs spans of cases.

    Under full recompute of a number of layers of several kinds a span's weight is bounded from below, and of
    several chunks the usual ones alone are weighed; else it is exact. `upto` is as in `Reach`.
    """

    coefficients: Coefficients
    cases: Cases
    upto: Ints | None = None

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

    @cached_property
    def stages(self) -> Ints:
        """Stages of each case."""
        found: Ints = self.coefficients.strategies.pipeline_parallel[self.cases.row]
        return found

    def at_least(self, stage: int, span: Span) -> Held:
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
        each = (self._least(weights, case, counts) for counts, _ in self.each_round(span))
        return self.over_rounds(each, case)

    def exact(self, span: Span) -> Held:
        """What spans weigh."""
        case, every = span[0], self.each_round(span)
        each = self.each_chunk(self.time, case, every)
        chunk, first, last = np.maximum.reduce(each), each[0], each[0]
        place = self.rounds.last[self.rounds.shape[case]]
        for index, weight in enumerate(each[1:], start=1):
            last = np.where(place == index, weight, last)
        memory = [
            (
                self.over_rounds(self.each_chunk(stay, case, every), case),
                np.maximum.reduce(self.each_chunk(flight, case, every)) if flight else chunk,
            )
            for _, stay, flight in self.memory
        ]
        return Held(chunk, (first, last), memory)

    def each_round(self, span: Span) -> list[tuple[Ints, Ints]]:
        """Layers of each kind that spans hold in each distinct round, and of them those recomputed whole."""
        case, start, end = span
        shape, prefix, found = self.rounds.shape[case], self.rounds.prefix, []
        for before in self.rounds.before:
            first, edge = before[shape, start], before[shape, end]
            again = np.minimum(first + self.cases.number[case], edge)
            found.append((prefix[edge] - prefix[first], prefix[again] - prefix[first]))
        return found

    def each_chunk(self, weights: Weights, case: Ints, every: list[tuple[Ints, Ints]]) -> list[Ints]:
        """What the chunks of each distinct round weigh."""
        return [weights.exact(self.line[case], *counts) for counts in every]

    def over_rounds(self, each: Iterable[Ints], case: Ints) -> Ints:
        """The sum over all rounds of what a chunk of each distinct one weighs."""
        times = self.rounds.times[:, self.rounds.shape[case]]
        found: Ints = np.add.reduce([number * weight for number, weight in zip(times, each, strict=True)])
        return found
