"""Hugging Face Accelerate: `accelerate_fsdp2.yaml`."""

from .limits import objections

__all__ = ["objections"]
