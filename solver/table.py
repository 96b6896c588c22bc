"""What each stage of one row could hold, and what that costs; whole numbers only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..costs.book import Sum
from ..costs.columns import Ints
from .coefficients import Coefficients, allowed_recompute, capacity_kib

FIELDS = ("start", "layers", "full", "selective", "offloaded", "chunk_ns", "tail_ns", "host_kib", "spare_kib")
"""Columns of an option: chunk-layers from `start` on; layers offloaded over the stage; costs."""


@dataclass(frozen=True)
class RowTable:
    """Builds the option tables of one row from its coefficients."""

    coefficients: Coefficients
    row: int

    @property
    def stages(self) -> int:
        """Pipeline stages."""
        return int(self.coefficients.strategies.pipeline_parallel[self.row])

    @property
    def chunks(self) -> int:
        """Chunks a stage."""
        return int(self.coefficients.strategies.virtual_pipeline[self.row])

    @cached_property
    def prefix(self) -> Ints:
        """Layers of each kind before each depth, in chunk-layers, (layers + 1, kinds)."""
        kinds = np.array(self.coefficients.request.model.kind_of_layer)
        depth = kinds[: len(kinds) // self.chunks]
        found = np.zeros((len(depth) + 1, int(kinds.max()) + 1), dtype=np.int64)
        found[np.arange(1, len(depth) + 1), depth] = 1
        before: Ints = found.cumsum(axis=0)
        return before

    def _value(self, part: dict[str, Ints], stage: int, counts: dict[str, Ints], chunks: int) -> Ints:
        total = np.full(counts["layer"].shape[0], int(part["fixed"][self.row]), dtype=np.int64)
        if stage == 0:
            total += int(part["first"][self.row])
        if stage == self.stages - 1:
            total += int(part["last"][self.row])
        for piece in ("layer", "full", "selective"):
            total += counts[piece] @ part[piece][self.row] * chunks
        found: Ints = total + counts["offloaded"] @ part["offloaded"][self.row]
        return found

    def _counts(self, picks: Ints) -> dict[str, Ints]:
        """Counts by kind of picks (start, layers, full, selective, offloaded)."""
        prefix, v = self.prefix, self.chunks
        start, layers, full, selective, offloaded = picks.T
        edge = start + layers
        counts = {
            "layer": prefix[edge] - prefix[start],
            "full": prefix[start + full] - prefix[start],
            "selective": prefix[start + full + selective] - prefix[start + full],
        }
        if prefix.shape[1] == 1:
            counts["offloaded"] = offloaded[:, None]
        else:
            counts["offloaded"] = prefix[edge] - prefix[edge - offloaded // v]
        return counts

    def options(self, stage: int, word: str, every: bool, starts: range, lengths: range) -> Ints:
        """Options of a stage that fit its card, for one way of recomputing; columns as FIELDS."""
        picked = self._picks(stage, word, every, self._spans(starts, lengths))
        if not len(picked):
            return np.zeros((0, len(FIELDS)), dtype=np.int64)
        counts = self._counts(picked)
        c = self.coefficients
        spare = np.min([self._spare(total, stage, counts) for total in c.memory.values()], axis=0)
        columns = [
            picked,
            self._value(c.chunk.stage, stage, counts, 1)[:, None],
            self._value(c.tail.stage, stage, counts, self.chunks)[:, None],
            self._value(c.host.stage, stage, counts, self.chunks)[:, None],
            spare[:, None],
        ]
        fitting: Ints = np.concatenate(columns, axis=1)[spare >= 0]
        return fitting

    def _spare(self, total: Sum, stage: int, counts: dict[str, Ints]) -> Ints:
        """KiB of the card left at one moment."""
        used = self._value(total.stage, stage, counts, self.chunks)
        flight = self._value(total.flight, stage, counts, 1)
        in_flight = int(self.coefficients.in_flight[self.row, stage])
        return capacity_kib(self.coefficients.request) - used - in_flight * flight

    def _spans(self, starts: range, lengths: range) -> Ints:
        """(start, layers) of all spans that lie within the stack."""
        grid = np.stack(np.meshgrid(np.array(starts), np.array(lengths), indexing="ij"), axis=-1)
        spans: Ints = grid.reshape(-1, 2).astype(np.int64)
        inside: Ints = spans[spans.sum(axis=1) < len(self.prefix)]
        return inside

    def _picks(self, stage: int, word: str, every: bool, spans: Ints) -> Ints:
        """(start, layers, full, selective, offloaded) of each span, for one way of recomputing."""
        if word == "free":
            picks = [self._free_picks(stage, span, every) for span in spans]
            return np.concatenate(picks) if picks else np.zeros((0, 5), dtype=np.int64)
        if word == "none":
            number = np.zeros(len(spans), dtype=np.int64)
        elif every:
            number = spans[:, 1]
        else:
            repeats = spans[:, 1]
            spans = np.repeat(spans, repeats, axis=0)
            number = np.arange(len(spans)) - np.repeat(np.cumsum(repeats) - repeats, repeats) + 1
        none = np.zeros(len(spans), dtype=np.int64)
        pair = (none, number) if word == "selective" else (number, none)
        offloaded = spans[:, 1] * self.chunks if self.coefficients.folds[self.row] else none
        return np.column_stack([spans, *pair, offloaded])

    def _free_picks(self, stage: int, span: Ints, every: bool) -> Ints:
        """Recompute and offload of one span, layer by layer.

        Where all layers are alike, of the pairs with one number of selective layers only that with the
        fewest full ones that fit is of use: each further one costs time.
        """
        length = int(span[1])
        alike = self.prefix.shape[1] == 1 and not every
        words = allowed_recompute(self.coefficients.request)
        pairs, offloads = self._free_pairs(length, every, words, alike), self._offloads(length)
        grid = np.repeat(pairs, len(offloads), axis=0)
        tail = np.tile(offloads, len(pairs))[:, None]
        head = np.broadcast_to(span, (len(grid), 2))
        picks = np.concatenate([head, grid, tail], axis=1)
        if alike and "full" in words:
            picks[:, 2] = self._fewest_full(stage, picks)
            picks = picks[picks[:, 2] + picks[:, 3] <= length]
        return picks

    def _free_pairs(self, length: int, every: bool, words: tuple[str, ...], alike: bool) -> Ints:
        """(full, selective) layers of a span; with none of the first where they are filled in later."""
        full = "full" in words and not alike
        fulls = np.arange(length + 1) if full else np.zeros(1, dtype=np.int64)
        partial = np.arange(length + 1) if "selective" in words else np.zeros(1, dtype=np.int64)
        pairs = np.stack(np.meshgrid(fulls, partial, indexing="ij"), axis=-1).reshape(-1, 2)
        total = pairs.sum(axis=1)
        kept: Ints = pairs[total == length] if every else pairs[total <= length]
        return kept

    def _fewest_full(self, stage: int, picks: Ints) -> Ints:
        """Fully recomputed layers that picks without any need to fit every moment; 2^40 where none helps."""
        counts = self._counts(picks)
        fewest = np.zeros(len(picks), dtype=np.int64)
        in_flight = int(self.coefficients.in_flight[self.row, stage])
        for total in self.coefficients.memory.values():
            lacking = np.maximum(-self._spare(total, stage, counts), 0)
            relief = -in_flight * int(total.flight["full"][self.row, 0])
            needed = -(-lacking // relief) if relief > 0 else np.where(lacking > 0, 2**40, 0)
            fewest = np.maximum(fewest, needed)
        return fewest

    def _offloads(self, length: int) -> Ints:
        s = self.coefficients.strategies
        if not s.is_("offload_optimizer", "cpu")[self.row]:
            return np.zeros(1, dtype=np.int64)
        if self.coefficients.folds[self.row]:
            return np.array([length * self.chunks], dtype=np.int64)
        return np.arange(length * self.chunks + 1, dtype=np.int64)
