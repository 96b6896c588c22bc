"""DeepSpeed: `ds_config.json` and its twin for the Hugging Face trainer."""

from .limits import objections

__all__ = ["objections"]
