"""Writing `accelerate_fsdp2.yaml`."""

from __future__ import annotations

import json
from collections.abc import Mapping

from ...models.strategy import Strategy
from ...plans.plan import Plan
from ..families import families
from ..fsdp.decisions import ROTATIONS
from ..fsdp.limits import compiled, replicas_of
from ..releases import tested_with
from ..shape import shape
from .schema import AccelerateConfig, DynamoConfig, FsdpConfig, ParallelismConfig

FILE = "accelerate_fsdp2.yaml"
MIXED = {"bf16": "bf16", "fp32": "no"}


def config(plan: Plan) -> AccelerateConfig:
    """The configuration of `plan`, checked by its own schema."""
    strategy, nodes = plan.strategy, shape(plan).nodes
    dynamo = DynamoConfig(dynamo_backend="INDUCTOR", dynamo_use_regional_compilation=True)
    return AccelerateConfig.model_validate(
        {
            "compute_environment": "LOCAL_MACHINE",
            "distributed_type": "FSDP",
            "mixed_precision": MIXED[strategy.precision],
            "num_machines": nodes,
            "num_processes": strategy.world,
            "machine_rank": 0,
            "rdzv_backend": "static",
            "same_network": True,
            "use_cpu": False,
            "main_training_function": "main",
            "fsdp_config": _fsdp(plan),
            "parallelism_config": _mesh(strategy),
            "dynamo_config": dynamo if compiled(strategy) else None,
        }
    )


def _mesh(strategy: Strategy) -> ParallelismConfig | None:
    """Replicas, shards and context ranks, where there are others than shards."""
    replicas, context = replicas_of(strategy), strategy.context_parallel
    if replicas == context == 1:
        return None
    return ParallelismConfig(
        parallelism_config_dp_replicate_size=replicas,
        parallelism_config_dp_shard_size=strategy.shard_group_size // context,
        parallelism_config_cp_size=context if context > 1 else None,
        parallelism_config_cp_comm_strategy=ROTATIONS.get(strategy.context_parallel_kind),
    )


def write(plan: Plan) -> dict[str, str]:
    """`accelerate_fsdp2.yaml` by name."""
    head = f"# Tested with {tested_with('accelerate', 'torch')}; keys are options of `accelerate launch`.\n"
    return {FILE: head + _yaml(config(plan).model_dump(exclude_none=True))}


def _fsdp(plan: Plan) -> FsdpConfig:
    strategy = plan.strategy
    return FsdpConfig(
        fsdp_version=2,
        fsdp_reshard_after_forward=strategy.reshard_after_forward,
        fsdp_auto_wrap_policy="TRANSFORMER_BASED_WRAP",
        fsdp_transformer_layer_cls_to_wrap=families()[plan.request.model.family].layer_class,
        fsdp_activation_checkpointing=strategy.recompute == "full",
        fsdp_offload_params=strategy.offload_params == "cpu",
        fsdp_cpu_ram_efficient_loading=True,
        fsdp_state_dict_type="SHARDED_STATE_DICT",
    )


def _yaml(values: Mapping[str, object], indent: str = "") -> str:
    """Nested mappings of words, numbers and switches as YAML; words are quoted, so none is misread."""
    lines = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            lines.append(f"{indent}{key}:\n{_yaml(value, indent + '  ')}")
        else:
            lines.append(f"{indent}{key}: {json.dumps(value)}\n")
    return "".join(lines)
