"""What torchtitan's arguments cannot express of an FSDP plan."""

from __future__ import annotations

from collections.abc import Iterator

from ...models.divisors import divisors
from ...models.strategy import Strategy
from ...models.training import Optimizer
from ...models.transformer import Transformer
from ...plans.plan import Plan
from ..fsdp.limits import LOSSES, compiled, offload_objections, sharding_objections
from ..objections import backend_objections, exchange_objections
from ..refused import Objection
from .models import known, models
from .schema import slices

OPTIMIZERS: tuple[Optimizer, ...] = ("adamw",)
"""What the configurations of torchtitan step."""


def objections(strategy: Strategy, model: Transformer) -> Iterator[Objection]:
    """Each choice that the arguments cannot carry."""
    yield from backend_objections(strategy, "fsdp")
    yield from exchange_objections(strategy, model)
    if known(model) is None:
        names = ", ".join(each.config for each in models())
        yield Objection(
            "model",
            model.name,
            f"torchtitan has configurations {names} alone, with their widths and positions",
        )
    yield from sharding_objections(strategy)
    yield from offload_objections(strategy)
    yield from _layers(strategy)
    if strategy.precision == "fp16":
        yield Objection("precision", "fp16", "torchtitan scales no loss, as float16 needs")
    if strategy.gradient_dtype != "fp32":
        reason = "--training.mixed_precision_reduce takes float32 alone"
        yield Objection("gradient_dtype", strategy.gradient_dtype, reason)
    if strategy.sequence_parallel != (strategy.tensor_parallel > 1):
        reason = "torchtitan pairs sequence parallel with tensor parallel"
        yield Objection("sequence_parallel", strategy.sequence_parallel, reason)
    if strategy.loss_kernel not in LOSSES:
        yield Objection("loss_kernel", strategy.loss_kernel, "the loss of torchtitan is eager or compiled")
    if strategy.loss_kernel == "compiled" and not compiled(strategy):
        reason = "--compile.enable compiles the layers too"
        yield Objection("loss_kernel", "compiled", reason)
    if strategy.context_parallel_kind == "ring":
        reason = "torchtitan 0.3 gathers keys and values; its context_parallel_rotate_method is gone"
        yield Objection("context_parallel_kind", "ring", reason)
    for divisor in divisors(model):
        if divisor.axis == "tensor_parallel" and divisor.number % strategy.tensor_parallel:
            reason = f"does not divide {divisor.of}, {divisor.number}: {divisor.reason}"
            yield Objection("tensor_parallel", strategy.tensor_parallel, reason)


def training_objections(plan: Plan) -> Iterator[Objection]:
    """Sequences that do not fall into equal slices."""
    strategy, length = plan.strategy, plan.request.training.sequence_length
    unit = slices(strategy.context_parallel, strategy.tensor_parallel)
    if length % unit:
        reason = f"torchtitan cuts a sequence into {unit} equal slices"
        yield Objection("training.sequence_length", length, reason)


def _layers(strategy: Strategy) -> Iterator[Objection]:
    stage = strategy.stages[0]
    for name in ("recompute_full_layers", "recompute_selective_layers"):
        if getattr(stage, name) not in (0, stage.layers):
            reason = "activation-checkpoint is one kind for all layers"
            yield Objection(name, getattr(stage, name), reason)
    if stage.offloaded_layers != (stage.layers if strategy.offload_params != "none" else 0):
        reason = "--training.enable_cpu_offload is on for all layers or for none"
        yield Objection("offloaded_layers", stage.offloaded_layers, reason)
