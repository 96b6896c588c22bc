"""The strict shape of the `ds_config.json` we write.

DeepSpeed itself ignores unknown top-level keys, coerces strings to numbers and accepts settings that
have no effect at their ZeRO stage; this schema refuses all of those.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Count = Annotated[int, Field(ge=1)]
Elements = Annotated[int, Field(ge=1, description="elements, not bytes")]
DType = Literal["fp32", "fp16", "bf16"]


class Strict(BaseModel):
    """No unknown keys, no coercion."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Offload(Strict):
    """States kept in host memory, or on NVMe under a path."""

    device: Literal["cpu", "nvme"]
    pin_memory: bool
    nvme_path: str | None = None

    @model_validator(mode="after")
    def _path(self) -> Self:
        if (self.device == "nvme") != (self.nvme_path is not None):
            raise ValueError("nvme_path goes with device nvme")
        return self


class ZeroOptimization(Strict):
    """The ZeRO block; keys without effect at the stage are refused."""

    stage: Annotated[int, Field(ge=0, le=3)]
    overlap_comm: bool | None = None
    contiguous_gradients: bool | None = None
    reduce_scatter: bool | None = None
    reduce_bucket_size: Elements | None = None
    allgather_partitions: bool | None = None
    allgather_bucket_size: Elements | None = None
    sub_group_size: Elements | None = None
    stage3_prefetch_bucket_size: Annotated[int, Field(ge=0)] | None = None
    stage3_param_persistence_threshold: Annotated[int, Field(ge=0)] | None = None
    stage3_max_live_parameters: Elements | None = None
    stage3_max_reuse_distance: Elements | None = None
    zero_hpz_partition_size: Count | None = None
    offload_optimizer: Offload | None = None
    offload_param: Offload | None = None

    @model_validator(mode="after")
    def _at_its_stage(self) -> Self:
        least = {"overlap_comm": 1, "contiguous_gradients": 1, "reduce_scatter": 1, "reduce_bucket_size": 1}
        least |= {
            "offload_optimizer": 1,
            "sub_group_size": 3,
            "zero_hpz_partition_size": 3,
            "offload_param": 3,
        }
        for name in type(self).model_fields:
            needed = 3 if name.startswith("stage3_") else least.get(name, 0)
            if getattr(self, name) is not None and self.stage < needed:
                raise ValueError(f"{name} has no effect below stage {needed}, the stage is {self.stage}")
        for part in (self.offload_optimizer, self.offload_param):
            if part is not None and part.device == "nvme" and self.stage < 3:
                raise ValueError(f"states go to nvme at stage 3, the stage is {self.stage}")
        for name in ("allgather_partitions", "allgather_bucket_size"):
            if getattr(self, name) is not None and self.stage not in (1, 2):
                raise ValueError(
                    f"{name} has an effect at the stages 1 and 2 only, the stage is {self.stage}"
                )
        return self


class Bf16(Strict):
    """bfloat16 weights, float32 master copy."""

    enabled: Literal[True]


class Fp16(Strict):
    """float16 weights with a dynamic loss scale (`loss_scale` 0)."""

    enabled: Literal[True]
    loss_scale: Annotated[float, Field(ge=0)]
    initial_scale_power: Annotated[int, Field(ge=0)]
    loss_scale_window: Count
    hysteresis: Count
    min_loss_scale: Count


class DataTypes(Strict):
    """Type in which gradients are accumulated."""

    grad_accum_dtype: DType


class AdamWParams(Strict):
    """Settings of AdamW; they are placeholders of the training recipe, not decisions of the plan."""

    lr: Annotated[float, Field(gt=0)]
    betas: Annotated[list[Annotated[float, Field(ge=0, lt=1)]], Field(min_length=2, max_length=2)]
    eps: Annotated[float, Field(gt=0)]
    weight_decay: Annotated[float, Field(ge=0)]


class SgdParams(Strict):
    """Settings of SGD with momentum, or none; placeholders as well."""

    lr: Annotated[float, Field(gt=0)]
    momentum: Annotated[float, Field(ge=0, lt=1)]


class LionParams(Strict):
    """Settings of Lion; placeholders as well."""

    lr: Annotated[float, Field(gt=0)]
    betas: Annotated[list[Annotated[float, Field(ge=0, lt=1)]], Field(min_length=2, max_length=2)]
    weight_decay: Annotated[float, Field(ge=0)]


class AdamW(Strict):
    """DeepSpeed's own AdamW: fused on the card, its CPU version under offload."""

    type: Literal["AdamW"]
    params: AdamWParams


class Sgd(Strict):
    """torch.optim.SGD, looked up by name."""

    type: Literal["SGD"]
    params: SgdParams


class Lion(Strict):
    """DeepSpeed's own Lion: fused on the card, its CPU version under offload."""

    type: Literal["Lion"]
    params: LionParams


class ActivationCheckpointing(Strict):
    """Read by `deepspeed.checkpointing.checkpoint` only; see the folder's README."""

    partition_activations: bool
    cpu_checkpointing: bool
    contiguous_memory_optimization: bool
    number_checkpoints: Count
    synchronize_checkpoint_boundary: bool
    profile: bool


class DsConfig(Strict):
    """`ds_config.json`. All three batch sizes are stated; their quotient is the data-parallel world."""

    train_batch_size: Count
    train_micro_batch_size_per_gpu: Count
    gradient_accumulation_steps: Count
    gradient_clipping: Annotated[float, Field(ge=0)]
    sequence_parallel_size: Annotated[int, Field(ge=2)] | None = None
    zero_optimization: ZeroOptimization
    bf16: Bf16 | None = None
    fp16: Fp16 | None = None
    data_types: DataTypes | None = None
    zero_allow_untested_optimizer: Literal[True] | None = None
    optimizer: Annotated[AdamW | Sgd | Lion, Field(discriminator="type")]
    activation_checkpointing: ActivationCheckpointing | None = None

    @property
    def world(self) -> int:
        """Data-parallel ranks that the batch sizes imply."""
        return self.train_batch_size // (
            self.train_micro_batch_size_per_gpu * self.gradient_accumulation_steps
        )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        micro, steps = self.train_micro_batch_size_per_gpu, self.gradient_accumulation_steps
        if self.train_batch_size % (micro * steps):
            raise ValueError(f"train_batch_size {self.train_batch_size} is no multiple of {micro} * {steps}")
        group = self.zero_optimization.zero_hpz_partition_size
        ranks = self.world * (self.sequence_parallel_size or 1)
        if group is not None and ranks % group:
            raise ValueError(f"zero_hpz_partition_size {group} does not divide the {ranks} ranks")
        if self.bf16 and self.fp16:
            raise ValueError("bf16 and fp16 exclude each other")
        untested = self.optimizer.type == "SGD" and self.zero_optimization.stage > 0
        if untested and not self.zero_allow_untested_optimizer:
            raise ValueError("SGD under ZeRO needs zero_allow_untested_optimizer")
        return self
