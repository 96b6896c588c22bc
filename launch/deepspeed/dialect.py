"""`ds_config.hf.json`: the same configuration with `auto` where the Hugging Face trainer fills in its own."""

from __future__ import annotations

import json
from typing import Any

from ...plans.plan import Plan
from .write import config

FILE = "ds_config.hf.json"

AUTO = (
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
    "gradient_clipping",
    "bf16.enabled",
    "fp16.enabled",
    "optimizer.params.lr",
    "optimizer.params.betas",
    "optimizer.params.eps",
    "optimizer.params.weight_decay",
    "zero_optimization.reduce_bucket_size",
    "zero_optimization.stage3_prefetch_bucket_size",
    "zero_optimization.stage3_param_persistence_threshold",
    "scheduler.params.warmup_min_lr",
    "scheduler.params.warmup_max_lr",
    "scheduler.params.warmup_num_steps",
    "scheduler.params.total_num_steps",
)
"""Every key the trainer fills in (transformers 5.24.0, integrations/deepspeed.py); others it leaves alone."""

LEFT = tuple(path for path in AUTO if path.startswith("zero_optimization."))
"""Those that stay numbers: the trainer would take them from the hidden width, the ledger priced others."""


def dialect(plan: Plan) -> dict[str, Any]:
    """The configuration of `plan` with `auto` for what it shares with the trainer's arguments."""
    values = config(plan).model_dump(exclude_none=True)
    for path in AUTO:
        table: Any = values
        *parents, key = path.split(".")
        for parent in parents:
            table = table.get(parent, {})
        if path not in LEFT and key in table:
            table[key] = "auto"
    return values


def write(plan: Plan) -> dict[str, str]:
    """`ds_config.hf.json` by name."""
    return {FILE: json.dumps(dialect(plan), indent=2) + "\n"}
