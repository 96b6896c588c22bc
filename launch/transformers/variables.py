"""Environment variables of an FSDP run under the trainer: what Accelerate reads and no argument holds."""

from __future__ import annotations

from ...models.strategy import Strategy
from ..fsdp.limits import compiled

MESH = "ACCELERATE_USE_PARALLELISM_CONFIG"
REPLICAS = "PARALLELISM_CONFIG_DP_REPLICATE_SIZE"
SHARDS = "PARALLELISM_CONFIG_DP_SHARD_SIZE"


def variables(strategy: Strategy) -> dict[str, str]:
    """Values by name; none for a DeepSpeed plan.

    `ACCELERATE_USE_FSDP` must be there before the model is loaded, or every rank loads all of it
    (transformers 5.24.0, distributed/fsdp.py). With it `FSDP_OFFLOAD_PARAMS` makes Accelerate 1.15.0 open
    gloo beside NCCL, without which norms of offloaded gradients cannot be summed (state.py). The mesh of
    replicas is a field of `TrainingArguments` that no JSON can hold; compiling layer by layer is none.
    """
    if strategy.backend != "fsdp":
        return {}
    found = {"ACCELERATE_USE_FSDP": "true"}
    if strategy.offload_params != "none":
        found["FSDP_OFFLOAD_PARAMS"] = "true"
    replicas = strategy.data_parallel // strategy.shard_group_size
    if replicas > 1:
        found |= {MESH: "true", REPLICAS: str(replicas), SHARDS: str(strategy.shard_group_size)}
    if compiled(strategy):
        found["ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION"] = "true"
    return found
