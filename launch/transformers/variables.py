"""Environment variables of an FSDP run under the trainer: what Accelerate reads and no argument holds."""

from __future__ import annotations

from ...models.strategy import Strategy
from ..fsdp.decisions import ROTATIONS
from ..fsdp.limits import compiled, replicas_of
from ..mesh import MESH, ULYSSES

REPLICAS = "PARALLELISM_CONFIG_DP_REPLICATE_SIZE"
SHARDS = "PARALLELISM_CONFIG_DP_SHARD_SIZE"
CONTEXT = "PARALLELISM_CONFIG_CP_SIZE"
ROTATION = "PARALLELISM_CONFIG_CP_COMM_STRATEGY"
ATTENTION = "PARALLELISM_CONFIG_SP_ATTN_IMPLEMENTATION"


def variables(strategy: Strategy) -> dict[str, str]:
    """Values by name; for a DeepSpeed plan those of a shared sequence alone.

    `ACCELERATE_USE_FSDP` must be there before the model is loaded, or every rank loads all of it
    (transformers 5.24.0, distributed/fsdp.py). With it `FSDP_OFFLOAD_PARAMS` makes Accelerate 1.15.0 open
    gloo beside NCCL, without which norms of offloaded gradients cannot be summed (state.py). The mesh of
    replicas is a field of `TrainingArguments` that no JSON can hold; compiling layer by layer is none.
    """
    if strategy.backend != "fsdp":
        return _ulysses(strategy)
    found = {"ACCELERATE_USE_FSDP": "true"}
    if strategy.offload_params != "none":
        found["FSDP_OFFLOAD_PARAMS"] = "true"
    replicas, context = replicas_of(strategy), strategy.context_parallel
    if replicas > 1 or context > 1:
        shards = strategy.shard_group_size // context
        found |= {MESH: "true", REPLICAS: str(replicas), SHARDS: str(shards)}
    if context > 1:
        found |= {CONTEXT: str(context), ROTATION: ROTATIONS[strategy.context_parallel_kind]}
    if compiled(strategy):
        found["ACCELERATE_DYNAMO_USE_REGIONAL_COMPILATION"] = "true"
    return found


def _ulysses(strategy: Strategy) -> dict[str, str]:
    """A sequence over DeepSpeed's ranks.

    Accelerate 1.15.0 makes the batch of DeepSpeed's file from the data ranks (accelerator.py), and DeepSpeed
    0.19.8 refuses an attention that is not named as the model's own (ulysses_sp.py).
    """
    if strategy.context_parallel == 1:
        return {}
    ranks = {SHARDS: str(strategy.data_parallel), ULYSSES: str(strategy.context_parallel)}
    return {MESH: "true", **ranks, ATTENTION: "sdpa"}
