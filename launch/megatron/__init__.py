"""Megatron-LM: `megatron_args.sh`, the arguments of its `pretrain_gpt.py`."""

from .limits import objections, training_objections

__all__ = ["objections", "training_objections"]
