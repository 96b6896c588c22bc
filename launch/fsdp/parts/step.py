"""Loss, gradient clipping and the value of a loss."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import nn
from torch.distributed.tensor import DTensor


def cross_entropy(logits: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy of the next tokens, in float32; -100 marks tokens left out."""
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), following.flatten())


def local_value(loss: torch.Tensor) -> torch.Tensor:
    """The number in `loss`, off the graph."""
    return (loss.full_tensor() if isinstance(loss, DTensor) else loss).detach()


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> torch.Tensor:
    """Scale gradients so that their norm over all ranks is at most `max_norm`; returns the norm before.

    Weights may live on different meshes and devices, which torch's own function does not allow.
    """
    groups: dict[object, list[torch.Tensor]] = {}
    for weight in parameters:
        if weight.grad is not None:
            key = weight.grad.device_mesh if isinstance(weight.grad, DTensor) else None
            groups.setdefault((key, weight.grad.device), []).append(weight.grad)
    norms = [local_value(nn.utils.get_total_norm(grads)) for grads in groups.values()]
    norm = torch.linalg.vector_norm(torch.stack([value.to(norms[0].device) for value in norms]))
    scale = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    for grads in groups.values():
        for grad in grads:
            local = grad.to_local() if isinstance(grad, DTensor) else grad
            local.mul_(scale.to(local.device))
    return norm
