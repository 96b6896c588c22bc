"""What each stage of one row could hold, and what that costs; whole numbers only."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..costs.columns import Bools, Ints
from ..costs.sums import Sum
from ..inputs.record import dataclass
from .capacity import capacity_kib
from .coefficients import Coefficients
from .slots import Slots, kinds_before, slots
from .stage_limits import comm_share

FIELDS = (
    "start", "layers", "full", "selective", "offloaded", "chunk_ns", "tail_ns", "host_kib", "spare_kib",
    "longest_ns", "end_ns",
)  # fmt: skip
"""Columns of an option: chunk-layers from `start` on; layers offloaded over the stage; costs.

`longest_ns` is the longest chunk without embedding and head, `end_ns` the link that one of these stands on, 0
on inner stages.

Where the share of communication is limited two more: ns of it that show in `chunk_ns` and in `tail_ns`.
"""

LONGEST, END = (FIELDS.index(name) for name in ("longest_ns", "end_ns"))
Counts = dict[str, Ints]
"""Layers by kind of some picks."""

SHOWN_CHUNK, SHOWN_TAIL = len(FIELDS), len(FIELDS) + 1


@dataclass(frozen=True)
class Weighed:
    """Picks with what their layers weigh: ns of a chunk and of the tail, host KiB, card KiB by moment.

    `chunk` is the longest of a pick's chunks, `ends` are its first and its last, (2, picks).
    """

    picks: Ints
    chunk: Ints
    ends: Ints
    tail: Ints
    host: Ints
    moments: list[tuple[Ints, Ints, Sum]]
    sent: Ints | None = None
    """Bytes of a machine's uplinks in a step, where they are limited."""
    shown: tuple[Ints, Ints] | None = None
    """Nanoseconds of shown communication of a chunk and of the tail, where its share is limited."""


@dataclass(frozen=True)
class RowTable:
    """Builds the option tables of one row from its coefficients."""

    coefficients: Coefficients
    row: int
    places: int
    """Places of each round of chunks."""

    @property
    def stages(self) -> int:
        """Pipeline stages."""
        return int(self.coefficients.strategies.pipeline_parallel[self.row])

    @property
    def chunks(self) -> int:
        """Chunks a stage."""
        return int(self.coefficients.strategies.virtual_pipeline[self.row])

    @property
    def lacking(self) -> int:
        """Layers that the last stage lacks."""
        return int(self.coefficients.lacking[self.row])

    @cached_property
    def slots(self) -> Slots:
        """The places of the row's rounds of chunks."""
        return slots(self.coefficients.request.model, self.chunks, self.places)

    @cached_property
    def prefix(self) -> Ints:
        """Layers of each kind before each depth of the stack, (layers + 1, kinds)."""
        return kinds_before(self.coefficients.request.model)

    def _each(self, part: dict[str, Ints], counts: Counts) -> Ints:
        """What the layers of a chunk of each distinct round weigh in a sum, (rounds, picks)."""
        total = np.zeros(counts["layer"].shape[:2], dtype=np.int64)
        for piece in ("layer", "full", "selective"):
            each = part[piece][self.row]
            if each.any():
                total += counts[piece] @ each
        return total

    def _away(self, part: dict[str, Ints], counts: Counts) -> Ints | int:
        """What offloaded layers weigh in a sum."""
        each = part["offloaded"][self.row]
        return counts["offloaded"] @ each if each.any() else 0

    def _longest(self, part: dict[str, Ints], counts: Counts) -> Ints:
        """What layers weigh in a sum of one chunk, without its ends: the longest of a pick's chunks."""
        found: Ints = self._each(part, counts).max(axis=0) + self._away(part, counts)
        return found

    def _stage(self, part: dict[str, Ints], counts: Counts) -> Ints:
        """What layers weigh in a sum over a stage, without its ends."""
        found: Ints = self.slots.times @ self._each(part, counts) + self._away(part, counts)
        return found

    def _ends(self, part: dict[str, Ints], stages: Ints) -> Ints:
        """Fixed, first and last coefficients of stages in a sum."""
        fixed, first, last = (int(part[piece][self.row]) for piece in ("fixed", "first", "last"))
        found: Ints = fixed + first * (stages == 0) + last * (stages == self.stages - 1)
        return found

    def _counts(self, picks: Ints) -> Counts:
        """Counts by kind of picks (start, layers, full, selective, offloaded).

        Of the chunk of each distinct round, (rounds, picks, kinds); offloaded ones over the stage.
        """
        prefix, before = self.prefix, self.slots.before
        start, layers, full, selective, offloaded = picks.T
        first, edge = before[:, start], before[:, start + layers]
        whole = np.minimum(first + full, edge)
        part = np.minimum(whole + selective, edge)
        counts = {
            "layer": prefix[edge] - prefix[first],
            "full": prefix[whole] - prefix[first],
            "selective": prefix[part] - prefix[whole],
        }
        if prefix.shape[1] == 1:
            counts["offloaded"] = offloaded[:, None]
        else:
            counts["offloaded"] = prefix[edge[0]] - prefix[edge[0] - offloaded // self.chunks]
        return counts

    def weighed(self, picks: Ints) -> Weighed:
        """What picks weigh on any stage but for its ends."""
        counts, c = self._counts(picks), self.coefficients
        moments = [
            (self._stage(total.stage, counts), self._longest(total.flight, counts), total)
            for total in c.binding
        ]
        return Weighed(
            picks,
            self._longest(c.chunk.stage, counts),
            self._outer(picks, counts),
            self._stage(c.tail.stage, counts),
            self._stage(c.host.stage, counts),
            moments,
            self._sent(counts),
            self._shown(counts),
        )

    def _outer(self, picks: Ints, counts: Counts) -> Ints:
        """Nanoseconds of the layers of the first and the last chunk of picks, (2, picks).

        Of layers of one kind the last stage lacks some at its end.
        """
        part = self.coefficients.chunk.stage
        first, last = self._each(part, counts)[[0, self.slots.last]] + self._away(part, counts)
        if self.lacking:
            short = picks.copy()
            short[:, 1] = np.maximum(short[:, 1] - self.lacking, 0)
            last = self._longest(part, self._counts(short))
        return np.stack([first, last])

    def _sent(self, counts: Counts) -> Ints | None:
        c = self.coefficients
        if c.request.limits.max_uplink_bytes_per_step is None:
            return None
        each, once = c.uplink
        total: Ints = int(c.passes[self.row]) * self._longest(each.stage, counts)
        return total + self._stage(once.stage, counts)

    def _shown(self, counts: Counts) -> tuple[Ints, Ints] | None:
        c = self.coefficients
        if comm_share(c.request) is None:
            return None
        each, once = c.communication
        return self._longest(each.stage, counts), self._stage(once.stage, counts)

    def options(self, stages: Ints, weighed: Weighed, some: Bools) -> list[Ints]:
        """Options of each of `stages` that fit its card, among its picks `some` (stages, picks).

        Columns as FIELDS.
        """
        c = self.coefficients
        spare = self._spare(stages, weighed)
        place, kept = np.nonzero(some & (spare >= 0) & self._carried(stages, weighed))
        busy, longest, link = self._chunk(stages[place], weighed, kept)
        sums = [(weighed.tail, c.tail), (weighed.host, c.host)]
        parts = [values[kept] + self._ends(total.stage, stages)[place] for values, total in sums]
        columns = [weighed.picks[kept], busy, *parts, spare[place, kept], longest, link]
        if weighed.shown is not None:
            shown = zip(weighed.shown, c.communication, strict=True)
            columns += [values[kept] + self._ends(total.stage, stages)[place] for values, total in shown]
        return np.split(np.column_stack(columns), np.searchsorted(place, np.arange(1, len(stages))))

    def _chunk(self, stage: Ints, weighed: Weighed, kept: Ints) -> tuple[Ints, Ints, Ints]:
        """Of picks on their stages the chunk's ns, the longest chunk, and the link of those at an end.

        Embedding and head fill what their own chunk lacks of the longest before they add to one.
        """
        c, row = self.coefficients, self.row
        longest = weighed.chunk[kept] + int(c.chunk.stage["fixed"][row])
        lacking = (weighed.chunk - weighed.ends)[:, kept]
        busy, link = longest.copy(), np.zeros_like(longest)
        for piece, lacks, place in zip(("first", "last"), lacking, (0, self.stages - 1), strict=True):
            here, spread = stage == place, int(c.spread_chunk.stage[piece][row])
            busy += here * np.maximum(spread - lacks // self.chunks, 0)
            link = np.maximum(link, here * (longest - lacks + int(c.ends[piece][row])))
        return busy, longest, link

    def _carried(self, stages: Ints, weighed: Weighed) -> Bools:
        """Picks whose traffic the uplinks of a machine may carry, (stages, picks) or all."""
        most = self.coefficients.request.limits.max_uplink_bytes_per_step
        if weighed.sent is None or most is None:
            return np.ones(1, dtype=np.bool_)
        each, once = self.coefficients.uplink
        ends = int(self.coefficients.passes[self.row]) * self._ends(each.stage, stages)
        found: Bools = weighed.sent + (ends + self._ends(once.stage, stages))[:, None] <= most
        return found

    def _spare(self, stages: Ints, weighed: Weighed) -> Ints:
        """KiB of the card left at the fullest moment, (stages, picks)."""
        spare: Ints = np.minimum.reduce([self._left(stages, moment) for moment in weighed.moments])
        return spare

    def _left(self, stages: Ints, moment: tuple[Ints, Ints, Sum]) -> Ints:
        """KiB of the card left at one moment, (stages, picks)."""
        stay, flying, total = moment
        in_flight = self.coefficients.in_flight[self.row, stages]
        fixed = self._ends(total.stage, stages) + in_flight * self._ends(total.flight, stages)
        room = (capacity_kib(self.coefficients.request) - fixed)[:, None]
        left: Ints = room - stay - in_flight[:, None] * flying
        return left

    def fewest_full(self, stage: int, picks: Ints) -> Ints:
        """Fully recomputed layers that picks without any need to fit every moment; 2^40 where none helps."""
        fewest = np.zeros(len(picks), dtype=np.int64)
        in_flight = int(self.coefficients.in_flight[self.row, stage])
        for moment in self.weighed(picks).moments:
            lacking = np.maximum(-self._left(np.array([stage]), moment)[0], 0)
            relief = -in_flight * int(moment[2].flight["full"][self.row, 0])
            needed = -(-lacking // relief) if relief > 0 else np.where(lacking > 0, 2**40, 0)
            fewest = np.maximum(fewest, needed)
        return fewest
