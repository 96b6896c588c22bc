"""Hugging Face Accelerate: `accelerate_fsdp2.yaml`."""

from .limits import objections
from .write import write

__all__ = ["objections", "write"]
