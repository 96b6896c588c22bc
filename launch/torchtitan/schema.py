"""The strict shape of the torchtitan options we write, one section a table.

torchtitan itself takes a tensor-parallel degree of -3; this schema refuses it.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Count = Annotated[int, Field(ge=1)]
Recompute = Literal["none", "selective", "full"]


def slices(context: int, tensor: int) -> int:
    """Equal parts that torchtitan cuts a sequence into: two a context rank, each over the tensor ranks."""
    return tensor * (2 * context if context > 1 else 1)


class Strict(BaseModel):
    """No unknown options, no coercion."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class TrainingSection(Strict):
    """What one optimizer step processes, and in which types."""

    local_batch_size: Count
    global_batch_size: Count
    seq_len: Count
    steps: Count
    max_norm: Annotated[float, Field(ge=0)]
    dtype: Literal["float32"]
    mixed_precision_param: Literal["bfloat16", "float32"]
    mixed_precision_reduce: Literal["float32"]
    enable_cpu_offload: bool


class ParallelismSection(Strict):
    """How the model lies on the cards."""

    data_parallel_replicate_degree: Count
    data_parallel_shard_degree: Count
    fsdp_reshard_after_forward: Literal["always", "never"]
    tensor_parallel_degree: Count
    pipeline_parallel_degree: Literal[1]
    context_parallel_degree: Count
    expert_parallel_degree: Literal[1]


class CompileSection(Strict):
    """Which parts are compiled."""

    enable: bool
    components: Annotated[list[Literal["model", "loss"]], Field(min_length=1)]


class TitanOptions(Strict):
    """All options; `activation_checkpoint` is a table with a mode in 0.2, a word at the end in 0.3."""

    training: TrainingSection
    parallelism: ParallelismSection
    compile: CompileSection
    activation_checkpoint: Recompute

    @model_validator(mode="after")
    def _whole_batch(self) -> Self:
        axes = self.parallelism
        ranks = axes.data_parallel_replicate_degree * axes.data_parallel_shard_degree
        step = ranks * self.training.local_batch_size
        if self.training.global_batch_size % step:
            raise ValueError(f"global_batch_size {self.training.global_batch_size} is no multiple of {step}")
        return self

    @model_validator(mode="after")
    def _whole_slices(self) -> Self:
        unit = slices(self.parallelism.context_parallel_degree, self.parallelism.tensor_parallel_degree)
        if self.training.seq_len % unit:
            raise ValueError(f"seq_len {self.training.seq_len} is no multiple of {unit}")
        return self
