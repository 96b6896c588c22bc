"""Work that adapters and a 4-bit base bring: two thin products a matrix, and weights made 16-bit again."""

from __future__ import annotations

import numpy as np

from ..models.adapters import Matrix, adapted
from ..models.transformer import Block
from .columns import Floats
from .law import law
from .layout import Layout
from .products import memory_rate, product_seconds
from .states import portion_bytes


def adapter_seconds(layout: Layout, block: Block) -> Floats:
    """Seconds of a layer's adapters in one forward: down to the rank, up again, and the sum with the base.

    The backward has the same two products twice (inputs and weights) and the same sum.
    """
    total = np.zeros(len(layout.strategies))
    if not layout.training.way.adapts:
        return total
    for matrix in adapted(block, layout.transformer.hidden_size, layout.training.lora_targets):
        total += _one(layout, matrix)
    return total


def _one(layout: Layout, matrix: Matrix) -> Floats:
    s = layout.strategies
    cut = np.where(matrix.routed, s.expert_tensor_parallel, layout.tensor).astype(np.float64)
    inputs = matrix.inputs / cut if matrix.cut == "row" else np.full_like(cut, matrix.inputs)
    outputs = matrix.outputs / cut if matrix.cut == "column" else np.full_like(cut, matrix.outputs)
    rank = np.full_like(cut, layout.training.way.rank)
    local = matrix.copies / s.expert_parallel if matrix.routed else np.ones_like(cut)
    tokens = layout.tokens * (law("expert_imbalance") * cut / layout.tensor if matrix.routed else 1.0)
    rows = tokens * matrix.met / local
    products = product_seconds(layout, rows, rank, inputs, linear=False)
    products = products + product_seconds(layout, rows, outputs, rank, linear=False)
    return local * products + law("adapter_sum_bytes") * rows * local * outputs / memory_rate(layout)


def dequantise_seconds(layout: Layout) -> Floats:
    """Seconds to make the 4-bit weights of a layer 16-bit once, (n, kinds): read packed, write 2 bytes.

    Forward and backward each do it, and the forward of a recomputed layer again.
    """
    total = np.zeros_like(layout.trained.dense)
    for portion in layout.portions[1:]:
        if portion.name == "quantised":
            each = portion_bytes(layout, portion, "weights_bytes") + 2.0
            total = total + portion.layer * each[:, None] / memory_rate(layout)
    return total
