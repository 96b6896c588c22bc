"""Activation checkpointing of a chosen number of layers."""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

SAVED_OPS = tuple(
    getattr(getattr(torch.ops, space), name).default
    for space, name in (
        ("aten", "mm"),
        ("aten", "addmm"),
        ("aten", "_scaled_dot_product_flash_attention"),
        ("aten", "_scaled_dot_product_efficient_attention"),
        ("aten", "_scaled_dot_product_cudnn_attention"),
        ("aten", "_scaled_dot_product_flash_attention_for_cpu"),
        ("_c10d_functional", "reduce_scatter_tensor"),
    )
    if hasattr(getattr(torch.ops, space), name)
)


def keep_costly(_context: Any, operation: Any, *_args: Any, **_kwargs: Any) -> CheckpointPolicy:
    """Selective recomputation: keep what matmuls and attention return, compute the rest again."""
    return CheckpointPolicy.MUST_SAVE if operation in SAVED_OPS else CheckpointPolicy.PREFER_RECOMPUTE


def recompute_layers(layers: nn.ModuleList, full: int, selective: int) -> None:
    """Wrap the first `full` layers to be recomputed whole, the next `selective` in part."""
    contexts = partial(create_selective_checkpoint_contexts, keep_costly)
    for index in range(full + selective):
        options = {} if index < full else {"context_fn": contexts}
        layers[index] = checkpoint_wrapper(
            layers[index], checkpoint_impl=CheckpointImpl.NO_REENTRANT, preserve_rng_state=True, **options
        )
