"""What every chunk of a stage recomputes, as Megatron-LM counts it: one number for all, the same modules."""

from __future__ import annotations

from ...models.chunks import chunks_of
from ...models.strategy import Strategy
from ...models.training import Module, Training
from ...models.transformer import Transformer


def whole_layers(strategy: Strategy) -> int:
    """Layers recomputed whole in each chunk (in a shorter one, all of it); 0 for none.

    Megatron-LM counts `--recompute-num-layers` for each chunk of an interleaved stage.
    """
    return max(chunk.full for stage in chunks_of(strategy) for chunk in stage)


def all_whole(strategy: Strategy) -> bool:
    """Whether every layer is recomputed whole."""
    return all(stage.recompute_full_layers == stage.layers for stage in strategy.stages)


def recomputed_modules(model: Transformer, training: Training) -> tuple[Module, ...]:
    """What partial recomputation runs again: what the job names, else the feed-forward alone.

    Fused attention keeps what its backward pass needs, which is what a plan prices then.
    """
    if training.recompute_modules:
        return training.recompute_modules
    routed = {bool(kind.feed_forward.experts) for kind in model.kinds}
    found: tuple[tuple[Module, bool], ...] = (("mlp", False), ("moe", True))
    return tuple(name for name, there in found if there in routed)
