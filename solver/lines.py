"""What stages hold of each round of chunks, by kind of layer, and what that weighs in a sum of the ledger."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..costs.columns import Ints
from ..inputs.record import dataclass
from ..models.transformer import Transformer
from .slots import kinds_before, slots


@dataclass(frozen=True)
class Weights:
    """What layers of each kind weigh in a sum, (lines, kinds), and fully recomputed ones more, or less.

    A layer that is recomputed whole spares between `least` and `most`: less than nothing where it costs.
    """

    layer: Ints
    change: Ints

    def weigh(self, line: Ints, counts: Ints, number: Ints) -> Ints:
        """At least what chunks of `counts` layers (..., kinds) weigh, the first `number` of them recomputed.

        Never more than what a longer chunk around them weighs.
        """
        kept = _product(self.layer[line], counts)
        if self.unmoved:
            return kept
        length, most, least = _total(counts), self._most[line], self._least[line]
        spared = kept - np.minimum(number, length) * most
        bare = kept + _product(self.change[line], counts) + np.maximum(length - number, 0) * least
        found: Ints = np.where(least >= 0, np.maximum(spared, bare), spared)
        return found

    def exact(self, line: Ints, counts: Ints, again: Ints) -> Ints:
        """What chunks of `counts` layers weigh, `again` of them recomputed."""
        kept = _product(self.layer[line], counts)
        return kept if self.unmoved else kept + _product(self.change[line], again)

    @cached_property
    def _most(self) -> Ints:
        found: Ints = -self.change.min(axis=1)
        return found

    @cached_property
    def _least(self) -> Ints:
        found: Ints = -self.change.max(axis=1)
        return found

    @cached_property
    def unmoved(self) -> bool:
        """Whether full recompute changes nothing here."""
        return not self.change.any()


def _product(each: Ints, counts: Ints) -> Ints:
    """Kind by kind, summed."""
    found: Ints = each[..., 0] * counts[..., 0]
    for kind in range(1, counts.shape[-1]):
        found = found + each[..., kind] * counts[..., kind]
    return found


def _total(counts: Ints) -> Ints:
    """Layers of all kinds; a loop, as there are few."""
    found: Ints = counts[..., 0]
    for kind in range(1, counts.shape[-1]):
        found = found + counts[..., kind]
    return found


@dataclass(frozen=True)
class Rounds:
    """The distinct rounds of chunks of some shapes; where one has fewer the first one again, no times.

    `before` (rounds, shapes, places + 1) are the layers before each place, `times` (rounds, shapes) how many
    rounds are like each, `last` (shapes,) which one comes last. `shape` is that of each case, `prefix` the
    layers of each kind before each depth.
    """

    shape: Ints
    before: Ints
    times: Ints
    last: Ints
    prefix: Ints

    @classmethod
    def of(cls, model: Transformer, chunks: Ints, places: Ints) -> Rounds:
        """Of cases with so many chunks a stage and so many places a round."""
        shapes, shape = np.unique(places << 32 | chunks, return_inverse=True)
        known = [slots(model, number & 0xFFFFFFFF, number >> 32) for number in shapes.tolist()]
        most = max((len(one.times) for one in known), default=1)
        wide = max((one.before.shape[1] for one in known), default=1)
        before = np.zeros((most, len(known), wide), dtype=np.int64)
        times = np.zeros((most, len(known)), dtype=np.int64)
        for index, one in enumerate(known):
            number, width = one.before.shape
            before[:, index, :width] = one.before[:1]
            before[:number, index, :width] = one.before
            times[:number, index] = one.times
        last = np.array([one.last for one in known], dtype=np.int64)
        return cls(shape.reshape(-1), before, times, last, kinds_before(model))

    @property
    def single(self) -> bool:
        """Whether no case has several rounds that differ."""
        return len(self.before) == 1

    @cached_property
    def usual(self) -> Ints:
        """Layers of each kind before each place of the round that comes most often, of equals the last."""
        return self._of(len(self.times) - 1 - self.times[::-1].argmax(axis=0))

    @cached_property
    def outer(self) -> tuple[Ints, Ints]:
        """The same of the first round and of the last."""
        return self._of(np.zeros_like(self.last)), self._of(self.last)

    @cached_property
    def whole(self) -> Ints:
        """The same of all rounds together."""
        found: Ints = (self.times[..., None, None] * self.prefix[self.before]).sum(axis=0)
        return found

    def _of(self, number: Ints) -> Ints:
        """The same of one round of each shape, (shapes, places + 1, kinds)."""
        found: Ints = self.prefix[self.before[number, np.arange(len(number))]]
        return found

    def counts(self, table: Ints, case: Ints, start: Ints, end: Ints) -> Ints:
        """Layers of each kind that cases hold from place `start` to `end`."""
        shape = self.shape[case]
        found: Ints = table[shape, end] - table[shape, start]
        return found
