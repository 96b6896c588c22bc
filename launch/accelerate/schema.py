"""The strict shape of the `accelerate_fsdp2.yaml` we write.

Accelerate refuses unknown top-level keys but ignores unknown keys inside `fsdp_config`; this schema
refuses both.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Count = Annotated[int, Field(ge=1)]


class Strict(BaseModel):
    """No unknown keys, no coercion."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class FsdpConfig(Strict):
    """The FSDP2 section; keys are launch options of the same name."""

    fsdp_version: Literal[2]
    fsdp_reshard_after_forward: bool
    fsdp_auto_wrap_policy: Literal["TRANSFORMER_BASED_WRAP"]
    fsdp_transformer_layer_cls_to_wrap: Annotated[str, Field(min_length=1)]
    fsdp_activation_checkpointing: bool
    fsdp_offload_params: bool
    fsdp_cpu_ram_efficient_loading: bool
    fsdp_state_dict_type: Literal["SHARDED_STATE_DICT"]


class ParallelismConfig(Strict):
    """Replicas of shard groups (HSDP), and ranks of a group that share a sequence."""

    parallelism_config_dp_replicate_size: Count
    parallelism_config_dp_shard_size: Count
    parallelism_config_cp_size: Annotated[int, Field(ge=2)] | None = None
    parallelism_config_cp_comm_strategy: Literal["allgather", "alltoall"] | None = None

    @model_validator(mode="after")
    def _several(self) -> Self:
        replicas, context = self.parallelism_config_dp_replicate_size, self.parallelism_config_cp_size
        if replicas == 1 and context is None:
            raise ValueError("a mesh of shards alone needs no table")
        if (context is None) != (self.parallelism_config_cp_comm_strategy is None):
            raise ValueError("parallelism_config_cp_comm_strategy goes with parallelism_config_cp_size")
        if replicas > 1 and context and self.parallelism_config_dp_shard_size == 1:
            raise ValueError("Accelerate refuses replicas beside context ranks without shards")
        return self

    @property
    def ranks(self) -> int:
        """Processes of the mesh."""
        shards = self.parallelism_config_dp_replicate_size * self.parallelism_config_dp_shard_size
        return shards * (self.parallelism_config_cp_size or 1)


class DynamoConfig(Strict):
    """Compilation of each layer by itself."""

    dynamo_backend: Literal["INDUCTOR"]
    dynamo_use_regional_compilation: Literal[True]


class AccelerateConfig(Strict):
    """`accelerate_fsdp2.yaml`."""

    compute_environment: Literal["LOCAL_MACHINE"]
    distributed_type: Literal["FSDP"]
    mixed_precision: Literal["bf16", "no"]
    num_machines: Count
    num_processes: Count
    machine_rank: Literal[0]
    rdzv_backend: Literal["static"]
    same_network: bool
    use_cpu: Literal[False]
    main_training_function: Literal["main"]
    fsdp_config: FsdpConfig
    parallelism_config: ParallelismConfig | None = None
    dynamo_config: DynamoConfig | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.num_processes % self.num_machines:
            raise ValueError(
                f"{self.num_processes} processes do not fill {self.num_machines} machines evenly"
            )
        mesh = self.parallelism_config
        if mesh is not None and mesh.ranks != self.num_processes:
            raise ValueError(f"the mesh has {mesh.ranks} ranks, num_processes is {self.num_processes}")
        return self
