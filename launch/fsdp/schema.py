"""The decisions that the written `fsdp_plan.py` carries as constants."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Count = Annotated[int, Field(ge=1)]
Part = Annotated[int, Field(ge=0)]
Axis = Literal["dp_replicate", "dp_shard", "tp"]
Rotation = Literal["allgather", "alltoall"]


class FsdpPlan(BaseModel):
    """Constants of the module, in the order written; names are their lower-case."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    world_size: Count
    axes: dict[Axis, Count]
    """Mesh axes, the last one over neighbouring ranks."""
    layers: Count
    parameters: Count
    micro_batch_size: Count
    gradient_accumulation_steps: Count
    global_batch_size: Count
    sequence_length: Count
    compute_dtype: Literal["bfloat16", "float16", "float32"]
    reduce_dtype: Literal["bfloat16", "float32"]
    reshard_after_forward: bool
    recompute_full_layers: Part
    recompute_selective_layers: Part
    offload_root: bool
    offloaded_layers: Part
    sequence_parallel: bool
    compiled_layers: bool
    compiled_loss: bool
    offload_activations: bool | None = None
    """Inputs of fully recomputed layers wait in host memory."""
    trained_parameters: Part | None = None
    """Parameters that are trained, where not all are or not as float32 weights."""
    trained_dtype: Literal["bfloat16", "float16", "float32"] | None = None
    context_parallel: Annotated[int, Field(ge=2)] | None = None
    """Ranks of `dp_shard`, next to each other but for those of a tensor, that share a sequence."""
    context_rotation: Rotation | None = None
    """How they move keys and values."""
    sync_each_batch: bool = Field(default=True, exclude=True)
    """Gradients are reduced after each micro-batch; no constant: the step is written without it."""

    @property
    def loads(self) -> bool:
        """Whether the model can be made without memory: what is trained are all its weights, in float32."""
        return self.trained_parameters is None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        size = 1
        for ranks in self.axes.values():
            size *= ranks
        if "dp_shard" not in self.axes or size != self.world_size:
            raise ValueError(f"axes {self.axes} do not make a world of {self.world_size} with dp_shard")
        if self.recompute_full_layers + self.recompute_selective_layers > self.layers:
            raise ValueError("more layers recomputed than there are")
        if self.offloaded_layers > (self.layers if self.offload_root else 0):
            raise ValueError("more layers offloaded than there are, or layers without the root")
        context = self.context_parallel or 1
        if (self.context_parallel is None) != (self.context_rotation is None):
            raise ValueError("context_parallel and context_rotation go together")
        if self.axes["dp_shard"] % context:
            raise ValueError(f"context_parallel {context} does not divide dp_shard {self.axes['dp_shard']}")
        if context > 1 and self.sequence_length % (2 * context):
            raise ValueError(f"sequence_length is no multiple of 2 * context_parallel, {2 * context}")
        ranks = self.world_size // (self.axes.get("tp", 1) * context)
        if ranks * self.micro_batch_size * self.gradient_accumulation_steps != self.global_batch_size:
            raise ValueError(f"{ranks} ranks do not process {self.global_batch_size} sequences a step")
        if (self.trained_parameters is None) != (self.trained_dtype is None):
            raise ValueError("trained_parameters and trained_dtype go together")
        if (self.trained_parameters or 0) > self.parameters:
            raise ValueError("more parameters trained than there are")
        if self.sequence_parallel and "tp" not in self.axes:
            raise ValueError("sequence_parallel needs an axis tp")
        return self
