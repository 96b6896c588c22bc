"""Layers of each kind on the stages of strategies, as arrays of whole numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..inputs.record import dataclass
from ..models.strategy import Stage, Strategy
from .columns import Bools, Ints


@dataclass(frozen=True)
class Counts:
    """Layers of each kind on the stages of n strategies, padded to the longest pipeline.

    Arrays (n, stages, kinds), over all chunks of a stage. `held` (n, stages) masks real stages.
    """

    layer: Ints
    full: Ints
    selective: Ints
    offloaded: Ints
    held: Bools

    @classmethod
    def of(cls, strategies: Sequence[Strategy], kind_of_layer: Sequence[int]) -> Counts:
        """Counts by kind of the stages of `strategies` for a stack of layers of the given kinds."""
        kinds = max(kind_of_layer) + 1
        prefix = np.zeros((len(kind_of_layer) + 1, kinds), dtype=np.int64)
        for depth, kind in enumerate(kind_of_layer):
            prefix[depth + 1] = prefix[depth]
            prefix[depth + 1, kind] += 1
        most = max(len(strategy.stages) for strategy in strategies)
        shape = (len(strategies), most, kinds)
        arrays = {
            name: np.zeros(shape, dtype=np.int64) for name in ("layer", "full", "selective", "offloaded")
        }
        held = np.zeros(shape[:2], dtype=np.bool_)
        for row, strategy in enumerate(strategies):
            for stage, counts in enumerate(_by_kind(strategy, prefix)):
                held[row, stage] = True
                for name, count in counts.items():
                    arrays[name][row, stage] = count
        return cls(**arrays, held=held)


def _by_kind(strategy: Strategy, prefix: Ints) -> Iterator[dict[str, Ints]]:
    start = 0
    for stage in strategy.stages:
        end = start + stage.layers
        full = start + stage.recompute_full_layers
        selective = full + stage.recompute_selective_layers
        yield {
            "layer": prefix[end] - prefix[start],
            "full": prefix[full] - prefix[start],
            "selective": prefix[selective] - prefix[full],
            "offloaded": prefix[end] - prefix[end - stage.offloaded_layers],
        }
        start = end


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
