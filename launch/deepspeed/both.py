"""Both files of DeepSpeed: its own, and the dialect of the Hugging Face trainer."""

from __future__ import annotations

from ...plans.plan import Plan
from . import dialect
from . import write as own


def write(plan: Plan) -> dict[str, str]:
    """`ds_config.json` and `ds_config.hf.json` by name."""
    return {**own.write(plan), **dialect.write(plan)}
