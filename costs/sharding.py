"""Which model states data ranks share out: by ZeRO stage and backend, and a second copy of weights."""

from __future__ import annotations

import numpy as np

from ..models.backend import Backend
from .columns import Bools, Ints
from .layout import Layout
from .once import once
from .portion import Portion


@once
def sharding(layout: Layout) -> tuple[Bools, Bools, Bools]:
    """Which rows shard weights, gradients, optimizer."""
    s = layout.strategies
    zero = s.zero_stage
    weights, gradients, optimizer = sharded_from(
        zero, s.by_backend("weights_sharded_from_stage"), s.by_backend("gradients_sharded_from_stage")
    )
    if not layout.training.sync_each_batch:
        gradients = gradients & (s.gradient_accumulation_steps == 1)
    return weights, gradients, optimizer


def cut_weights(layout: Layout, portion: Portion) -> Bools:
    """Which rows shard the weights of a portion: packed 4-bit ones not under every backend."""
    weights = sharding(layout)[0]
    if portion.name != "quantised":
        return weights
    return weights & (layout.strategies.by_backend("shards_quantised") > 0)


def sharded_from(
    zero: Ints, weights_from: Ints | int, gradients_from: Ints | int
) -> tuple[Bools, Bools, Bools]:
    """Which of weights, gradients, optimizer a ZeRO stage shards; the optimizer from stage 1 on."""
    return zero >= weights_from, zero >= gradients_from, zero >= 1


def whole_below(known: Backend) -> dict[str, int]:
    """By term, the first ZeRO stage of a backend that shards it over data ranks; terms that none shards lack.

    >>> from shardwise.models.backend import backend
    >>> [whole_below(backend(name)) for name in ("fsdp", "megatron")]
    [{'weights': 2, 'gradients': 2, 'optimizer': 2}, {'optimizer': 1}]
    """
    stages = np.array(sorted(known.zero_stages))
    cuts = sharded_from(stages, known.weights_sharded_from_stage, known.gradients_sharded_from_stage)
    named = zip(("weights", "gradients", "optimizer"), cuts, strict=True)
    return {term: int(stages[cut.argmax()]) for term, cut in named if cut.any()}


@once
def has_secondary(layout: Layout) -> Bools:
    """Rows whose weights have a second copy, over the ranks of a small group."""
    found: Bools = layout.strategies.secondary_shard_group_size > 1
    return found
