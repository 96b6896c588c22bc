"""Totals of many strategies: coefficients times counts, stage by stage."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ..hardware import Cluster
from ..inputs.record import dataclass
from ..models.training import Training
from ..models.transformer import Transformer
from .book import Book, spread
from .columns import Floats, Ints, Strategies, distinct
from .flops_again import flops_again
from .frame import Frame, links
from .group import Group
from .host import stage_block
from .layout import Layout
from .moments import MOMENTS
from .schedule import Passes, Rounds, Step, in_rounds, plain, step
from .stage_counts import Counts
from .sums import add_up, add_up_each
from .terms import Term
from .traffic import traffic_terms


@dataclass(frozen=True)
class Prices:
    """Totals of n strategies with their stages, whole KiB and ns."""

    book: Book
    counts: Counts

    @cached_property
    def frame(self) -> Frame:
        """Masks and multiples of the stages."""
        return Frame.of(self.counts, self.book.layout)

    @cached_property
    def passes(self) -> Ints:
        """Chunks each stage works through in a step, m v."""
        s = self.book.layout.strategies
        return s.gradient_accumulation_steps * s.virtual_pipeline

    @cached_property
    def moments_kib(self) -> dict[str, Ints]:
        """Memory of each stage at each moment, (n, stages)."""
        return {moment: add_up(self.book.memory[moment], self.frame) for moment in MOMENTS}

    @cached_property
    def peak_kib(self) -> Ints:
        """Peak memory of the worst card, (n,)."""
        found: Ints = np.stack([m.max(axis=1) for m in self.moments_kib.values()]).max(axis=0)
        return found

    @cached_property
    def step(self) -> Step:
        """Step time and its composition."""
        chunk = add_up(self.book.chunk, self.frame)
        tail = add_up(self.book.tail, self.frame)
        return step(chunk, tail, self.counts.held, self.passes, self.made_of, self.rounds)

    @cached_property
    def rounds(self) -> Rounds | None:
        """What rounds of chunks wait for, where some are interleaved."""
        s = self.book.layout.strategies
        waits = in_rounds(s)
        if not waits.any():
            return None
        chunk, ends = links(self.book.unspread, self.frame)
        return Rounds(s.virtual_pipeline, chunk * waits[:, None], ends * waits)

    @cached_property
    def made_of(self) -> Passes | None:
        """The parts of each chunk, where a schedule asks for them."""
        s = self.book.layout.strategies
        if plain(s):
            return None
        return Passes(s, add_up(self.book.forward, self.frame), add_up(self.book.weight, self.frame))

    @cached_property
    def host_node_kib(self) -> Ints:
        """Host memory of the fullest node, (n,): stages that share a node add up."""
        layout = self.book.layout
        stages, cards, _ = stage_block(layout)
        each = add_up(self.book.host, self.frame)
        found = np.zeros(len(stages), dtype=np.int64)
        for count in distinct(stages).tolist():
            rows = stages == count
            padded = np.pad(each[rows], ((0, 0), (0, -each.shape[1] % count)))
            blocks = padded.reshape(padded.shape[0], -1, count).sum(axis=2)
            found[rows] = blocks.max(axis=1) * cards[rows]
        return found

    @cached_property
    def traffic_bytes(self) -> dict[str, tuple[Ints, Group]]:
        """By axis what a card of each stage sends in a step, (n, stages), and the groups it goes among."""
        chunks, axes = self.book.layout.strategies.virtual_pipeline, traffic_terms(self.book.timed)
        spelled = [
            [spread(term, chunks) if term.per == "chunk" else term for term in terms]
            for terms, _ in axes.values()
        ]
        groups = [group for _, group in axes.values()]
        return dict(zip(axes, zip(self._in_step(spelled), groups, strict=True), strict=True))

    @cached_property
    def flops_again(self) -> Floats:
        """FLOPs of a step that all cards together repeat under recompute, (n,)."""
        return flops_again(self.book.layout, self.counts)

    @cached_property
    def uplink_bytes(self) -> Ints:
        """What the network cards of a machine with the busiest stage send in a step, (n,)."""
        found: Ints = np.where(self.counts.held, self._in_step([self.book.uplink])[0], 0).max(axis=1)
        return found

    def _in_step(self, groups: Sequence[Sequence[Term]]) -> list[Ints]:
        """Of each group terms of a chunk as often as there are passes, and those of a stage, (n, stages)."""
        once = [[term for term in terms if term.per == "stage"] for terms in groups]
        each = [[term for term in terms if term.per == "chunk"] for terms in groups]
        found = add_up_each([*once, *each], self.frame)
        return [a + b * self.passes[:, None] for a, b in zip(found, found[len(groups) :], strict=False)]


def price_columns(
    transformer: Transformer, training: Training, cluster: Cluster, strategies: Strategies, counts: Counts
) -> Prices:
    """Prices of many strategies given as columns."""
    return Prices(Book(Layout(transformer, training, cluster, strategies)), counts)
