"""`megatron_bridge.overrides`: the same plan for a recipe of Megatron-Bridge, one KEY=VALUE a line.

Its run_recipe.py hands them to Hydra, on top of the configuration that a recipe function returns.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ...inputs.data import data
from ...plans.plan import Plan
from ..releases import read_in
from .schema import MegatronArgs

FILE = "megatron_bridge.overrides"

PRECISIONS = {
    (None, None): "bf16_mixed",
    ("hybrid", "delayed"): "bf16_with_fp8_delayed_scaling_mixed",
    ("hybrid", "tensorwise"): "bf16_with_fp8_current_scaling_mixed",
    ("e4m3", "mxfp8"): "bf16_with_mxfp8_mixed",
}
"""Names of mixed_precision.py by format and recipe of 8-bit products; all reduce gradients in float32."""


@cache
def _recipes() -> dict[str, str]:
    found: dict[str, str] = data(__package__, "bridge.json")["recipes"]
    return found


def recipe(plan: Plan) -> str | None:
    """The recipe function whose overrides can say `plan`; None for other models, types and optimizers.

    Float16, gradients in bfloat16 and SGD are no matter of overrides: the names of precision fix them.
    """
    strategy, training = plan.strategy, plan.request.training
    said = strategy.precision != "fp16" and strategy.gradient_dtype == "fp32"
    return _recipes().get(plan.request.model.name) if said and training.optimizer == "adamw" else None


def overrides(args: MegatronArgs) -> dict[str, Any]:
    """Values by the path of a field in the recipe's ConfigContainer."""
    parallel, memory = args.parallel, args.memory
    found: dict[str, Any] = {
        "train.micro_batch_size": args.step.micro_batch_size,
        "train.global_batch_size": args.step.global_batch_size,
        "train.train_iters": args.recipe.train_iters,
        "dataset.seq_length": args.model.seq_length,
        "model.tensor_model_parallel_size": parallel.tensor_model_parallel_size,
        "model.sequence_parallel": parallel.sequence_parallel,
        "model.tp_comm_overlap": parallel.tp_comm_overlap,
        "model.pipeline_model_parallel_size": parallel.pipeline_model_parallel_size,
        "model.virtual_pipeline_model_parallel_size": parallel.num_virtual_stages_per_pipeline_rank,
        "model.pipeline_model_parallel_layout": parallel.pipeline_model_parallel_layout,
        "model.context_parallel_size": parallel.context_parallel_size,
        "model.cp_comm_type": parallel.cp_comm_type,
        "model.recompute_granularity": memory.recompute_granularity,
        "model.recompute_method": memory.recompute_method,
        "model.recompute_num_layers": memory.recompute_num_layers,
        "model.recompute_modules": memory.recompute_modules,
        "ddp.use_distributed_optimizer": parallel.use_distributed_optimizer,
        "ddp.overlap_grad_reduce": parallel.overlap_grad_reduce,
        "ddp.overlap_param_gather": parallel.overlap_param_gather,
        "optimizer.use_precision_aware_optimizer": memory.use_precision_aware_optimizer,
        "optimizer.optimizer_cpu_offload": memory.optimizer_cpu_offload,
        "optimizer.optimizer_offload_fraction": memory.optimizer_offload_fraction or 0.0,
        "dist.use_tp_pp_dp_mapping": parallel.use_tp_pp_dp_mapping,
        "comm_overlap": None,
        "mixed_precision": PRECISIONS[args.precision.fp8_format, args.precision.fp8_recipe],
    }
    if parallel.hierarchical_context_parallel_sizes is not None:
        levels = parallel.hierarchical_context_parallel_sizes
        found["model.hierarchical_context_parallel_sizes"] = levels
    if args.experts.num_experts is not None:
        found["model.expert_model_parallel_size"] = parallel.expert_model_parallel_size
        found["model.expert_tensor_parallel_size"] = parallel.expert_tensor_parallel_size
    return found


def write(plan: Plan, args: MegatronArgs) -> dict[str, str]:
    """The file by name; none where no recipe can say the plan."""
    function = recipe(plan)
    if function is None:
        return {}
    head = [
        f"# Overrides of {function}, written by shardwise; fields as in {read_in('Megatron-Bridge')}.",
        "# torchrun ... scripts/training/run_recipe.py --mode pretrain --dataset mock \\",
        f"#   --recipe {function} \\",
        f"#   $(grep -v '^#' {FILE})",
    ]
    lines = [f"{key}={_word(value)}" for key, value in overrides(args).items()]
    return {FILE: "\n".join([*head, *lines, ""])}


def _word(value: Any) -> str:
    """A value in Hydra's grammar.

    >>> _word(None), _word(True), _word(("mlp", "moe")), _word((2, 4)), _word("Et|t*2L")
    ('null', 'true', '[mlp,moe]', '[2,4]', "'Et|t*2L'")
    """
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, tuple):
        return f"[{','.join(map(str, value))}]"
    if isinstance(value, str) and not value.replace("_", "").isalnum():
        return f"'{value}'"
    return str(value)
