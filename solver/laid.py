"""A strategy laid on cards that are no whole cluster of one kind: the place where its step is shortest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

from ..hardware import Cluster
from ..hardware.mixed import pool_names
from ..inputs import InputError
from ..models import Strategy
from ..plans import Request
from ..plans.report import price_each
from .pools import part_of, subsets
from .shape import shapes
from .worlds import worlds

Placed = tuple[Request, Strategy]


def laid_out(request: Request, strategy: Strategy) -> Placed:
    """The request on the cards that `strategy` runs on, and the strategy with the pools of its stages.

    Of free cards those blocks, of pools that part and that order of machines where its step is shortest.
    Raises `InputError` where no free cards or no pools make up its stages.
    """
    if request.cluster.free:
        return _fastest(_on_blocks(request, strategy))
    if request.cluster.others and any(stage.device is None for stage in strategy.stages):
        return _fastest(_on_pools(request, strategy))
    return request, strategy


def _fastest(places: Sequence[Placed]) -> Placed:
    """The place with the least step, the first of equals."""
    if len(places) == 1:
        return places[0]
    steps = [ledger.step_ns for ledger in price_each(places)]
    return places[steps.index(min(steps))]


def _on_blocks(request: Request, strategy: Strategy) -> list[Placed]:
    """Every blocks of free cards of the size that the strategy takes."""
    cards, stages = strategy.world, strategy.pipeline_parallel
    sizes = [size for count, size in worlds(request.cluster) if count == cards]
    clusters = [shape.virtual for size in sizes for shape, _ in shapes(request, cards, size, (stages,))]
    if not clusters:
        free = [list(leaf) for leaf in request.cluster.free]
        legal = sorted({count for count, _ in worlds(request.cluster)}, reverse=True)
        reason = f"no equal blocks of the free cards {free} make up {stages} stages of {cards} cards"
        raise _no_place(cards, reason, legal)
    return [(request.model_copy(update={"cluster": one}), strategy) for one in dict.fromkeys(clusters)]


def _on_pools(request: Request, strategy: Strategy) -> list[Placed]:
    """Every choice of pools with as many cards as the strategy takes, machines of each pool in a row."""
    cards, stages = strategy.world, strategy.pipeline_parallel
    parts = [part_of(request.cluster, chosen) for chosen in subsets(request.cluster)]
    found = []
    for part in parts:
        if part.gpus == cards:
            some = request.model_copy(update={"cluster": part})
            found += [(some, one) for one in _in_rows(some, strategy)]
    if not found:
        told = ", ".join(f"{pool.gpus} of {name}" for name, pool in _named(request))
        reason = f"no pools of the cluster ({told}) make up {stages} stages of {cards // stages} cards"
        raise _no_place(cards, reason, sorted({part.gpus for part in parts}, reverse=True))
    return found


def _in_rows(request: Request, strategy: Strategy) -> Iterator[Strategy]:
    """The strategy with a pool for each stage, one pool after another in every order."""
    named, width = _named(request), strategy.world // strategy.pipeline_parallel
    if len(named) == 1:
        yield strategy
    elif all(pool.gpus % width == 0 for _, pool in named):
        for order in permutations(named):
            devices = [name for name, pool in order for _ in range(pool.gpus // width)]
            stages = zip(strategy.stages, devices, strict=True)
            placed = tuple(stage.model_copy(update={"device": device}) for stage, device in stages)
            yield strategy.model_copy(update={"stages": placed})


def _named(request: Request) -> list[tuple[str, Cluster]]:
    return list(zip(pool_names(request.cluster), request.cluster.pools, strict=True))


def _no_place(cards: int, reason: str, legal: Sequence[int]) -> InputError:
    told = [str(count) for count in legal[:5]]
    return InputError("strategy", cards, "strategy", reason, legal=told, code="contradiction")
