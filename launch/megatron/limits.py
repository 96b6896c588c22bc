"""What Megatron-LM's arguments cannot express of a plan, beyond the limits of the backend's data."""

from __future__ import annotations

from collections.abc import Iterator

from ...models.chunks import in_order, sizes_of
from ...models.divisors import divisors
from ...models.stack import stack
from ...models.strategy import Strategy
from ...models.training import Module
from ...models.transformer import Transformer
from ...plans.plan import Plan
from ..objections import backend_objections, exchange_objections
from ..refused import Objection
from .model_limits import model_objections
from .recompute import whole_layers

LOSSES = {"megatron"}


def objections(strategy: Strategy, model: Transformer) -> Iterator[Objection]:
    """Each choice that `megatron_args.sh` cannot carry."""
    yield from backend_objections(strategy, "megatron")
    yield from model_objections(model)
    yield from _states(strategy)
    yield from _tensor(strategy, model)
    yield from _pipeline(strategy, model)
    yield from _experts(strategy, model)
    yield from _recompute(strategy)
    if strategy.precision == "fp32":
        reason = "fused attention of Transformer Engine, which the plan prices, has no float32"
        yield Objection("precision", "fp32", reason)
    if strategy.loss_kernel not in LOSSES:
        reason = "the written loss is Megatron's own over a cut vocabulary"
        yield Objection("loss_kernel", strategy.loss_kernel, reason)


def training_objections(plan: Plan) -> Iterator[Objection]:
    """Optimizers and sequence lengths that Megatron-LM does not take."""
    strategy, training, model = plan.strategy, plan.request.training, plan.request.model
    optimizer, length = training.optimizer, training.sequence_length
    if optimizer == "sgd" and strategy.zero_stage:
        yield Objection("training.optimizer", optimizer, "the distributed optimizer takes Adam alone")
    if model.positions and length > model.positions:
        reason = f"the model has {model.positions} learned positions"
        yield Objection("training.sequence_length", length, reason)
    if strategy.recompute == "selective":
        yield from _modules(strategy, training.recompute_modules)
    ring = 2 * strategy.context_parallel
    if ring > 2 and length % ring:
        reason = f"no multiple of 2 * context_parallel, {ring}"
        yield Objection("training.sequence_length", length, reason)


def _modules(strategy: Strategy, named: tuple[Module, ...]) -> Iterator[Objection]:
    """Modules to recompute that do not go with this precision."""
    if strategy.precision != "fp8" or stack(strategy.software_stack).scaling != "delayed":
        return
    for name in named:
        if name in ("moe_act", "layernorm"):
            reason = "delayed scaling of 8-bit products goes with neither moe_act nor layernorm"
            yield Objection("training.recompute_modules", name, reason)


def _states(strategy: Strategy) -> Iterator[Objection]:
    ranks = strategy.data_parallel * strategy.context_parallel
    if strategy.zero_stage and strategy.shard_group_size != ranks:
        reason = f"the distributed optimizer shards over all {ranks} data-parallel ranks"
        yield Objection("shard_group_size", strategy.shard_group_size, reason)
    if strategy.reshard_after_forward:
        yield Objection("reshard_after_forward", True, "weights are never sharded at the ZeRO stages 0 and 1")
    if strategy.offload_params != "none":
        reason = "--optimizer-cpu-offload moves states of the optimizer, never weights"
        yield Objection("offload_params", strategy.offload_params, reason)
    offloads = strategy.offload_optimizer != "none"
    if offloads and not strategy.zero_stage:
        yield Objection("offload_optimizer", "cpu", "offload needs the distributed optimizer, ZeRO stage 1")
    layers = sum(stage.offloaded_layers for stage in strategy.stages)
    if layers != (strategy.layers if offloads else 0):
        reason = "--optimizer-offload-fraction knows no layers: states of all are offloaded, or of none"
        yield Objection("offloaded_layers", layers, reason)


def _tensor(strategy: Strategy, model: Transformer) -> Iterator[Objection]:
    size = strategy.tensor_parallel
    if strategy.sequence_parallel and size == 1:
        yield Objection("sequence_parallel", True, "needs tensor_parallel above 1")
    for divisor in divisors(model):
        degree = getattr(strategy, divisor.axis)
        if divisor.required and divisor.number % degree:
            reason = f"does not divide {divisor.of}, {divisor.number}: {divisor.reason}"
            yield Objection(divisor.axis, degree, reason)
    yield from exchange_objections(strategy, model)


def _pipeline(strategy: Strategy, model: Transformer) -> Iterator[Objection]:
    stages, chunks = strategy.pipeline_parallel, strategy.virtual_pipeline
    steps = strategy.gradient_accumulation_steps
    if strategy.layers != model.layers:
        yield Objection("stages", strategy.layers, f"the stages must hold {model.layers} layers")
    yield from _predictors(strategy, model)
    if chunks == 1:
        return
    if stages == 1:
        yield Objection("virtual_pipeline", chunks, "chunks are interleaved over two stages or more")
    if steps % stages:
        reason = f"the interleaved schedule takes micro-batches in groups of {stages}, one a stage"
        yield Objection("gradient_accumulation_steps", steps, reason)


def _predictors(strategy: Strategy, model: Transformer) -> Iterator[Objection]:
    """What predicts further tokens stands in one chunk, the last one of its stage."""
    if model.mtp_layers == 0 or strategy.pipeline_parallel == 1:
        return
    sizes, stages = in_order(strategy), strategy.pipeline_parallel
    ends = [sum(sizes[: link + 1]) for link in range(len(sizes))]
    link = next(link for link, end in enumerate(ends) if end == model.layers)
    if sizes[link] < model.mtp_layers or not len(sizes) - stages <= link:
        reason = (
            f"the {model.mtp_layers} modules that predict further tokens stand in the last chunk of a stage"
        )
        yield Objection("stages", sizes[link], reason)


def _experts(strategy: Strategy, model: Transformer) -> Iterator[Objection]:
    experts = any(kind.feed_forward.experts for kind in model.kinds)
    grid = strategy.expert_parallel * strategy.expert_tensor_parallel
    dense = strategy.tensor_parallel * strategy.context_parallel
    if not experts:
        for axis in ("expert_parallel", "expert_tensor_parallel"):
            if getattr(strategy, axis) > 1:
                yield Objection(axis, getattr(strategy, axis), "the model has no experts")
        return
    if (dense * strategy.data_parallel) % grid:
        reason = f"{grid} ranks of experts do not divide the {dense * strategy.data_parallel} of a stage"
        yield Objection("expert_parallel", strategy.expert_parallel, reason)
    if strategy.tensor_parallel > 1 and not strategy.sequence_parallel:
        yield Objection("sequence_parallel", False, "experts beside tensor parallel need it")
    if strategy.rank_order != "tp-cp-dp-pp" and strategy.pipeline_parallel > 1 and grid != dense:
        reason = "stages lie inside data ranks only where experts and the rest have equally many of these"
        yield Objection("rank_order", strategy.rank_order, reason)


def _recompute(strategy: Strategy) -> Iterator[Objection]:
    number = whole_layers(strategy)
    for at, stage in enumerate(strategy.stages):
        full, partial = stage.recompute_full_layers, stage.recompute_selective_layers
        if full != sum(min(number, size) for size in sizes_of(stage, strategy.virtual_pipeline)):
            reason = (
                f"--recompute-num-layers is one number for each chunk of every stage, and stage {at} differs"
            )
            yield Objection("recompute_full_layers", full, reason)
        if partial not in (0, stage.layers):
            reason = "--recompute-modules applies to all layers or to none"
            yield Objection("recompute_selective_layers", partial, reason)
    if len({stage.recompute_selective_layers > 0 for stage in strategy.stages}) > 1:
        reason = "--recompute-modules applies to all stages or to none"
        yield Objection("recompute_selective_layers", 0, reason)
