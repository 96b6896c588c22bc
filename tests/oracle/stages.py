"""Layouts of the stages of one row: how layers are split, recomputed and offloaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import NamedTuple

from shardwise.models import Strategy
from shardwise.models.backend import backend

from .rows import Row
from .stack import Stack


class Held(NamedTuple):
    """What one stage holds: layers of a chunk from `start` on, the first of them recomputed.

    `offloaded` counts the last layers of the whole stage, all chunks together, which `lacks` some layers at
    its end: the last chunk first, then the one before.
    """

    start: int
    layers: int
    full: int
    selective: int
    offloaded: int
    lacks: int = 0

    def sizes(self, chunks: int) -> list[int]:
        """Layers of each chunk."""
        found, left = [self.layers] * chunks, self.lacks
        for chunk in range(chunks - 1, -1, -1):
            found[chunk] -= min(left, self.layers)
            left -= min(left, self.layers)
        return found


Layout = tuple[Held, ...]
Again = tuple[tuple[int, int], ...]


def splits(layers: int, stages: int) -> Iterator[tuple[int, ...]]:
    """Every way to give each stage at least one layer.

    >>> list(splits(4, 2))
    [(1, 3), (2, 2), (3, 1)]
    """
    if stages == 1:
        yield (layers,)
        return
    for first in range(1, layers - stages + 2):
        for rest in splits(layers - first, stages - 1):
            yield (first, *rest)


def layouts(row: Row, stack: Stack, words: tuple[str, ...]) -> Iterator[Layout]:
    """Every layout of a stack that the backend can express; `words` a layer may carry.

    What predicts further tokens stands on the last stage, all of it.
    """
    known, layers, v = backend(row.backend), stack.layers, row.virtual_pipeline
    depth = (layers + v - 1) // v
    lacks = [0] * (row.pipeline_parallel - 1) + [depth * v - layers]
    for split in splits(depth, row.pipeline_parallel):
        if known.layers_freedom == "even" and max(split) - min(split) > 1:
            continue
        if split[-1] < stack.modules:
            continue
        starts = [sum(split[:stage]) for stage in range(len(split))]
        for again in recomputes(row.backend, split, words):
            for gone in offloads(row, split, lacks):
                parts = zip(starts, split, again, gone, lacks, strict=True)
                yield tuple(Held(start, count, *pair, out, less) for start, count, pair, out, less in parts)


def recomputes(name: str, split: tuple[int, ...], words: tuple[str, ...]) -> Iterator[Again]:
    """(whole, in part) layers recomputed in each chunk.

    "all": every layer or none. "same": one number for all chunks, at most what each holds; in part every
    layer or none. "free": any. Where layers may not be kept, each is recomputed one way or the other.
    """
    known = backend(name)
    able = tuple(word for word in words if word in known.recompute)
    must = "none" not in able
    if known.recompute_freedom == "free":
        yield from product(*(list(_pairs(count, able)) for count in split))
        return
    if not must:
        yield tuple((0, 0) for _ in split)
    if "selective" in able:
        yield tuple((0, count) for count in split)
    if "full" in able:
        most = max(split)
        least = most if must or known.recompute_freedom == "all" else 1
        for number in range(least, most + 1):
            yield tuple((min(number, count), 0) for count in split)


def _pairs(count: int, able: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    for full in range(count + 1):
        for selective in range(count - full + 1):
            kept = count - full - selective
            used = {"full": full, "selective": selective, "none": kept}
            if all(word in able for word, number in used.items() if number):
                yield full, selective


def offloads(row: Row, split: tuple[int, ...], lacks: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Layers of each stage whose states live on the host."""
    whole = [count * row.virtual_pipeline - less for count, less in zip(split, lacks, strict=True)]
    if row.offload_optimizer == "none":
        yield tuple(0 for _ in whole)
    elif backend(row.backend).offload_freedom == "all":
        yield tuple(whole)
    else:
        yield from product(*(range(count + 1) for count in whole))


def layout_of(strategy: Strategy) -> Layout | None:
    """The layout of a strategy; None where its counts are not whole numbers of each chunk."""
    v, start, found = strategy.virtual_pipeline, 0, []
    for stage in strategy.stages:
        sizes = list(stage.chunk_layers or [stage.layers // v] * v)
        most = max(sizes)
        counts = (stage.recompute_full_layers, stage.recompute_selective_layers)
        full, selective = (
            next((n for n in range(most + 1) if sum(min(n, size) for size in sizes) == count), None)
            for count in counts
        )
        if full is None or selective is None:
            return None
        held = Held(start, most, full, selective, stage.offloaded_layers, most * v - stage.layers)
        if held.sizes(v) != sizes:
            return None
        found.append(held)
        start += most
    return tuple(found)
