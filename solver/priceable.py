"""Whether a strategy can be priced for a request at all: by its cards, its experts and its batch."""

from __future__ import annotations

from ..inputs import InputError
from ..models import Strategy
from ..plans import Request
from .shape_rules import uneven_experts


def refuse_unpriceable(request: Request, strategy: Strategy) -> None:
    """Raises `InputError` where `strategy` has other cards or another batch, or cuts experts unevenly."""
    _refuse_other_cards(request, strategy)
    uneven = uneven_experts(request.model, strategy)
    if uneven is not None:
        field, reason, legal = uneven
        degree = getattr(strategy, field)
        raise InputError(f"strategy.{field}", degree, "strategy", reason, legal=legal, code="contradiction")
    refuse_other_batch(request, strategy)


def _refuse_other_cards(request: Request, strategy: Strategy) -> None:
    cards = request.cluster.gpus
    if strategy.world == cards:
        return
    axes = ("data_parallel", "tensor_parallel", "pipeline_parallel", "context_parallel")
    degrees = " x ".join(f"{axis} {getattr(strategy, axis)}" for axis in axes if getattr(strategy, axis) > 1)
    told = f" ({degrees})" if degrees else ""
    reason = f"its degrees multiply to {strategy.world} cards{told}, the cluster has {cards}"
    raise InputError("strategy", strategy.world, "strategy", reason, code="contradiction")


def refuse_other_batch(request: Request, strategy: Strategy) -> None:
    """Raises `InputError` where a step of `strategy` is not the global batch of the request."""
    batch = strategy.data_parallel * strategy.micro_batch_size * strategy.gradient_accumulation_steps
    if batch == request.training.global_batch_size:
        return
    field, steps = "strategy.gradient_accumulation_steps", strategy.gradient_accumulation_steps
    reason = (
        f"data_parallel x micro_batch_size x gradient_accumulation_steps is {batch}, "
        f"the global batch is {request.training.global_batch_size}"
    )
    raise InputError(field, steps, "strategy", reason, code="contradiction")
