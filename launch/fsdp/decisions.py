"""What a plan decides, as the constants of `fsdp_plan.py`."""

from __future__ import annotations

from ...models.strategy import Strategy
from ...models.work import parameters
from ...plans.plan import Plan
from .limits import compiled, replicas_of
from .schema import Axis, FsdpPlan, Rotation

ROTATIONS: dict[str, Rotation] = {"all_gather": "allgather", "ring": "alltoall"}
"""torch's words for how context ranks move keys and values (`set_rotate_method`)."""

DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}


def decisions(plan: Plan) -> FsdpPlan:
    """The constants of `plan`."""
    strategy, training = plan.strategy, plan.request.training
    stage = strategy.stages[0]
    return FsdpPlan.model_validate(
        {
            "world_size": strategy.world,
            "axes": _axes(plan),
            "layers": strategy.layers,
            "parameters": parameters(training, plan.request.model).total,
            "micro_batch_size": strategy.micro_batch_size,
            "gradient_accumulation_steps": strategy.gradient_accumulation_steps,
            "global_batch_size": training.global_batch_size,
            "sequence_length": training.sequence_length,
            "compute_dtype": DTYPES[strategy.precision],
            "reduce_dtype": DTYPES[strategy.gradient_dtype],
            "reshard_after_forward": strategy.reshard_after_forward,
            "recompute_full_layers": stage.recompute_full_layers,
            "recompute_selective_layers": stage.recompute_selective_layers,
            "offload_root": strategy.offload_params == "cpu",
            "offloaded_layers": stage.offloaded_layers,
            "sequence_parallel": strategy.sequence_parallel,
            "compiled_layers": compiled(strategy),
            "compiled_loss": strategy.loss_kernel == "compiled",
            "sync_each_batch": training.sync_each_batch,
            "offload_activations": training.offload_activations or None,
            **_portion(plan),
            **_context(plan.strategy),
        }
    )


def _context(strategy: Strategy) -> dict[str, object]:
    """Ranks that share a sequence and how, where more than one does."""
    if strategy.context_parallel == 1:
        return {}
    rotation = ROTATIONS[strategy.context_parallel_kind]
    return {"context_parallel": strategy.context_parallel, "context_rotation": rotation}


def _portion(plan: Plan) -> dict[str, object]:
    """What is trained and in which type, where that is not every weight in float32."""
    training = plan.request.training
    held = parameters(training, plan.request.model)
    if held.trained == held.total and training.master_weights:
        return {}
    kind = "float32" if training.master_weights else DTYPES[plan.strategy.precision]
    return {"trained_parameters": held.trained, "trained_dtype": kind}


def _axes(plan: Plan) -> dict[Axis, int]:
    strategy = plan.strategy
    sizes: dict[Axis, int] = {
        "dp_replicate": replicas_of(strategy),
        "dp_shard": strategy.shard_group_size,
        "tp": strategy.tensor_parallel,
    }
    return {name: size for name, size in sizes.items() if size > 1 or name == "dp_shard"}
