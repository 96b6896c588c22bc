"""PyTorch FSDP2: `fsdp_plan.py`, a module a training script imports."""

from .limits import objections

__all__ = ["objections"]
