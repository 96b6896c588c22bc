"""Places of a round of chunks: stages take as many of every round, and layers fill them in turn."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ..costs.columns import Ints
from ..inputs.record import dataclass
from ..models.chunks import lacking
from ..models.transformer import Transformer


@dataclass(frozen=True)
class Slots:
    """Layers before each place of the distinct rounds of a stack, (rounds, places + 1).

    `times` says how many rounds are like each; the first round is like the first of them, the last round like
    that at `last`. Of layers of one kind all rounds are told as alike.
    """

    before: Ints
    times: Ints
    last: int

    @property
    def places(self) -> int:
        """Places that the stages share out, once for all rounds."""
        return int(self.before.shape[1] - 1)


def places(model: Transformer, stages: Ints, chunks: Ints) -> tuple[Ints, Ints]:
    """Fewest and most places of each round of chunks that so many stages share out.

    As few as hold the layers, a place a stage at least; of several kinds also as many as the stages share out
    evenly then, so that only the end of the chain lacks layers.
    """
    fewest: Ints = -(-model.layers // chunks)
    if len(model.kinds) == 1:
        return fewest, fewest
    most = np.where(chunks > 1, -(-model.layers // (stages * chunks)) * stages, model.layers)
    return np.maximum(fewest, stages), most


def slots(model: Transformer, chunks: int, number: int) -> Slots:
    """The places of `chunks` rounds of `number` places each over the stack of `model`.

    Where there are more of them than layers the last ones are empty, but for the modules that predict further
    tokens, which stand at the very end.
    """
    if len(model.kinds) == 1:
        return Slots(np.arange(number + 1, dtype=np.int64)[None, :], np.array([chunks]), 0)
    return _slots(model.kind_of_layer, model.mtp_layers, chunks, number)


@lru_cache(maxsize=256)
def _slots(kinds: tuple[int, ...], modules: int, chunks: int, places: int) -> Slots:
    every, number = _every(len(kinds), modules, chunks, places), np.array(kinds)
    distinct: dict[bytes, int] = {}
    kept: list[int] = []
    like: list[int] = []
    for index, before in enumerate(every):
        held = np.diff(before) > 0
        word = np.where(held, number[np.minimum(before[:-1], len(kinds) - 1)], -1).tobytes()
        if word not in distinct:
            distinct[word] = len(kept)
            kept.append(index)
        like.append(distinct[word])
    return Slots(every[kept], np.bincount(like), like[-1])


def _every(layers: int, modules: int, chunks: int, places: int) -> Ints:
    """Layers before each place of every round, (rounds, places + 1)."""
    place = np.arange(chunks)[:, None] * places + np.arange(places + 1)[None, :]
    found: Ints = np.minimum(place, layers - modules) + np.maximum(place - (places * chunks - modules), 0)
    return found


def chunk_sizes(model: Transformer, chunks: int, held: Sequence[int]) -> list[tuple[int, ...]]:
    """Layers of each chunk of stages that take `held` places of every round.

    Where layers do not fill the places the last stage lacks some, of several kinds the end of the chain.
    """
    if len(model.kinds) == 1:
        fewer = [0] * (len(held) - 1) + [chunks * sum(held) - model.layers]
        return [lacking(less, chunks, each) for less, each in zip(fewer, held, strict=True)]
    edges = np.concatenate([[0], np.cumsum(held)])
    sizes = np.diff(_every(model.layers, model.mtp_layers, chunks, sum(held))[:, edges], axis=1)
    return [tuple(stage) for stage in sizes.T.tolist()]


def kinds_before(model: Transformer) -> Ints:
    """Layers of each kind before each depth of the stack, (layers + 1, kinds)."""
    kinds = np.array(model.kind_of_layer)
    found = np.zeros((len(kinds) + 1, len(model.kinds)), dtype=np.int64)
    found[np.arange(1, len(kinds) + 1), kinds] = 1
    before: Ints = found.cumsum(axis=0)
    return before
