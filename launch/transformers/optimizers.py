"""The trainer's names of optimizers that step sharded weights."""

from __future__ import annotations

from typing import NamedTuple

from ...models.training import Optimizer


class Named(NamedTuple):
    """`optim` of `TrainingArguments`, with its `optim_args` where it needs some."""

    optim: str
    optim_args: str | None = None


OPTIMIZERS: dict[Optimizer, Named] = {
    "adamw": Named("adamw_torch_fused"),
    "adamw-8bit": Named("adamw_torch_8bit"),
    "sgd": Named("sgd", "momentum=0.9"),
    "sgd-no-momentum": Named("sgd"),
}
"""Under FSDP2 weights and states are DTensors, which torch steps, and torchao (`adamw_torch_8bit`).

`lion_32bit`, `adamw_8bit` and the paged ones are kernels of bitsandbytes on plain tensors (transformers
5.24.0, trainer_optimizer.py; bitsandbytes 0.50.2, optim/).
"""
