"""Finding the decoder layers and checking that the model is the planned one."""

from __future__ import annotations

import torch
from torch import nn


def decoder_layers(model: nn.Module, count: int) -> nn.ModuleList:
    """The model's stack of layers: the outermost list of exactly `count` modules."""
    found = {name: part for name, part in model.named_modules() if isinstance(part, nn.ModuleList)}
    right = sorted((name for name, part in found.items() if len(part) == count), key=lambda n: n.count("."))
    if not right:
        met = ", ".join(f"{name} ({len(part)})" for name, part in found.items()) or "none"
        raise ValueError(f"this plan is for {count} layers; lists of modules in this model: {met}")
    return found[right[0]]


def check_model(model: nn.Module, parameters: int) -> None:
    """Refuse a model more than 1 % off in size, or one whose weights are not float32."""
    weights = list(model.parameters())
    counted = sum(weight.numel() for weight in weights)
    if abs(counted - parameters) * 100 > parameters:
        raise ValueError(f"this plan is for {parameters} parameters, the model has {counted}")
    if any(weight.dtype != torch.float32 for weight in weights):
        raise ValueError(
            "load the model in float32: the plan shards float32 weights and casts them per layer"
        )
    config = getattr(model, "config", None)
    if config is not None:
        config.use_cache = False  # a key-value cache would be filled twice by recomputation
