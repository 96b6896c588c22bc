"""What every chunk of a stage recomputes, as Megatron-LM counts it: one number for all of them."""

from __future__ import annotations

from ...models.strategy import Strategy


def whole_layers(strategy: Strategy) -> int:
    """Layers recomputed whole in each chunk (in a shorter one, all of it); 0 for none.

    Megatron-LM counts `--recompute-num-layers` for each chunk of an interleaved stage.
    """
    most = max(stage.recompute_full_layers for stage in strategy.stages)
    return -(-most // strategy.virtual_pipeline)


def all_whole(strategy: Strategy) -> bool:
    """Whether every layer is recomputed whole."""
    return all(stage.recompute_full_layers == stage.layers for stage in strategy.stages)
