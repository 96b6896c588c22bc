"""PyTorch FSDP2: `fsdp_plan.py`, a module a training script imports."""

from .limits import objections
from .write import write

__all__ = ["objections", "write"]
