"""What the stages of a row may pick: spans of the stack, how their layers are recomputed and offloaded."""

from __future__ import annotations

import numpy as np

from ..costs.columns import Ints
from ..inputs.record import dataclass
from ..models.backend import backend
from ..models.strategy import BACKENDS
from .cases import FULL, SELECTIVE, allowed_recompute
from .stage_limits import comm_share
from .table import RowTable


@dataclass(frozen=True)
class Picks:
    """Picks of the row of a table, one a line: (start, layers, full, selective, offloaded)."""

    table: RowTable

    def where(self, stage: int, longest: int) -> tuple[range, range]:
        """Depths at which a stage may start, as others hold 1 to `longest` layers each, and lengths."""
        layers, left = self.table.places, self.table.stages - stage
        if self.table.prefix.shape[1] == 1:
            return range(1), self.lengths(longest)
        first, last = max(stage, layers - left * longest), min(stage * longest, layers - left)
        return range(first, last + 1), self.lengths(longest)

    def lengths(self, longest: int) -> range:
        """Chunk-layers a stage may hold."""
        layers, stages = self.table.places, self.table.stages
        if stages == 1:
            return range(layers, layers + 1)
        if (
            backend(BACKENDS[self.table.coefficients.strategies.backend[self.table.row]]).layers_freedom
            == "even"
        ):
            return range(layers // stages, layers // stages + (2 if layers % stages else 1))
        return range(1, longest + 1)

    def spans(self, starts: range, lengths: range) -> Ints:
        """(start, layers) of all spans within the stack that part no modules that predict further tokens."""
        grid = np.stack(np.meshgrid(np.array(starts), np.array(lengths), indexing="ij"), axis=-1)
        spans: Ints = grid.reshape(-1, 2).astype(np.int64)
        end, layers = spans.sum(axis=1), self.table.places
        whole = (end <= layers - self.table.coefficients.request.model.mtp_layers) | (end == layers)
        inside: Ints = spans[whole]
        return inside

    def alike(self, spans: Ints, word: int, number: int) -> Ints:
        """(start, layers, full, selective, offloaded) of spans under one way of recomputing."""
        none, layers = np.zeros(len(spans), dtype=np.int64), spans[:, 1]
        full = np.minimum(layers, number) if word == FULL else none
        selective = layers if word == SELECTIVE else none
        offloaded = layers * self.table.chunks if self.table.coefficients.folds[self.table.row] else none
        return np.column_stack([spans, full, selective, offloaded])

    def free(self, stage: int, spans: Ints, every: bool) -> Ints:
        """The same where each layer is free, and offloaded or not."""
        found = [self._layer_by_layer(stage, span, every) for span in spans]
        return np.concatenate(found) if found else np.zeros((0, 5), dtype=np.int64)

    def _layer_by_layer(self, stage: int, span: Ints, every: bool) -> Ints:
        """Recompute and offload of one span, layer by layer.

        Where all layers are alike, of the pairs with one number of selective layers only that with the
        fewest full ones that fit is of use: each further one costs time.
        """
        length = int(span[1])
        fewest = comm_share(self.table.coefficients.request) is None
        alike = self.table.prefix.shape[1] == 1 and not every and fewest
        words = allowed_recompute(self.table.coefficients.request)
        pairs, offloads = self._pairs(length, every, words, alike), self._offloads(length)
        grid = np.repeat(pairs, len(offloads), axis=0)
        tail = np.tile(offloads, len(pairs))[:, None]
        head = np.broadcast_to(span, (len(grid), 2))
        picks = np.concatenate([head, grid, tail], axis=1)
        if alike and "full" in words:
            picks[:, 2] = self.table.fewest_full(stage, picks)
            picks = picks[picks[:, 2] + picks[:, 3] <= length]
        return picks

    def _pairs(self, length: int, every: bool, words: tuple[str, ...], alike: bool) -> Ints:
        """(full, selective) layers of a span; with none of the first where they are filled in later."""
        full = "full" in words and not alike
        fulls = np.arange(length + 1) if full else np.zeros(1, dtype=np.int64)
        partial = np.arange(length + 1) if "selective" in words else np.zeros(1, dtype=np.int64)
        pairs = np.stack(np.meshgrid(fulls, partial, indexing="ij"), axis=-1).reshape(-1, 2)
        total = pairs.sum(axis=1)
        kept: Ints = pairs[total == length] if every else pairs[total <= length]
        return kept

    def _offloads(self, length: int) -> Ints:
        s = self.table.coefficients.strategies
        if not s.away("offload_optimizer")[self.table.row]:
            return np.zeros(1, dtype=np.int64)
        if self.table.coefficients.folds[self.table.row]:
            return np.array([length * self.table.chunks], dtype=np.int64)
        return np.arange(length * self.table.chunks + 1, dtype=np.int64)
