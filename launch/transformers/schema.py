"""The strict shape of the `training_arguments.json` we write: fields of `TrainingArguments`.

The trainer itself takes a batch size that contradicts a number in the DeepSpeed file until training
starts, and both kinds of recomputation at once.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

Count = Annotated[int, Field(ge=1)]
Positive = Annotated[float, Field(gt=0)]
Share = Annotated[float, Field(ge=0, lt=1)]


class Strict(BaseModel):
    """No unknown keys, no coercion."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)


class Recomputation(Strict):
    """How layers are recomputed."""

    use_reentrant: Literal[False]


class TrainerFile(Strict):
    """`training_arguments.json`; the learning rate and its companions are placeholders of the recipe."""

    output_dir: Annotated[str, Field(min_length=1)]
    deepspeed: Annotated[str, Field(min_length=1)]
    per_device_train_batch_size: Count
    gradient_accumulation_steps: Count
    max_steps: Count
    max_grad_norm: Annotated[float, Field(ge=0)]
    bf16: bool
    fp16: bool
    gradient_checkpointing: bool
    gradient_checkpointing_kwargs: Recomputation | None = None
    use_liger_kernel: bool
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
        if (self.gradient_checkpointing_kwargs is not None) != self.gradient_checkpointing:
            raise ValueError("gradient_checkpointing_kwargs go with gradient_checkpointing")
        return self
