"""Giving a model of the meta device its memory after it is laid out: no rank ever holds it whole."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict


def without_memory(build: Callable[[], nn.Module]) -> nn.Module:
    """The model of `build` on the meta device: shapes alone."""
    with torch.device("meta"):
        return build()


def give_memory(
    model: nn.Module, layers: nn.ModuleList, device: str, offload_root: bool, offloaded_layers: int
) -> None:
    """Memory for the shards of this rank, uninitialised: on `device`, or on the host what lives there."""
    model.to_empty(device="cpu" if offload_root else device)
    for layer in layers[: len(layers) - offloaded_layers] if offload_root else ():
        layer.to_empty(device=device)
    for part in model.modules():
        for name, buffer in part.named_buffers(recurse=False):
            setattr(part, name, buffer.to(device))


def fill(model: nn.Module, weights: Mapping[str, torch.Tensor] | None) -> None:
    """First weights by the model's own `init_weights`, then `weights`, which rank 0 hands to the others."""
    model.init_weights()
    if weights is not None:
        options = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        set_model_state_dict(model, dict(weights), options=options)
