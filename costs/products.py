"""Matrix products on one card: which a layer has, and their seconds."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ..hardware import GemmCurve, Gpu
from ..hardware.catalogue import gemm_curve
from ..inputs.record import dataclass
from ..models.mixers import Mixing
from ..models.strategy import PRECISIONS, Precision
from .cards import training_factor
from .columns import Floats, distinct
from .law import law
from .layout import Layout

Cut = Literal["column", "row", "whole"]

LINEAR_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp32": 4.0, "fp8": 1.0, "mxfp8": 1.03125, "nvfp4": 0.5625}
"""Bytes of an operand element; MX scales are a byte per 32 elements, NVFP4 ones a byte per 16."""

SCALING = {"fp8": "tensor_scaled", "mxfp8": "block_scaled", "nvfp4": "four_bit"}
"""Narrow arithmetic, and what stands before the names of its constants in the law."""


@dataclass(frozen=True)
class Product:
    """One weight matrix of a layer: (m tokens) x (k) x (n), and which side tensor parallel cuts."""

    n: int
    k: int
    cut: Cut


def mixer_products(mixer: Mixing, hidden: int) -> list[Product]:
    """Weight matrices of one mixer; those of cross-attention's keys and values read the encoder."""
    query, kv, output = mixer.query_width + mixer.gate_width, mixer.kv_width, mixer.output_width
    last = Product(hidden, output, "row")
    if mixer.kv_rank is None:
        keys, source = mixer.key_value_matrices * kv, mixer.memory_width or hidden
        if source == hidden:
            return [Product(query + keys, hidden, "column"), last]
        return [Product(query, hidden, "column"), Product(keys, source, "column"), last]
    value = mixer.value_head_dim or mixer.head_dim
    down = mixer.q_rank + mixer.kv_rank + mixer.rope_head_dim
    return [
        Product(down, hidden, "whole"),
        Product(query, mixer.q_rank or hidden, "column"),
        Product(mixer.heads * (mixer.head_dim + value), mixer.kv_rank, "column"),
        last,
    ]


def dense_products(width: int, hidden: int, matrices: int) -> list[Product]:
    """Weight matrices of a feed-forward of inner `width`; gate and up are one product."""
    return [Product((matrices - 1) * width, hidden, "column"), Product(hidden, width, "row")]


def product_seconds(layout: Layout, m: Floats, n: Floats, k: Floats, *, linear: bool) -> Floats:
    """Seconds of m x n x k on the card; `linear` products run in the row's precision, others in 16 bit."""
    found = np.zeros(np.broadcast_shapes(m.shape, n.shape, k.shape))
    codes = layout.strategies.precision
    for value in distinct(codes).tolist():
        word = PRECISIONS[value]
        precision: Precision = word if linear or word in ("fp16", "fp32") else "bf16"
        rows = codes == value
        sides = (np.broadcast_to(side, found.shape)[rows] for side in (m, n, k))
        found[rows] = _trained_seconds(layout, precision, *sides)
    return found * misaligned(n, k) if linear else found


def _trained_seconds(layout: Layout, precision: Precision, m: Floats, n: Floats, k: Floats) -> Floats:
    """Seconds of products in one precision inside training: infinite on a card without its arithmetic.

    The card's factor is of its clock under load.
    """
    gpu = layout.cluster.node.gpu
    peak = gpu.peak_flops_per_s(precision)
    if peak is None:
        return np.full(m.shape, np.inf)
    return _trained_curve(gpu, precision).seconds(
        m, n, k,
        load_factor=training_factor(layout.cluster, precision),
        peak_flops_per_s=peak,
        hbm_bytes_per_s=gpu.hbm_bytes_per_s,
        bytes_per_element=LINEAR_BYTES[precision],
        sms=gpu.sms,
    )  # fmt: skip


def _trained_curve(gpu: Gpu, precision: Precision) -> GemmCurve:
    """The card's curve; narrow products launch as those of 16 bits, and Transformer Engine quantises.

    Bytes that move for an element of 16 bits: read once more where a tensor's largest value is sought first,
    and written along rows and along columns, or once where the card reads an 8-bit operand transposed and
    blocks have no scales of their own.
    """
    curve = gemm_curve(gpu, precision)
    if precision not in SCALING:
        return curve
    copied = precision == "fp8" and not gpu.reads_transposed
    moved = law(f"{SCALING[precision]}_bytes") + copied * law("transposed_bytes")
    return curve.quantised_by(gemm_curve(gpu, "bf16"), moved)


def misaligned(n: Floats, k: Floats) -> Floats:
    """The factor on a linear's time where a local side is no multiple of 64 elements.

    >>> float(misaligned(np.array(14400 / 8), np.array(14400)))
    1.2
    """
    side = law("misaligned_side")
    odd = (np.mod(n, side) != 0) | (np.mod(k, side) != 0)
    return np.where(odd, law("misaligned_factor"), 1.0)


def products_seconds(layout: Layout, products: list[Product]) -> Floats:
    """Seconds of the forward products of tokens T, cut by tensor parallel."""
    t = layout.tensor.astype(np.float64)
    total = np.zeros(len(t))
    for product in products:
        n = product.n / t if product.cut == "column" else np.full_like(t, product.n)
        k = product.k / t if product.cut == "row" else np.full_like(t, product.k)
        total += product_seconds(layout, layout.tokens, n, k, linear=True)
    return total


def memory_rate(layout: Layout) -> float:
    """Bytes a second memory-bound kernels sustain: 0.85 of the HBM peak."""
    return law("hbm_share") * layout.cluster.node.gpu.hbm_bytes_per_s
