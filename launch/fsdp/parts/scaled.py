"""Scaling the loss, so that small gradients do not vanish in float16."""

from __future__ import annotations

import math
from collections.abc import Iterable

import torch
from torch import nn
from torch.distributed.tensor import DTensor


class LossScale:
    """What the loss is multiplied by: halved where gradients overflow, doubled after `steady` good steps.

    Save `value` and `good` with a checkpoint.
    """

    steady = 2000

    def __init__(self, value: float = 65536.0) -> None:
        self.value, self.good = value, 0

    def held(self, norm: torch.Tensor) -> bool:
        """Whether gradients of this norm are numbers, so that the step may be taken; adapts the scale."""
        if not math.isfinite(float(norm)):
            self.value, self.good = max(self.value / 2, 1.0), 0
            return False
        self.good += 1
        if self.good % self.steady == 0:
            self.value *= 2
        return True


def unscale_gradients(parameters: Iterable[nn.Parameter], scale: float) -> None:
    """Divide gradients by what the loss was multiplied with."""
    for weight in parameters:
        if weight.grad is not None:
            grad = weight.grad
            (grad.to_local() if isinstance(grad, DTensor) else grad).div_(scale)
