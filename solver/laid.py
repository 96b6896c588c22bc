"""A strategy laid on free cards: the blocks of its size on which its step is shortest."""

from __future__ import annotations

from ..inputs import InputError
from ..models import Strategy
from ..plans import Request
from ..plans.report import price
from .shape import shapes
from .worlds import worlds


def laid_out(request: Request, strategy: Strategy) -> Request:
    """The request on those free cards of its cluster that `strategy` runs fastest on, as a plan has it.

    Raises `InputError` where no blocks of free cards make up its stages.
    """
    cards, stages = strategy.world, strategy.pipeline_parallel
    sizes = [size for count, size in worlds(request.cluster) if count == cards]
    clusters = [shape.virtual for size in sizes for shape, _ in shapes(request, cards, size, (stages,))]
    on = [request.model_copy(update={"cluster": cluster}) for cluster in dict.fromkeys(clusters)]
    if not on:
        free = [list(leaf) for leaf in request.cluster.free]
        legal = [
            str(count) for count in sorted({count for count, _ in worlds(request.cluster)}, reverse=True)
        ]
        reason = f"no equal blocks of the free cards {free} make up {stages} stages of {cards} cards"
        raise InputError("strategy", cards, "strategy", reason, legal=legal[:5], code="contradiction")
    return min(on, key=lambda one: price(one, [strategy])[0].step_ns)
