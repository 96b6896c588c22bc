"""DeepSpeed: `ds_config.json` and its twin for the Hugging Face trainer."""

from ...plans.plan import Plan
from . import dialect
from . import write as own
from .limits import objections, training_objections

__all__ = ["objections", "training_objections", "write"]


def write(plan: Plan) -> dict[str, str]:
    """`ds_config.json` and `ds_config.hf.json` by name."""
    return {**own.write(plan), **dialect.write(plan)}
