"""Layers on the stages of strategies, by kind: over all chunks of a stage, and in each chunk."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..inputs.record import dataclass
from ..models.chunks import Chunk, chunks_of
from ..models.strategy import Stage, Strategy
from .columns import Bools, Ints

COUNTED = ("layer", "full", "selective")


@dataclass(frozen=True)
class ChunkCounts:
    """Layers of each kind in the chunks of stages whose chunks are not alike, (n, stages, chunks, kinds).

    `rows` (n,) masks the strategies whose chunks differ in length or in kinds of layers.
    """

    rows: Bools
    layer: Ints
    full: Ints
    selective: Ints


@dataclass(frozen=True)
class Counts:
    """Layers of each kind on the stages of n strategies, padded to the longest pipeline.

    Arrays (n, stages, kinds), over all chunks of a stage. `held` (n, stages) masks real stages. `chunks`
    tells of single chunks where those of some strategy are not alike.
    """

    layer: Ints
    full: Ints
    selective: Ints
    offloaded: Ints
    held: Bools
    chunks: ChunkCounts | None = None

    @classmethod
    def of(cls, strategies: Sequence[Strategy], kind_of_layer: Sequence[int]) -> Counts:
        """Counts by kind of the stages of `strategies` for a stack of layers of the given kinds."""
        prefix = _prefix(kind_of_layer)
        stages = max(len(strategy.stages) for strategy in strategies)
        most = max(strategy.virtual_pipeline for strategy in strategies)
        shape = (len(strategies), stages, most, prefix.shape[1])
        each = {name: np.zeros(shape, dtype=np.int64) for name in COUNTED}
        offloaded = np.zeros((*shape[:2], shape[3]), dtype=np.int64)
        held = np.zeros(shape[:2], dtype=np.bool_)
        for row, strategy in enumerate(strategies):
            for place, (stage, chunks) in enumerate(zip(strategy.stages, chunks_of(strategy), strict=True)):
                held[row, place] = True
                offloaded[row, place] = _offloaded(stage, chunks, prefix)
                for index, chunk in enumerate(chunks):
                    for name, count in zip(COUNTED, _by_kind(chunk, prefix), strict=True):
                        each[name][row, place, index] = count
        unlike = _unlike(each["layer"], [strategy.virtual_pipeline for strategy in strategies])
        whole = {name: value.sum(axis=2) for name, value in each.items()}
        chunks_told = ChunkCounts(rows=unlike, **each) if unlike.any() else None
        return cls(**whole, offloaded=offloaded, held=held, chunks=chunks_told)


def _unlike(layer: Ints, chunks: Sequence[int]) -> Bools:
    """Strategies of which some stage has a chunk of other layers than its first, (n,)."""
    found = np.zeros(len(layer), dtype=np.bool_)
    for row, number in enumerate(chunks):
        found[row] = (layer[row, :, :number] != layer[row, :, :1]).any()
    return found


def _prefix(kind_of_layer: Sequence[int]) -> Ints:
    """Layers of each kind before each depth, (layers + 1, kinds)."""
    found = np.zeros((len(kind_of_layer) + 1, max(kind_of_layer) + 1), dtype=np.int64)
    found[np.arange(1, len(kind_of_layer) + 1), list(kind_of_layer)] = 1
    before: Ints = found.cumsum(axis=0)
    return before


def _by_kind(chunk: Chunk, prefix: Ints) -> tuple[Ints, Ints, Ints]:
    """Layers of a chunk, those recomputed whole and those in part, by kind."""
    full = chunk.start + chunk.full
    selective = full + chunk.selective
    return (
        prefix[chunk.start + chunk.layers] - prefix[chunk.start],
        prefix[full] - prefix[chunk.start],
        prefix[selective] - prefix[full],
    )


def _offloaded(stage: Stage, chunks: Sequence[Chunk], prefix: Ints) -> Ints:
    """The last layers of a stage, as many as it offloads, by kind."""
    left, found = stage.offloaded_layers, np.zeros(prefix.shape[1], dtype=np.int64)
    for chunk in reversed(chunks):
        end, some = chunk.start + chunk.layers, min(left, chunk.layers)
        found += prefix[end] - prefix[end - some]
        left -= some
    return found


def even_stages(layers: int, stages: int, recompute: str, offload: bool) -> tuple[Stage, ...]:
    """Layers as even as can be, the first stages taking one more; recompute and offload for all."""
    base, extra = divmod(layers, stages)
    counts = [base + (1 if stage < extra else 0) for stage in range(stages)]
    return tuple(
        Stage(
            layers=count,
            recompute_full_layers=count if recompute == "full" else 0,
            recompute_selective_layers=count if recompute == "selective" else 0,
            offloaded_layers=count if offload else 0,
        )
        for count in counts
    )
