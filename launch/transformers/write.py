"""Writing `training_arguments.json`."""

from __future__ import annotations

import json

from ...plans.plan import Plan
from ..deepspeed import dialect
from ..deepspeed.write import LR_PLACEHOLDER
from ..steps import steps_of
from .schema import Recomputation, TrainerFile

FILE = "training_arguments.json"


def arguments(plan: Plan) -> TrainerFile:
    """The arguments of `plan`, checked by their own schema."""
    strategy, training = plan.strategy, plan.request.training
    again = strategy.recompute == "full"
    return TrainerFile(
        output_dir="out",
        deepspeed=dialect.FILE,
        per_device_train_batch_size=strategy.micro_batch_size,
        gradient_accumulation_steps=strategy.gradient_accumulation_steps,
        max_steps=steps_of(training),
        max_grad_norm=1.0,
        bf16=strategy.precision == "bf16",
        fp16=strategy.precision == "fp16",
        gradient_checkpointing=again,
        gradient_checkpointing_kwargs=Recomputation(use_reentrant=False) if again else None,
        use_liger_kernel=strategy.loss_kernel == "chunked",
        learning_rate=LR_PLACEHOLDER,
        weight_decay=0.1 if training.optimizer == "adamw" else 0.0,
        adam_beta1=0.9,
        adam_beta2=0.95,
        adam_epsilon=1e-8,
        logging_steps=1,
    )


def write(plan: Plan) -> dict[str, str]:
    """`training_arguments.json` and `ds_config.hf.json` by name."""
    values = arguments(plan).model_dump(exclude_none=True)
    return {FILE: json.dumps(values, indent=2) + "\n", **dialect.write(plan)}
