"""What a model's shape refuses of one strategy: degrees that do not divide it, and grids of its experts."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from ..models import Strategy, Transformer, divisors
from ..models.backend import Backend
from ..models.context import Exchange
from ..models.divisors import ALIGNED, EIGHT_BIT, RING, divisors_of, misaligned
from ..plans import Breach, Request


def shape_breaches(request: Request, known: Backend, strategy: Strategy) -> Iterator[Breach]:
    """Every rule of the model's shape that the strategy breaks."""
    model, sequence = request.model, request.training.sequence_length
    for divisor in divisors(model):
        degree = getattr(strategy, divisor.axis)
        if divisor.required and divisor.number % degree:
            reason = (
                f"{divisor.axis} {degree} does not divide {divisor.of} {divisor.number}: {divisor.reason}"
            )
            yield Breach(rule=divisor.axis, reason=reason, origin=model.name)
    if strategy.context_parallel > 1 and sequence % (2 * strategy.context_parallel):
        yield Breach(rule="context_parallel", reason=RING, origin="training.sequence_length")
    exchange = Exchange(strategy.context_parallel_kind, strategy.ulysses_group_size)
    reason = known.refuses_exchange(model, exchange, strategy.tensor_parallel)
    if reason:
        yield Breach(rule="context_parallel_kind", reason=reason, origin=model.name)
    yield from _experts(model, strategy)
    told = any(stage.chunk_layers is not None for stage in strategy.stages)
    if model.layers < strategy.pipeline_parallel * strategy.virtual_pipeline and not told:
        reason = f"{model.layers} layers cannot fill every chunk of every stage"
        yield Breach(rule="pipeline_parallel", reason=reason, origin=model.name)
    yield from _eight_bit(request, strategy)
    gpu = request.cluster.node.gpu
    if gpu.peak_flops_per_s(strategy.precision) is None:
        yield Breach(rule="precision", reason=f"{gpu.name} has no {strategy.precision}", origin=gpu.name)


def _experts(model: Transformer, strategy: Strategy) -> Iterator[Breach]:
    """Degrees of experts: 1 where the model has none, and they fill the ranks of a stage."""
    for field in EXPERT_AXES if not routed(model) else ():
        if getattr(strategy, field) > 1:
            yield Breach(rule=field, reason=f"{field}: {NO_EXPERTS}", origin=model.name)
    uneven = uneven_experts(model, strategy)
    if uneven is not None and routed(model):
        yield Breach(rule=uneven[0], reason=f"{uneven[0]} {uneven[1]}", origin=model.name)


def uneven_experts(model: Transformer, strategy: Strategy) -> tuple[str, str, list[str]] | None:
    """(field, reason, nearest legal values) of a degree of experts that does not fill the ranks of a stage.

    The field that is not 1 is to blame; of two, the one that alone does not, else expert_parallel.
    """
    ranks = strategy.world // strategy.pipeline_parallel
    degrees = {field: getattr(strategy, field) for field in EXPERT_AXES}
    if ranks % prod(degrees.values()) == 0:
        return None
    alone = [name for name, degree in degrees.items() if ranks % degree]
    field = next(name for name in (*alone, *EXPERT_AXES) if degrees[name] > 1)
    if not routed(model):
        return field, NO_EXPERTS, ["1"]
    other = next(name for name in EXPERT_AXES if name != field)
    fitting = [n for n in divisors_of(ranks) if ranks % (n * degrees[other]) == 0]
    near = sorted(fitting, key=lambda n: abs(n - degrees[field]))[:3]
    reason = f"with {other} {degrees[other]} does not fill the {ranks} cards of a stage evenly"
    return field, reason, [str(n) for n in near]


def routed(model: Transformer) -> bool:
    """Whether any layer has experts."""
    return any(kind.feed_forward.experts for kind in model.kinds)


EXPERT_AXES = ("expert_parallel", "expert_tensor_parallel")
NO_EXPERTS = "the model has no experts to lay over cards"


def _eight_bit(request: Request, strategy: Strategy) -> Iterator[Breach]:
    """Sizes of 8-bit products: widths of the model as they are cut, tokens of a micro-batch on a rank."""
    tensor, expert = strategy.tensor_parallel, strategy.expert_tensor_parallel
    for divisor in misaligned(request.model, strategy.precision, tensor, expert):
        reason = f"{strategy.precision}: {divisor.of} {divisor.number} at tensor_parallel {tensor}: {ALIGNED}"
        yield Breach(rule="precision", reason=reason, origin=request.model.name)
    tokens = strategy.micro_batch_size * request.training.sequence_length
    split = strategy.context_parallel * (tensor if strategy.sequence_parallel else 1)
    unit = EIGHT_BIT.get(strategy.precision, 1)
    if tokens % (split * unit):
        reason = f"{strategy.precision}: {tokens // split:,} tokens a rank: {ALIGNED}"
        yield Breach(rule="micro_batch_size", reason=reason, origin="training.sequence_length")
