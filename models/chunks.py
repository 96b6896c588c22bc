"""Chunks of interleaved stages: how many layers each holds, where they lie, what of them is recomputed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .schedule import schedule
from .strategy import Stage, Strategy, even_chunks


class Chunk(NamedTuple):
    """Layers from `start` on; the first `full` are recomputed whole, the next `selective` in part."""

    start: int
    layers: int
    full: int
    selective: int


def sizes_of(stage: Stage, chunks: int) -> tuple[int, ...]:
    """Layers of each of the `chunks` of a stage: as told, else as even as can be, longer ones first.

    >>> sizes_of(Stage(layers=7), 2), sizes_of(Stage(layers=2, chunk_layers=(2, 0)), 2)
    ((4, 3), (2, 0))
    """
    return stage.chunk_layers or even_chunks(stage.layers, chunks)


def filled(number: int, room: Sequence[int]) -> tuple[int, ...]:
    """`number` laid into chunks that have `room`, the same for each as far as it goes, the first ones first.

    >>> filled(5, (3, 3, 0)), filled(3, (2, 1))
    ((3, 2, 0), (2, 1))
    """
    if len(room) == 1:
        return (number,)
    each = max(n for n in range(max(room) + 1) if sum(min(n, most) for most in room) <= number)
    left, found = number - sum(min(each, most) for most in room), []
    for most in room:
        more = left > 0 and most > each
        found.append(min(each, most) + more)
        left -= more
    return tuple(found)


def links(strategy: Strategy) -> Iterator[tuple[int, int]]:
    """(stage, chunk) along the chain of layers: round after round, every second one back under a V."""
    stages, turns = range(strategy.pipeline_parallel), schedule(strategy.pipeline_schedule).placement == "vee"
    for chunk in range(strategy.virtual_pipeline):
        for stage in reversed(stages) if turns and chunk % 2 else stages:
            yield stage, chunk


def chunks_of(strategy: Strategy) -> list[list[Chunk]]:
    """The chunks of each stage."""
    sizes = [sizes_of(stage, strategy.virtual_pipeline) for stage in strategy.stages]
    full = [
        filled(stage.recompute_full_layers, held) for stage, held in zip(strategy.stages, sizes, strict=True)
    ]
    rest = [[n - again for n, again in zip(*pair, strict=True)] for pair in zip(sizes, full, strict=True)]
    part = [
        filled(stage.recompute_selective_layers, left)
        for stage, left in zip(strategy.stages, rest, strict=True)
    ]
    found: list[list[Chunk]] = [[] for _ in strategy.stages]
    start = 0
    for stage, chunk in links(strategy):
        found[stage].append(Chunk(start, sizes[stage][chunk], full[stage][chunk], part[stage][chunk]))
        start += sizes[stage][chunk]
    return found


def in_order(strategy: Strategy) -> list[int]:
    """Layers of each chunk along the chain.

    >>> from .strategy import Strategy
    >>> two = [Stage(layers=3), Stage(layers=2, chunk_layers=(2, 0))]
    >>> in_order(Strategy(backend="megatron", software_stack="any", pipeline_parallel=2, virtual_pipeline=2,
    ...                   stages=two))
    [2, 2, 1, 0]
    """
    chunks = chunks_of(strategy)
    return [chunks[stage][chunk].layers for stage, chunk in links(strategy)]


def lacking(layers: int, chunks: int, held: int) -> tuple[int, ...]:
    """Sizes of `chunks` that would hold `held` layers each, did they not lack `layers` at their end.

    >>> lacking(2, 4, 3), lacking(3, 4, 2)
    ((3, 3, 3, 1), (2, 2, 1, 0))
    """
    gone = [max(min(layers - held * behind, held), 0) for behind in reversed(range(chunks))]
    return tuple(held - less for less in gone)


def uneven_chunks(strategy: Strategy) -> bool:
    """Whether some stage holds chunks of several lengths."""
    return any(len(set(sizes_of(stage, strategy.virtual_pipeline))) > 1 for stage in strategy.stages)
