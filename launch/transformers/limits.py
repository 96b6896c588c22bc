"""What the arguments of the Hugging Face trainer cannot express, of DeepSpeed and of FSDP plans."""

from __future__ import annotations

from collections.abc import Iterator

from ...models.strategy import Strategy
from ...models.transformer import Transformer
from ...plans.plan import Plan
from .. import deepspeed
from ..accelerate.limits import plugin_objections
from ..refused import Objection
from ..ways import FLOAT32

LOSSES = {"hf-eager", "chunked", "eager"}


def objections(strategy: Strategy, model: Transformer) -> Iterator[Objection]:
    """Those of DeepSpeed's file; for FSDP those of Accelerate, through which the trainer shards."""
    if strategy.backend == "deepspeed":
        yield from deepspeed.objections(strategy, model)
    elif strategy.backend == "fsdp":
        yield from plugin_objections(strategy, model)
        if strategy.loss_kernel not in LOSSES:
            reason = "the trainer has the model's own loss (eager; hf-eager before 2025) or Liger's (chunked)"
            yield Objection("loss_kernel", strategy.loss_kernel, reason)
    else:
        reason = "only plans made for backend deepspeed or fsdp can be written"
        yield Objection("backend", strategy.backend, reason)


def training_objections(plan: Plan) -> Iterator[Objection]:
    """Weights without a float32 copy, under FSDP."""
    if plan.strategy.backend == "fsdp" and not plan.request.training.master_weights:
        yield Objection("training.master_weights", False, FLOAT32)
