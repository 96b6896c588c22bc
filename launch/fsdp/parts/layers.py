"""Finding the decoder layers."""

from __future__ import annotations

from torch import nn


def decoder_layers(model: nn.Module, count: int) -> nn.ModuleList:
    """The model's stack of layers: the outermost list of exactly `count` modules."""
    found = {name: part for name, part in model.named_modules() if isinstance(part, nn.ModuleList)}
    right = sorted((name for name, part in found.items() if len(part) == count), key=lambda n: n.count("."))
    if not right:
        met = ", ".join(f"{name} ({len(part)})" for name, part in found.items()) or "none"
        raise ValueError(f"this plan is for {count} layers; lists of modules in this model: {met}")
    return found[right[0]]
