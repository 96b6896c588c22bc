"""Hugging Face `Trainer`: `training_arguments.json`, for DeepSpeed beside the `auto` dialect of its file."""

from .limits import objections, training_objections

__all__ = ["objections", "training_objections"]
