"""Rows too large for a card tell of others, with larger micro-batches or more chunks and all else equal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..costs.columns import Bools, Ints
from ..models.overlap import TENSOR_KNOB
from .space import Space

NONE = 2**40
"""No micro-batch is so large."""


class Rows(NamedTuple):
    """Rows of some shapes, in their order; `place` is equal for equal degrees, exchange and states."""

    place: Ints
    micro: Ints
    plain: Bools
    """Rows with one chunk a stage."""
    filled: Bools
    """Rows whose every stage has as many micro-batches in flight as a pipeline of its length ever has."""

    def take(self, some: Ints) -> Rows:
        """Some of the rows."""
        return Rows(self.place[some], self.micro[some], self.plain[some], self.filled[some])


class TooLarge:
    """By degrees, exchange and states of rows, the least micro-batch that was found too large for a card.

    Rows of a space run 1F1B or interleaved. With twice the micro-batch everything that grows with it is as
    large or larger, roundings and all; states, and micro-batches in flight of a filled pipeline, are the
    same. Each stage of a pipeline of several chunks has at least as many layers in flight as with one; of
    several kinds of layers these are others, so that one chunk tells nothing of more.
    """

    def __init__(self, found: Space, kinds: int) -> None:
        self.found, self.kinds = found, kinds
        self.most = max((len(table) for table in found.variants), default=0)
        exchanges = int(found.exchange.max(initial=0)) + 1
        self.kin = 8 * (found.core * exchanges + found.exchange)
        self.below = np.zeros(self.most * (int(self.kin.max(initial=0)) + 8), dtype=np.int64)
        """How far the least micro-batch lies below `NONE`."""

    def rows(self, shapes: Ints) -> Rows:
        """All rows of some shapes."""
        columns, sizes = self.found.shapes, self.found.sizes[shapes]
        steps = columns["gradient_accumulation_steps"]
        kin = self.kin + 4 * columns[TENSOR_KNOB] + 2 * columns["sequence_parallel"] + (steps > 1)
        each = np.repeat(shapes, sizes)
        variant = np.arange(len(each)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        plain = columns["virtual_pipeline"] == 1
        filled = (steps >= columns["pipeline_parallel"]) & (plain | (self.kinds == 1))
        micro = columns["micro_batch_size"][each]
        return Rows(kin[each] * self.most + variant, micro, plain[each], filled[each])

    def known(self, rows: Rows) -> Bools:
        """Rows that are too large, by what was found."""
        least = NONE - self.below[rows.place]
        found: Bools = rows.filled & ((rows.micro == least) | (rows.micro >= 2 * least))
        return found

    def learn(self, rows: Rows, by_card: Bools) -> None:
        """These rows are too large, those `by_card` for a card."""
        some = rows.take(np.flatnonzero(rows.plain & rows.filled & by_card))
        np.maximum.at(self.below, some.place, NONE - some.micro)
