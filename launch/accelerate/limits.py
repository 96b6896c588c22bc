"""What Accelerate's FSDP2 plugin cannot express of an FSDP plan, whichever file sets it."""

from __future__ import annotations

from collections.abc import Iterator

from ...models.strategy import Strategy
from ...models.transformer import Transformer
from ..families import families, family
from ..fsdp.limits import layout_objections, replicas_of
from ..refused import Objection


def objections(strategy: Strategy, model: Transformer) -> Iterator[Objection]:
    """Each choice that the YAML cannot carry: those of the plugin, and other losses than the script's."""
    yield from plugin_objections(strategy, model)
    if strategy.loss_kernel != "eager":
        reason = "the YAML decides no loss; the training script's is priced as eager"
        yield Objection("loss_kernel", strategy.loss_kernel, reason)


def plugin_objections(strategy: Strategy, model: Transformer) -> Iterator[Objection]:
    """Each choice that the plugin cannot carry: those of the FSDP module's layout, and its own."""
    yield from layout_objections(strategy, model)
    if strategy.tensor_parallel > 1:
        reason = "Accelerate takes no plan to cut the layers of a model; the module of --to fsdp does"
        yield Objection("tensor_parallel", strategy.tensor_parallel, reason)
    if replicas_of(strategy) > 1 and strategy.shard_group_size == strategy.context_parallel > 1:
        reason = "Accelerate refuses replicas of groups of context ranks alone: dp_shard_size must be above 1"
        yield Objection("shard_group_size", strategy.shard_group_size, reason)
    if family(model.family) is None:
        known = ", ".join(sorted(families()))
        reason = f"the class of a layer is needed and known for {known}"
        yield Objection("model", model.family, reason)
    if strategy.gradient_dtype != strategy.precision:
        reason = f"Accelerate reduces gradients in the compute type, {strategy.precision}"
        yield Objection("gradient_dtype", strategy.gradient_dtype, reason)
    yield from _layers(strategy)


def _layers(strategy: Strategy) -> Iterator[Objection]:
    stage = strategy.stages[0]
    if stage.recompute_selective_layers:
        reason = "activation_checkpointing of Accelerate's FSDP has no selective kind"
        yield Objection("recompute_selective_layers", stage.recompute_selective_layers, reason)
    if stage.recompute_full_layers not in (0, stage.layers):
        reason = "activation_checkpointing of Accelerate's FSDP is on for all layers or for none"
        yield Objection("recompute_full_layers", stage.recompute_full_layers, reason)
    if stage.offloaded_layers != (stage.layers if strategy.offload_params != "none" else 0):
        reason = "Accelerate offloads all layers or none"
        yield Objection("offloaded_layers", stage.offloaded_layers, reason)
