"""DeepSpeed: `ds_config.json`."""

from .limits import objections, training_objections
from .write import write

__all__ = ["objections", "training_objections", "write"]
