"""Writing `training_arguments.json`."""

from __future__ import annotations

import json
from typing import Any

from ...plans.plan import Plan
from ..deepspeed import dialect
from ..deepspeed.write import LR_PLACEHOLDER
from ..families import families
from ..fsdp.limits import compiled
from ..steps import steps_of
from .optimizers import OPTIMIZERS
from .schema import AcceleratorConfig, Accumulation, FsdpConfig, Recomputation, TrainerFile

FILE = "training_arguments.json"


def arguments(plan: Plan) -> TrainerFile:
    """The arguments of `plan`, checked by their own schema."""
    strategy, training = plan.strategy, plan.request.training
    engine = _deepspeed(plan) if strategy.backend == "deepspeed" else _fsdp(plan)
    return TrainerFile(
        output_dir="out",
        per_device_train_batch_size=strategy.micro_batch_size,
        gradient_accumulation_steps=strategy.gradient_accumulation_steps,
        max_steps=steps_of(training),
        max_grad_norm=1.0,
        bf16=strategy.precision == "bf16",
        fp16=strategy.precision == "fp16",
        use_liger_kernel=strategy.loss_kernel == "chunked",
        learning_rate=LR_PLACEHOLDER,
        weight_decay=0.1 if training.optimizer.startswith("adamw") else 0.0,
        adam_beta1=0.9,
        adam_beta2=0.95,
        adam_epsilon=1e-8,
        logging_steps=1,
        **engine,
    )


def write(plan: Plan) -> dict[str, str]:
    """`training_arguments.json` by name, for DeepSpeed with `ds_config.hf.json`."""
    values = arguments(plan).model_dump(exclude_none=True)
    beside = dialect.write(plan) if plan.strategy.backend == "deepspeed" else {}
    return {FILE: json.dumps(values, indent=2) + "\n", **beside}


def _deepspeed(plan: Plan) -> dict[str, Any]:
    """Its own file holds the layout and the optimizer; layers recompute by the model's switch."""
    again = plan.strategy.recompute == "full"
    return {
        "deepspeed": dialect.FILE,
        "gradient_checkpointing": True if again else None,
        "gradient_checkpointing_kwargs": Recomputation(use_reentrant=False) if again else None,
    }


def _fsdp(plan: Plan) -> dict[str, Any]:
    """FSDP2, its recomputation, its optimizer, and reductions as the plan prices them."""
    strategy, training = plan.strategy, plan.request.training
    named = OPTIMIZERS[training.optimizer]
    each = strategy.gradient_accumulation_steps > 1 and training.sync_each_batch
    accumulation = AcceleratorConfig(gradient_accumulation_kwargs=Accumulation(sync_each_batch=True))
    return {
        "fsdp": True,
        "fsdp_config": FsdpConfig(
            version=2,
            reshard_after_forward=strategy.reshard_after_forward,
            auto_wrap_policy="TRANSFORMER_BASED_WRAP",
            transformer_layer_cls_to_wrap=[families()[plan.request.model.family].layer_class],
            activation_checkpointing=strategy.recompute == "full",
            cpu_offload=strategy.offload_params == "cpu",
            cpu_ram_efficient_loading=True,
            state_dict_type="SHARDED_STATE_DICT",
        ),
        "accelerator_config": accumulation if each else None,
        "torch_compile": True if compiled(strategy) else None,
        "optim": named.optim,
        "optim_args": named.optim_args,
    }
