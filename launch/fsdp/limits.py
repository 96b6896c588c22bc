"""What the written FSDP module cannot express, beyond the limits of the backend's data."""

from __future__ import annotations

from collections.abc import Iterator

from ...models import Attention
from ...models.divisors import divisors
from ...models.stack import stack
from ...models.strategy import Strategy
from ...models.transformer import Block, Transformer
from ..families import families, family
from ..objections import backend_objections, exchange_objections
from ..refused import Objection

LOSSES = {"eager", "compiled"}


def objections(strategy: Strategy, model: Transformer) -> Iterator[Objection]:
    """Each choice that `fsdp_plan.py` cannot carry."""
    yield from layout_objections(strategy, model)
    if strategy.loss_kernel not in LOSSES:
        reason = f"the written loss is one of {', '.join(sorted(LOSSES))}"
        yield Objection("loss_kernel", strategy.loss_kernel, reason)


def layout_objections(strategy: Strategy, model: Transformer) -> Iterator[Objection]:
    """Those beside the loss, which other files of FSDP leave to somebody else."""
    yield from backend_objections(strategy, "fsdp")
    yield from exchange_objections(strategy, model)
    yield from sharding_objections(strategy)
    yield from offload_objections(strategy)
    if strategy.tensor_parallel > 1:
        yield from _tensor(strategy, model)
    elif strategy.sequence_parallel:
        yield Objection("sequence_parallel", True, "needs tensor_parallel above 1")


def replicas_of(strategy: Strategy) -> int:
    """Copies of the sharded states, each over the data and context ranks of a shard group."""
    return strategy.data_parallel * strategy.context_parallel // strategy.shard_group_size


def compiled(strategy: Strategy) -> bool:
    """Whether the priced software stack compiles the layers (its activations are the fused ones)."""
    return stack(strategy.software_stack).activation_set == "fused"


def sharding_objections(strategy: Strategy) -> Iterator[Objection]:
    """Shard groups that make no mesh, and stages that say otherwise than their resharding."""
    context, group = strategy.context_parallel, strategy.shard_group_size
    ranks = strategy.data_parallel * context
    if ranks % group or group % context:
        reason = f"a mesh needs a divisor of data_parallel x context_parallel, {ranks}"
        whole = f"{reason}, and whole groups of {context} context ranks" if context > 1 else reason
        yield Objection("shard_group_size", group, whole)
    if strategy.reshard_after_forward != (strategy.zero_stage == 3):
        reason = "gathered weights are freed after the forward pass at zero_stage 3, kept at 2"
        yield Objection("reshard_after_forward", strategy.reshard_after_forward, reason)


def offload_objections(strategy: Strategy) -> Iterator[Objection]:
    """States that FSDP cannot move apart."""
    if strategy.offload_params != strategy.offload_optimizer:
        reason = "FSDP offloads weights, gradients and optimizer states together"
        yield Objection("offload_optimizer", strategy.offload_optimizer, reason)
    layers = sum(stage.offloaded_layers for stage in strategy.stages)
    if layers and strategy.offload_params == "none":
        yield Objection("offloaded_layers", layers, f"contradicts offload_params {strategy.offload_params}")


def _tensor(strategy: Strategy, model: Transformer) -> Iterator[Objection]:
    size = strategy.tensor_parallel
    known = family(model.family)
    if known is None or not known.cuts_as_llama:
        able = ", ".join(name for name, entry in sorted(families().items()) if entry.cuts_as_llama)
        reason = f"a tensor-parallel plan is written for {able}, not for family {model.family}"
        yield Objection("tensor_parallel", size, reason)
    if not all(_plain(kind) for kind in model.kinds):
        yield Objection(
            "tensor_parallel", size, "norms of queries and keys, and experts, have no written cut"
        )
    for divisor in divisors(model):
        if divisor.axis == "tensor_parallel" and divisor.number % size:
            reason = f"does not divide {divisor.of}, {divisor.number}: {divisor.reason}"
            yield Objection("tensor_parallel", size, reason)
    if compiled(strategy) or strategy.loss_kernel == "compiled":
        reason = (
            "torch 2.13.0 lost gradients of compiled tensor-parallel layers in our tests; take eager ones"
        )
        yield Objection("software_stack", strategy.software_stack, reason)


def _plain(kind: Block) -> bool:
    """Ordinary attention without norms of queries and keys, ordinary feed-forward."""
    mixer = kind.attention
    return isinstance(mixer, Attention) and mixer.qk_norm == "none" and not kind.feed_forward.experts
