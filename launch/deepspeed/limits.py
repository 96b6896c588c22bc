"""What `ds_config.json` cannot express, beyond the limits of the backend's data."""

from __future__ import annotations

from collections.abc import Iterator

from ...models.strategy import Strategy
from ...models.transformer import Transformer
from ..objections import backend_objections, exchange_objections
from ..refused import Objection

LOSSES = {"eager", "hf-eager", "chunked"}


def objections(strategy: Strategy, model: Transformer) -> Iterator[Objection]:
    """Each choice that a DeepSpeed configuration cannot carry; `model` limits how its sequences are split."""
    yield from backend_objections(strategy, "deepspeed")
    yield from exchange_objections(strategy, model)
    yield from _zero(strategy)
    yield from _layers(strategy)
    if strategy.loss_kernel not in LOSSES:
        reason = (
            "the Hugging Face model computes its own loss: eager (hf-eager before 2025), or Liger's, chunked"
        )
        yield Objection("loss_kernel", strategy.loss_kernel, reason)


def _zero(strategy: Strategy) -> Iterator[Objection]:
    stage, ranks = strategy.zero_stage, strategy.data_parallel * strategy.context_parallel
    if stage and strategy.shard_group_size != ranks:
        reason = f"DeepSpeed shards over all {ranks} data-parallel ranks, never over a part of them"
        yield Objection("shard_group_size", strategy.shard_group_size, reason)
    second = strategy.secondary_shard_group_size
    if ranks % second:
        yield Objection("secondary_shard_group_size", second, f"hpZ needs a divisor of the {ranks} ranks")
    if second > 1 and strategy.offload_params != "none":
        reason = "the second copy of offloaded weights would lie in host memory with them"
        yield Objection("secondary_shard_group_size", second, reason)
    if stage == 3 and not strategy.reshard_after_forward:
        yield Objection(
            "reshard_after_forward", False, "ZeRO stage 3 frees gathered weights after the forward pass"
        )
    if stage == 0 and strategy.precision == "bf16" and strategy.gradient_dtype == "fp32":
        reason = "without ZeRO DeepSpeed refuses float32 accumulation of bfloat16 gradients"
        yield Objection("gradient_dtype", "fp32", reason)


def _layers(strategy: Strategy) -> Iterator[Objection]:
    stage = strategy.stages[0]
    if stage.recompute_selective_layers:
        reason = "DeepSpeed has no selective recomputation"
        yield Objection("recompute_selective_layers", stage.recompute_selective_layers, reason)
    if stage.recompute_full_layers not in (0, stage.layers):
        reason = "a model's gradient checkpointing is on for all layers or for none"
        yield Objection("recompute_full_layers", stage.recompute_full_layers, reason)
    if stage.offloaded_layers != (stage.layers if strategy.offload_optimizer != "none" else 0):
        reason = "DeepSpeed offloads the states of all layers or of none"
        yield Objection("offloaded_layers", stage.offloaded_layers, reason)
    if strategy.offload_optimizer != "none" and not strategy.zero_stage:
        yield Objection(
            "offload_optimizer", strategy.offload_optimizer, "offload needs ZeRO stage 1 or above"
        )
    if strategy.offload_params != "none" and (
        strategy.zero_stage < 3 or strategy.offload_optimizer == "none"
    ):
        yield Objection(
            "offload_params",
            strategy.offload_params,
            "weights are offloaded at ZeRO stage 3, with the optimizer",
        )
