"""Inputs of recomputed layers in host memory between forward and backward."""

from __future__ import annotations

from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import offload_wrapper


def inputs_on_host(layers: nn.ModuleList, full: int) -> None:
    """Move what the first `full` layers keep, their inputs, to the host (`save_on_cpu` around each)."""
    for index in range(full):
        layers[index] = offload_wrapper(layers[index])
