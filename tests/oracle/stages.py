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
    """What one stage holds: the kinds of the layers of each chunk, of which the first are recomputed.

    Of each chunk `full` layers whole and `selective` behind them in part, as far as it has so many;
    `offloaded` counts the last layers of the stage, all chunks one after another.
    """

    chunks: tuple[tuple[int, ...], ...]
    full: int
    selective: int
    offloaded: int

    @property
    def layers(self) -> int:
        """Layers of all chunks."""
        return sum(len(chunk) for chunk in self.chunks)


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

    A stage takes as many places of every round of chunks: no more than hold the layers, of several kinds also
    as many as the stages can share out evenly. What predicts further tokens stands on the last stage, all of
    it.
    """
    known, v, p = backend(row.backend), row.virtual_pipeline, row.pipeline_parallel
    depth, alike = (stack.layers + v - 1) // v, len(set(stack.kinds)) == 1
    shared = [depth]
    if v > 1 and not alike:
        even = next(n for n in range(depth, depth + p) if n % p == 0)
        shared = sorted({max(depth, p), even})
    for split in (split for number in shared for split in splits(number, p)):
        if known.layers_freedom == "even" and max(split) - min(split) > 1:
            continue
        if split[-1] < stack.modules:
            continue
        held = one_kind(stack, v, split) if alike else several(stack, v, split)
        for again in recomputes(row.backend, split, words):
            for gone in offloads(row, [sum(map(len, chunks)) for chunks in held]):
                parts = zip(held, again, gone, strict=True)
                yield tuple(Held(chunks, *pair, out) for chunks, pair, out in parts)


def one_kind(stack: Stack, chunks: int, split: tuple[int, ...]) -> list[tuple[tuple[int, ...], ...]]:
    """Chunks of stages that take `split` places of each round, filled but for the end of the last stage."""
    sizes = [[count] * chunks for count in split]
    left = sum(split) * chunks - stack.layers
    for chunk in range(chunks - 1, -1, -1):
        gone = min(left, split[-1])
        sizes[-1][chunk] -= gone
        left -= gone
    return [tuple((stack.kinds[0],) * size for size in stage) for stage in sizes]


def several(stack: Stack, chunks: int, split: tuple[int, ...]) -> list[tuple[tuple[int, ...], ...]]:
    """The same of several kinds: layers fill the places in turn, what predicts further tokens the last."""
    layers, depth = stack.layers - stack.modules, sum(split)
    empty = (None,) * (depth * chunks - stack.layers)
    places = (*stack.kinds[:layers], *empty, *stack.kinds[layers:])
    found = []
    for stage, count in enumerate(split):
        starts = [chunk * depth + sum(split[:stage]) for chunk in range(chunks)]
        found.append(tuple(tuple(k for k in places[s : s + count] if k is not None) for s in starts))
    return found


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


def offloads(row: Row, whole: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Layers of each stage, which holds `whole`, whose states live on the host."""
    if row.offload_optimizer == "none":
        yield tuple(0 for _ in whole)
    elif backend(row.backend).offload_freedom == "all":
        yield tuple(whole)
    else:
        yield from product(*(range(count + 1) for count in whole))


def layout_of(strategy: Strategy, stack: Stack) -> Layout | None:
    """The layout of a strategy; None where its counts are not whole numbers of each chunk."""
    v, p, start = strategy.virtual_pipeline, strategy.pipeline_parallel, 0
    sizes = [list(stage.chunk_layers or [stage.layers // v] * v) for stage in strategy.stages]
    chunks: list[list[tuple[int, ...]]] = [[] for _ in sizes]
    for chunk in range(v):
        for place in range(p):
            chunks[place].append(stack.kinds[start : start + sizes[place][chunk]])
            start += sizes[place][chunk]
    found = []
    for place, stage in enumerate(strategy.stages):
        numbers = range(max(sizes[place]) + 1)
        full, selective = (
            next((n for n in numbers if sum(min(n, size) for size in sizes[place]) == count), None)
            for count in (stage.recompute_full_layers, stage.recompute_selective_layers)
        )
        if full is None or selective is None:
            return None
        found.append(Held(tuple(chunks[place]), full, selective, stage.offloaded_layers))
    return tuple(found)
