"""Work that adapters and a 4-bit base bring: two thin products a matrix, and weights made 16-bit again."""

from __future__ import annotations

import numpy as np

from ..models.adapters import Matrix, adapted
from ..models.transformer import Block
from .columns import Floats
from .law import law
from .layout import Layout
from .products import memory_rate, product_seconds
from .recipes import portion_bytes
from .stacks import imbalance, stack_has


def adapter_seconds(layout: Layout, block: Block) -> tuple[Floats, Floats]:
    """Seconds of a layer's adapters in one forward: thin products, and what is read and written beside them.

    Down to the rank and up again; then scaled and added to the base's output; peft casts besides. The
    backward has the products twice (for inputs and weights) and about as much beside them.
    """
    products, beside = np.zeros(len(layout.strategies)), np.zeros(len(layout.strategies))
    if not layout.training.way.adapts:
        return products, beside
    for matrix in adapted(block, layout.transformer.hidden_size, layout.training.lora_targets):
        more, moved = _one(layout, matrix)
        products, beside = products + more, beside + moved
    return products, beside


def _one(layout: Layout, matrix: Matrix) -> tuple[Floats, Floats]:
    s = layout.strategies
    cut = np.where(matrix.routed, s.expert_tensor_parallel, layout.tensor).astype(np.float64)
    inputs = matrix.inputs / cut if matrix.cut == "row" else np.full_like(cut, matrix.inputs)
    outputs = matrix.outputs / cut if matrix.cut == "column" else np.full_like(cut, matrix.outputs)
    rank = np.full_like(cut, layout.training.way.rank)
    local = matrix.copies / s.expert_parallel if matrix.routed else np.ones_like(cut)
    tokens = layout.tokens * (imbalance(layout) * cut / layout.tensor if matrix.routed else 1.0)
    rows = tokens * matrix.met / local
    products = product_seconds(layout, rows, rank, inputs, linear=False)
    products = products + product_seconds(layout, rows, outputs, rank, linear=False)
    moved = law("adapter_sum_bytes") * outputs + _cast_bytes(layout, inputs, outputs)
    return local * products, moved * rows * local / memory_rate(layout)


def _cast_bytes(layout: Layout, inputs: Floats, outputs: Floats) -> Floats:
    """Bytes a token that peft's layer moves to have its adapter in fp32, and beside a 4-bit base."""
    packed = law("peft_packed_bytes") * (layout.training.way.kind == "qlora")
    found = law("peft_input_bytes") * inputs + packed * outputs
    return np.where(stack_has(layout, "adapter_code", "peft"), found, 0.0)


def dequantise_seconds(layout: Layout) -> Floats:
    """Seconds to make the 4-bit weights of a layer 16-bit once, (n, kinds): read packed, write 2 bytes.

    Forward and backward each do it, and the forward of a recomputed layer again.
    """
    if layout.training.way.kind != "qlora":
        return np.zeros((len(layout.strategies), len(layout.blocks)))
    packed = layout.cut.quantised()
    each = portion_bytes(layout, packed, "weights_bytes") + 2.0
    seconds: Floats = packed.layer * each[:, None] / memory_rate(layout)
    return seconds
