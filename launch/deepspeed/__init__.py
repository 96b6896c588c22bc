"""DeepSpeed: `ds_config.json` and its twin for the Hugging Face trainer."""

from .limits import objections, training_objections

__all__ = ["objections", "training_objections"]
