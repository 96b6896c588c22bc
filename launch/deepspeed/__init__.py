"""DeepSpeed: `ds_config.json`."""

from .limits import objections
from .write import write

__all__ = ["objections", "write"]
