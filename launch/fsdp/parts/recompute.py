"""Activation checkpointing of a chosen number of layers."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper
from torch.utils.checkpoint import CheckpointPolicy, create_selective_checkpoint_contexts

PRODUCTS = (torch.ops.aten.mm.default, torch.ops.aten.addmm.default)
KEPT_PRODUCTS = (1, 3, 5)  # in order of execution; in a Llama layer query, value and gate
KEPT_ATTENTION = tuple(
    getattr(torch.ops.aten, name).default
    for name in (
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention",
        "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_flash_attention_for_cpu",
    )
    if hasattr(torch.ops.aten, name)
)


def selective_contexts() -> Any:
    """Partial recomputation: attention and every second matrix product are kept, the rest done again."""
    counts = {False: 0, True: 0}

    def policy(context: Any, operation: Any, *_args: Any, **_kwargs: Any) -> CheckpointPolicy:
        kept = operation in KEPT_ATTENTION
        if operation in PRODUCTS:
            counts[context.is_recompute] += 1
            kept = counts[context.is_recompute] in KEPT_PRODUCTS
        return CheckpointPolicy.MUST_SAVE if kept else CheckpointPolicy.PREFER_RECOMPUTE

    return create_selective_checkpoint_contexts(policy)


def recompute_layers(layers: nn.ModuleList, full: int, selective: int) -> None:
    """Wrap the first `full` layers to be recomputed whole, the next `selective` in part."""
    for index in range(full + selective):
        options = {} if index < full else {"context_fn": selective_contexts}
        layers[index] = checkpoint_wrapper(
            layers[index], checkpoint_impl=CheckpointImpl.NO_REENTRANT, preserve_rng_state=True, **options
        )
