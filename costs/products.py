"""Matrix products on one card: which a layer has, and their seconds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from ..hardware.catalogue import gemm_curve
from ..hardware.curves import Rates
from ..inputs.record import dataclass
from ..models.mixers import Mixing
from ..models.strategy import ELEMENT_BYTES, PRECISIONS, Precision
from .cards import training_factor
from .columns import Bools, Floats, distinct
from .law import law
from .layout import Layout

Cut = Literal["column", "row", "whole"]

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


class Passes(NamedTuple):
    """Seconds of products: forward, backward, and what of the backward makes gradients of weights, (n,)."""

    forward: Floats
    backward: Floats
    weight: Floats

    def times(self, factor: Floats) -> Passes:
        """All of them `factor` times."""
        return Passes(*(factor * part for part in self))

    def beside(self, other: Passes) -> Passes:
        """These and `other` one after the other."""
        return Passes(*(one + more for one, more in zip(self, other, strict=True)))


@dataclass(frozen=True)
class Local:
    """A linear layer on one card: `m` tokens x `k` inputs x `n` outputs.

    `read` elements of its inputs and `written` of its outputs' gradients are made narrow on this card.
    """

    m: Floats
    n: Floats
    k: Floats
    read: Floats
    written: Floats

    @classmethod
    def of(cls, layout: Layout, product: Product) -> Local:
        """A matrix cut by tensor parallel; sequence parallel quantises a rank's own tokens, then gathers."""
        t = layout.tensor.astype(np.float64)
        n = product.n / t if product.cut == "column" else np.full_like(t, product.n)
        k = product.k / t if product.cut == "row" else np.full_like(t, product.k)
        m, own = layout.tokens, layout.tokens / layout.split_tokens
        read = (own if product.cut == "column" else m) * k
        return cls(m, n, k, read, (own if product.cut == "row" else m) * n)

    @classmethod
    def whole(cls, m: Floats, n: Floats, k: Floats) -> Local:
        """A matrix whose tokens are all the card's own."""
        return cls(m, n, k, m * k, m * n)

    def passes(self, layout: Layout, trained: float) -> Passes:
        """A product forward, one for the gradient of the input, one for that of a weight if `trained`.

        Inputs are made narrow in the forward, gradients once for both products of the backward (Transformer
        Engine, module/linear.py); weights once a step.
        """
        one = product_seconds(layout, self.m, self.n, self.k, linear=True)
        forward = one + quantise_seconds(layout, self.read)
        backward = (1.0 + trained) * one + quantise_seconds(layout, self.written)
        return Passes(forward, backward, trained * one)


def passes_of(layout: Layout, products: list[Product], trained: float) -> Passes:
    """Seconds of matrices that tensor parallel cuts, of the tokens of a micro-batch."""
    none = np.zeros(len(layout.strategies))
    found = Passes(none, none, none)
    for product in products:
        found = found.beside(Local.of(layout, product).passes(layout, trained))
    return found


def product_seconds(layout: Layout, m: Floats, n: Floats, k: Floats, *, linear: bool) -> Floats:
    """Seconds of m x n x k inside training; `linear` ones in the row's precision, others in 16 bit.

    Operands are already narrow where they are to be. Infinite on a card without the arithmetic. The card's
    factor is of its clock under load.
    """
    gpu = layout.cluster.node.gpu
    found = np.full(np.broadcast_shapes(m.shape, n.shape, k.shape), np.inf)
    for word, rows in _precisions(layout):
        precision: Precision = word if linear or word in ("fp16", "fp32") else "bf16"
        peak = gpu.peak_flops_per_s(precision)
        if peak is None:
            continue
        curve, narrow = gemm_curve(gpu, precision), precision in SCALING
        curve = curve.quantised_by(gemm_curve(gpu, "bf16") if narrow else curve, 0.0)
        height, width, depth = (np.broadcast_to(side, found.shape)[rows] for side in (m, n, k))
        card: Rates = {
            "peak_flops_per_s": peak,
            "hbm_bytes_per_s": gpu.hbm_bytes_per_s,
            "bytes_per_element": ELEMENT_BYTES[precision],
            "sms": gpu.sms,
        }
        factor = training_factor(layout.cluster, precision)
        found[rows] = (
            curve.capped_seconds(height, width, depth, **card)
            if factor is None
            else curve.loaded_seconds(height, width, depth, factor, **card)
        )
    return found * misaligned(n, k) if linear else found


def quantise_seconds(layout: Layout, elements: Floats) -> Floats:
    """Seconds in which Transformer Engine makes 16-bit elements narrow, along rows and along columns.

    Bytes that move for each: read once more where a tensor's largest value is sought first, and written
    along rows and along columns, or once where the card reads an 8-bit operand transposed and blocks have no
    scales of their own.
    """
    gpu, found = layout.cluster.node.gpu, np.zeros(len(layout.strategies))
    for precision, rows in _precisions(layout):
        if precision in SCALING and gpu.peak_flops_per_s(precision) is not None:
            copied = precision == "fp8" and not gpu.reads_transposed
            moved = law(f"{SCALING[precision]}_bytes") + copied * law("transposed_bytes")
            curve = gemm_curve(gpu, precision)
            narrow = curve.quantised_by(curve, moved)
            found[rows] = narrow.quantise_seconds(elements[rows], gpu.hbm_bytes_per_s)
    return found


def _precisions(layout: Layout) -> Iterator[tuple[Precision, Bools]]:
    """Each precision of the rows, and the mask of those in it."""
    codes = layout.strategies.precision
    for value in distinct(codes).tolist():
        yield PRECISIONS[value], codes == value


def misaligned(n: Floats, k: Floats) -> Floats:
    """The factor on a linear's time where a local side is no multiple of 64 elements.

    >>> float(misaligned(np.array(14400 / 8), np.array(14400)))
    1.2
    """
    side = law("misaligned_side")
    odd = (np.mod(n, side) != 0) | (np.mod(k, side) != 0)
    return np.where(odd, law("misaligned_factor"), 1.0)


def memory_rate(layout: Layout) -> float:
    """Bytes a second memory-bound kernels sustain: 0.85 of the HBM peak."""
    return law("hbm_share") * layout.cluster.node.gpu.hbm_bytes_per_s
