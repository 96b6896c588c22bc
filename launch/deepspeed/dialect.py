"""`ds_config.hf.json`: the same configuration with `auto` where the Hugging Face trainer fills in its own."""

from __future__ import annotations

import json
from typing import Any

from ...plans.plan import Plan
from ..lint.keys import facts
from .write import config

FILE = "ds_config.hf.json"

AUTO: tuple[str, ...] = tuple(facts("deepspeed")["auto"])
"""Every key the trainer fills in; others it leaves alone."""

ULYSSES = "sequence_parallel_size"
"""The key that the trainer's file does without."""

LEFT = tuple(path for path in AUTO if path.startswith("zero_optimization."))
"""Those that stay numbers: the trainer would take them from the hidden width, the ledger priced others."""


def dialect(plan: Plan) -> dict[str, Any]:
    """The configuration of `plan` with `auto` for what it shares with the trainer's arguments.

    The trainer fills in a batch of all ranks before Accelerate, which is told of a shared sequence by its
    environment, puts that right; until then DeepSpeed would miss ranks that the file takes away.
    """
    values = config(plan).model_dump(exclude_none=True, exclude={ULYSSES})
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
