"""What every client asks first: the limits of the backend, as its data states them."""

from __future__ import annotations

from collections.abc import Iterator

from ..models.backend import Backend, backend
from ..models.context import Exchange
from ..models.strategy import Strategy
from ..models.transformer import Transformer
from .refused import Objection


def backend_objections(strategy: Strategy, name: str) -> Iterator[Objection]:
    """Choices of `strategy` outside what backend `name` can run, each with the reason in its data."""
    if strategy.backend != name:
        reason = f"only plans made for backend {name} can be written"
        yield Objection("backend", strategy.backend, reason)
        return
    facts = backend(name)
    for limit in facts.limits:
        value = getattr(strategy, limit.axis)
        if value not in limit.values:
            yield Objection(limit.axis, value, limit.reason)
    order, known = strategy.pipeline_schedule, facts.pipeline_schedules
    if known and order not in ("none", *known):
        yield Objection("pipeline_schedule", order, facts.because["pipeline_schedule"])
    yield from _data_objections(strategy, facts)


def exchange_objections(strategy: Strategy, model: Transformer) -> Iterator[Objection]:
    """What the layers of `model` cannot do of how the context ranks of `strategy` exchange a sequence."""
    one = Exchange(strategy.context_parallel_kind, strategy.ulysses_group_size)
    reason = backend(strategy.backend).refuses_exchange(model, one, strategy.tensor_parallel)
    if reason:
        yield Objection("context_parallel_kind", strategy.context_parallel_kind, reason)


def _data_objections(strategy: Strategy, facts: Backend) -> Iterator[Objection]:
    kind = strategy.context_parallel_kind
    if kind != "none" and kind not in facts.context_kinds:
        yield Objection("context_parallel_kind", kind, facts.because["context_parallel_kind"])
    second, first = strategy.secondary_shard_group_size, facts.secondary_shards_from_stage
    if second > 1 and strategy.zero_stage < first:
        where = f"from ZeRO stage {first} on" if first <= 3 else "nowhere"
        reason = f"{facts.name} keeps a second copy of the weights {where}"
        yield Objection("secondary_shard_group_size", second, reason)
    for name in facts.refuses_overlap(strategy):
        yield Objection(name, getattr(strategy, name), facts.because[name])
    if strategy.zero_stage not in facts.zero_stages:
        stages = ", ".join(map(str, facts.zero_stages))
        yield Objection("zero_stage", strategy.zero_stage, f"{facts.name} has the ZeRO stages {stages}")
    recipes = facts.recipes.get(strategy.precision)
    if recipes is None or strategy.precision not in facts.precisions:
        yield Objection(
            "precision", strategy.precision, f"{facts.name} does not train in {strategy.precision}"
        )
    elif strategy.gradient_dtype not in recipes:
        words = " or ".join(sorted(recipes))
        reason = f"{facts.name} keeps the gradients of {strategy.precision} training in {words}"
        yield Objection("gradient_dtype", strategy.gradient_dtype, reason)
