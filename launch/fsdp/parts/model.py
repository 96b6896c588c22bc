"""Checking that the model is the planned one."""

from __future__ import annotations

import torch
from torch import nn


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
    model.train()  # a loaded model is in evaluation
    config = getattr(model, "config", None)
    if config is not None:
        config.use_cache = False  # a key-value cache would be filled twice by recomputation
