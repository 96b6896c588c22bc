"""Hugging Face `Trainer`: `training_arguments.json` beside the `auto` dialect of DeepSpeed's file."""

from ..deepspeed.limits import objections, training_objections

__all__ = ["objections", "training_objections"]
