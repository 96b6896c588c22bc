"""The strict shape of the `training_arguments.json` we write: fields of `TrainingArguments`.

The trainer itself takes a batch size that contradicts a number in the DeepSpeed file until training
starts, both kinds of recomputation at once, and any key inside `fsdp_config`.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, lt=1)]
Name = Annotated[str, Field(min_length=1)]


class Strict(BaseModel):
    """No unknown keys, no coercion."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Recomputation(Strict):
    """How layers are recomputed."""

    use_reentrant: Literal[False]


class FsdpConfig(Strict):
    """How FSDP2 shards; the trainer hands it to Accelerate's plugin."""

    version: Literal[2]
    reshard_after_forward: bool
    auto_wrap_policy: Literal["TRANSFORMER_BASED_WRAP"]
    transformer_layer_cls_to_wrap: Annotated[list[Name], Field(min_length=1)]
    activation_checkpointing: bool
    cpu_offload: bool
    cpu_ram_efficient_loading: Literal[True]
    state_dict_type: Literal["SHARDED_STATE_DICT"]


class Accumulation(Strict):
    """Gradients are reduced, and whole ones freed, after every micro-batch."""

    sync_each_batch: Literal[True]


class AcceleratorConfig(Strict):
    """What the trainer tells its `Accelerator`."""

    gradient_accumulation_kwargs: Accumulation


class TrainerFile(Strict):
    """`training_arguments.json`; the learning rate and its companions are placeholders of the recipe."""

    output_dir: Name
    deepspeed: Name | None = None
    fsdp: Literal[True] | None = None
    fsdp_config: FsdpConfig | None = None
    accelerator_config: AcceleratorConfig | None = None
    torch_compile: Literal[True] | None = None
    per_device_train_batch_size: Count
    gradient_accumulation_steps: Count
    max_steps: Count
    max_grad_norm: Annotated[float, Field(ge=0)]
    bf16: bool
    fp16: bool
    gradient_checkpointing: Literal[True] | None = None
    gradient_checkpointing_kwargs: Recomputation | None = None
    use_liger_kernel: bool
    optim: Literal["adamw_torch_fused", "adamw_torch_8bit", "sgd"] | None = None
    optim_args: Literal["momentum=0.9"] | None = None
    learning_rate: Positive
    weight_decay: Annotated[float, Field(ge=0)]
    adam_beta1: Share
    adam_beta2: Share
    adam_epsilon: Positive
    logging_steps: Count

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.bf16 and self.fp16:
            raise ValueError("bf16 and fp16 exclude each other")
        if (self.gradient_checkpointing_kwargs is None) != (self.gradient_checkpointing is None):
            raise ValueError("gradient_checkpointing_kwargs go with gradient_checkpointing")
        return self

    @model_validator(mode="after")
    def _one_engine(self) -> Self:
        if (self.deepspeed is None) == (self.fsdp is None):
            raise ValueError("one of deepspeed and fsdp is needed, and only one")
        if not (self.fsdp is not None) == (self.fsdp_config is not None) == (self.optim is not None):
            raise ValueError("fsdp goes with fsdp_config and optim, which DeepSpeed's file holds itself")
        if self.fsdp is None and (self.accelerator_config or self.torch_compile):
            raise ValueError("accelerator_config and torch_compile are written for fsdp alone")
        if self.fsdp and self.gradient_checkpointing:
            reason = "recomputes beside FSDP: use fsdp_config.activation_checkpointing"
            raise ValueError(f"gradient_checkpointing {reason}")
        if self.optim_args is not None and self.optim != "sgd":
            raise ValueError("optim_args go with sgd")
        return self
