"""The value of one layout: memory at each moment, host memory of each node, step time. Plain integers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import chain
from operator import mul
from typing import NamedTuple

from shardwise.plans import Request

from .placement import line_up, nodes
from .prices import Affine, Costs
from .rows import Row
from .stages import Held, Layout
from .wishes import card_kib, deadline_ns, host_kib, shown_share, uplink_bytes


class Weight(NamedTuple):
    """What one stage weighs."""

    peak_kib: int
    host_kib: int
    chunk_ns: int
    tail_ns: int
    shown_chunk_ns: int
    shown_tail_ns: int
    sent_bytes: int
    longest_ns: int
    end_ns: int


def in_flight(row: Row, stage: int) -> int:
    """Chunks whose activations a stage keeps at its fullest.

    One forward, one backward: a stage runs ahead by the stages behind it. Interleaved: by all chunks but
    the last of every stage, and twice the stages behind it, and the one at work. Never more than there are.
    """
    p, v, m = row.pipeline_parallel, row.virtual_pipeline, row.gradient_accumulation_steps
    ahead = p - stage if v == 1 else (v - 1) * p + 2 * (p - 1 - stage) + 1
    return min(ahead, m * v)


Counts = tuple[int, ...]
"""Layers of each kind: all, recomputed whole, recomputed in part, offloaded; in the order of `Affine`."""


@lru_cache(maxsize=2**16)
def counted(held: Held, chunks: tuple[tuple[int, ...], ...], kinds: int) -> Counts:
    """Layers of some chunks of a stage, one by one; offloaded ones are counted over all its chunks."""
    found = [[0] * kinds for _ in range(4)]
    every, whole, part, offloaded = found
    for depth, kind in (pair for chunk in chunks for pair in enumerate(chunk)):
        every[kind] += 1
        if depth < held.full:
            whole[kind] += 1
        elif depth < held.full + held.selective:
            part[kind] += 1
    for kind in [kind for chunk in held.chunks for kind in chunk][held.layers - held.offloaded :]:
        offloaded[kind] += 1
    return tuple(chain(*found))


@dataclass
class Evaluator:
    """Weighs layouts of one row; a stage once weighed is remembered, and so is what it holds of the card."""

    request: Request
    row: Row
    costs: Costs
    known: dict[tuple[int, Held], Weight] = field(default_factory=dict)
    peaks: dict[tuple[int, Held], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        row = self.row
        inner, order = row.tensor_parallel * row.context_parallel, row.rank_order
        node = self.request.cluster.node.gpus
        self.nodes = nodes(inner, row.pipeline_parallel, row.data_parallel, order == "tp-cp-pp-dp", node)
        self.card_kib, self.host_kib = card_kib(self.request), host_kib(self.request)
        self.deadline_ns = deadline_ns(self.request)
        self.passes = row.gradient_accumulation_steps * row.virtual_pipeline
        self.work = replace(self.costs.chunk, first=0, last=0)

    def under(self, request: Request) -> Evaluator:
        """The same row under other limits: what its stages weigh is shared."""
        return Evaluator(request, self.row, self.costs, self.known, self.peaks)

    def step_ns(self, layout: Layout) -> int | None:
        """The step of a layout, None where it breaks a limit."""
        if any(self.peak_kib(stage, held) > self.card_kib for stage, held in enumerate(layout)):
            return None
        weights = [self.weight(stage, held) for stage, held in enumerate(layout)]
        if not self._host_holds(weights):
            return None
        chunks = [weight.chunk_ns for weight in weights]
        step = (self.passes - 1) * self._pace(weights) + sum(chunks) + max(w.tail_ns for w in weights)
        if not self._talks_little(weights, step):
            return None
        return None if self.deadline_ns is not None and step > self.deadline_ns else step

    def _pace(self, weights: Sequence[Weight]) -> int:
        """Time between chunks: the slowest stage's, or that of the longest chunk of all rounds but one.

        That one waits for the link with the embedding or that with the head.
        """
        common = max(weight.longest_ns for weight in weights)
        waits = max(0, *(weight.end_ns - common for weight in weights))
        common += -(-waits // self.row.virtual_pipeline)
        return max(common, *(weight.chunk_ns for weight in weights))

    def _talks_little(self, weights: Sequence[Weight], step: int) -> bool:
        """Uplinks carry what each stage sends; communication shows for a small share of the step."""
        most, share = uplink_bytes(self.request), shown_share(self.request)
        if most is not None and max(weight.sent_bytes for weight in weights) > most:
            return False
        slowest = max(weights, key=lambda weight: weight.chunk_ns)
        last = max(weights, key=lambda weight: weight.tail_ns)
        shown = self.passes * slowest.shown_chunk_ns + last.shown_tail_ns
        return share is None or 10_000 * shown <= share * step

    def _host_holds(self, weights: Sequence[Weight]) -> bool:
        """Every node holds what its cards offload; only where nodes are alike can that be arranged."""
        if self.row.offload_optimizer == "none":
            return True
        loads = [sum(cards * weights[stage].host_kib for stage, cards in node) for node in self.nodes]
        return line_up(self.nodes) and max(loads) <= self.host_kib

    def weight(self, stage: int, held: Held) -> Weight:
        """Memory and time of one stage."""
        found = self.known.get((stage, held))
        if found is None:
            found = self.known[stage, held] = self._weighed(stage, held)
        return found

    def peak_kib(self, stage: int, held: Held) -> int:
        """Memory of one stage at its fullest moment."""
        found = self.peaks.get((stage, held))
        if found is None:
            whole, chunks = self._counted(held)
            flight, unlike = in_flight(self.row, stage), set(chunks)
            found = self.peaks[stage, held] = max(
                self._add(moment.stay, stage, whole)
                + flight * max(self._add(moment.flight, stage, chunk) for chunk in unlike)
                for moment in self.costs.moments
            )
        return found

    def _counted(self, held: Held) -> tuple[Counts, list[Counts]]:
        """Layers of a stage, and of each of its chunks."""
        kinds = len(self.costs.chunk.layer)
        return counted(held, held.chunks, kinds), [counted(held, (chunk,), kinds) for chunk in held.chunks]

    def _weighed(self, stage: int, held: Held) -> Weight:
        costs, v = self.costs, self.row.virtual_pipeline
        whole, chunks = self._counted(held)
        each = [self._add(self.work, stage, chunk) for chunk in chunks]
        longest, busy, link = max(each), max(each), 0
        for chunk, spread, alone in self._outer(stage):
            busy += max(spread - (longest - each[chunk]) // v, 0)
            link = max(link, each[chunk] + alone)
        sent = self.passes * self._add(costs.sent_chunk, stage, chunks[0])
        return Weight(
            self.peak_kib(stage, held),
            self._add(costs.host, stage, whole),
            busy,
            self._add(costs.tail, stage, whole),
            self._add(costs.shown_chunk, stage, chunks[0]),
            self._add(costs.shown_tail, stage, whole),
            sent + self._add(costs.sent_stage, stage, whole),
            longest,
            link,
        )

    def _outer(self, stage: int) -> list[tuple[int, int, int]]:
        """(Chunk, share of one chunk, whole) of embedding and head, where they stand on a stage.

        Their chunk waits for longer ones: that room they fill before they make any chunk longer.
        """
        first = [(0, self.costs.chunk.first, self.costs.whole_first)] if stage == 0 else []
        here = stage == self.row.pipeline_parallel - 1
        return first + ([(-1, self.costs.chunk.last, self.costs.whole_last)] if here else [])

    def _add(self, part: Affine, stage: int, counts: Counts) -> int:
        """Ends, then so many layers."""
        total = part.fixed
        total += part.first if stage == 0 else 0
        total += part.last if stage == self.row.pipeline_parallel - 1 else 0
        layers: int = sum(map(mul, part.by_kind, counts))
        return total + layers
