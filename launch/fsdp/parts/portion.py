"""Checking that of the model what was planned is trained, and in which type."""

from __future__ import annotations

import torch
from torch import nn


def check_portion(model: nn.Module, parameters: int, trained: int, dtype: torch.dtype) -> None:
    """Refuse a model with other sizes of trained or frozen weights (1 %), or trained weights of another type.

    A packed 4-bit weight counts more parameters than elements, so that only its trained part is counted.
    """
    weights = list(model.parameters())
    learning = [weight for weight in weights if weight.requires_grad]
    packed = any(type(weight).__name__ == "Params4bit" for weight in weights)
    sizes = [(trained, learning, "trained")] + ([] if packed else [(parameters, weights, "all")])
    for planned, found, what in sizes:
        counted = sum(weight.numel() for weight in found)
        if abs(counted - planned) * 100 > planned:
            raise ValueError(f"this plan is for {planned} parameters ({what}), the model has {counted}")
    if any(weight.dtype != dtype for weight in learning):
        raise ValueError(f"this plan prices trained weights in {dtype}: load them in that type")
    model.train()  # a loaded model is in evaluation: no dropout, and 4-bit weights packed otherwise
    config = getattr(model, "config", None)
    if config is not None:
        config.use_cache = False  # a key-value cache would be filled twice by recomputation
