"""Seconds of a layer's work on one card: matrix products, memory-bound work, casts, head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..hardware.catalogue import gemm_curve
from ..models.stack import Stack, stacks
from ..models.strategy import PRECISIONS
from ..models.transformer import Block
from .attention import attention_seconds
from .cards import training_factor
from .columns import WORDS, Floats
from .law import law
from .layout import Layout

Cut = Literal["column", "row", "whole"]

_LINEAR_BYTES = {"bf16": 2.0, "fp16": 2.0, "fp32": 4.0, "fp8": 1.0, "mxfp8": 1.03125}
"""Bytes of an operand element, by precision; MX scales are one byte per 32 elements."""


@dataclass(frozen=True)
class Product:
    """One weight matrix of a layer: (m tokens) x (k) x (n), and which side tensor parallel cuts."""

    n: int
    k: int
    cut: Cut


def attention_products(block: Block, hidden: int) -> list[Product]:
    """Weight matrices of the attention of a layer."""
    attention = block.attention
    query, kv, output = attention.query_width, attention.kv_width, attention.output_width
    last = Product(hidden, output, "row")
    if attention.kv_rank is None:
        return [Product(query + 2 * kv, hidden, "column"), last]
    value = attention.value_head_dim or attention.head_dim
    down = attention.q_rank + attention.kv_rank + attention.rope_head_dim
    return [
        Product(down, hidden, "whole"),
        Product(query, attention.q_rank or hidden, "column"),
        Product(attention.heads * (attention.head_dim + value), attention.kv_rank, "column"),
        last,
    ]


def dense_products(width: int, hidden: int, matrices: int) -> list[Product]:
    """Weight matrices of a feed-forward of inner `width`; gate and up are one product."""
    return [Product((matrices - 1) * width, hidden, "column"), Product(hidden, width, "row")]


def _per_row(values: list[float], codes: np.ndarray) -> Floats:
    found: Floats = np.array(values)[codes]
    return found


def stack_constant(layout: Layout, field: str) -> Floats:
    """A constant of each row's software stack."""
    values = [float(getattr(stacks()[name], field)) for name in WORDS["software_stack"]]
    return _per_row(values, layout.strategies.software_stack)


def stack_of(layout: Layout, row: int) -> Stack:
    """The software stack of one row."""
    return stacks()[WORDS["software_stack"][layout.strategies.software_stack[row]]]


def product_seconds(layout: Layout, m: Floats, n: Floats, k: Floats, *, linear: bool) -> Floats:
    """Seconds of m x n x k on the card; `linear` products run in the row's precision, others in 16 bit."""
    gpu = layout.cluster.node.gpu
    found = np.zeros(np.broadcast_shapes(m.shape, n.shape, k.shape))
    codes = layout.strategies.precision
    for value in np.unique(codes).tolist():
        word = PRECISIONS[value]
        precision = word if linear or word in ("fp16", "fp32") else "bf16"
        peak = gpu.peak_flops_per_s(precision)
        rows = codes == value
        if peak is None:
            found[rows] = np.inf
            continue
        found[rows] = training_factor(gpu.name, precision) * gemm_curve(gpu, precision).seconds(
            np.broadcast_to(m, found.shape)[rows],
            np.broadcast_to(n, found.shape)[rows],
            np.broadcast_to(k, found.shape)[rows],
            peak_flops_per_s=peak,
            hbm_bytes_per_s=gpu.hbm_bytes_per_s,
            bytes_per_element=_LINEAR_BYTES[precision],
            sms=gpu.sms,
        )
    return found


def products_seconds(layout: Layout, products: list[Product]) -> Floats:
    """Seconds of the forward products of tokens T, cut by tensor parallel."""
    t = layout.tensor.astype(np.float64)
    total = np.zeros(len(t))
    for product in products:
        n = product.n / t if product.cut == "column" else np.full_like(t, product.n)
        k = product.k / t if product.cut == "row" else np.full_like(t, product.k)
        total += product_seconds(layout, layout.tokens, n, k, linear=True)
    return total


def expert_seconds(layout: Layout, block: Block) -> Floats:
    """Seconds of the routed experts' forward products: one product an expert on the rank."""
    forward, s = block.feed_forward, layout.strategies
    if not forward.experts:
        return np.zeros(len(s))
    local = forward.experts / s.expert_parallel
    routed = layout.tokens * forward.experts_per_token * law("expert_imbalance")
    rows = routed * s.expert_tensor_parallel / layout.tensor / local
    width = forward.width / s.expert_tensor_parallel
    hidden = np.full_like(width, layout.transformer.hidden_size)
    one = product_seconds(layout, rows, (forward.matrices - 1) * width, hidden, linear=True)
    return local * (one + product_seconds(layout, rows, hidden, width, linear=True))


def feed_forward_seconds(layout: Layout, block: Block) -> Floats:
    """Seconds of the forward products of a feed-forward, shared and routed."""
    forward, hidden = block.feed_forward, layout.transformer.hidden_size
    if not forward.experts:
        return products_seconds(layout, dense_products(forward.width, hidden, forward.matrices))
    total = expert_seconds(layout, block)
    total += products_seconds(layout, [Product(forward.experts, hidden, "whole")])
    if forward.shared_width:
        total += products_seconds(layout, dense_products(forward.shared_width, hidden, forward.matrices))
    return total


def inner_width(block: Block) -> float:
    """Feed-forward width a token meets: dense, or shared plus top-k experts with imbalance."""
    forward = block.feed_forward
    if not forward.experts:
        return float(forward.width)
    return forward.shared_width + forward.experts_per_token * forward.width * law("expert_imbalance")


def memory_seconds(layout: Layout, block: Block) -> Floats:
    """Seconds of a forward's element-wise work: (20 h / split + (4 (q + kappa) + 6 f) / t) T / HBM."""
    attention = block.attention
    split = 4.0 * (attention.query_width + attention.kv_width) + 6.0 * inner_width(block)
    moved = 20.0 * layout.transformer.hidden_size / layout.split_tokens + split / layout.tensor
    return moved * layout.tokens / memory_rate(layout)


def memory_rate(layout: Layout) -> float:
    """Bytes a second memory-bound kernels sustain: 0.85 of the HBM peak."""
    return law("hbm_share") * layout.cluster.node.gpu.hbm_bytes_per_s


def cast_seconds(layout: Layout, block: Block) -> Floats:
    """Seconds to quantise the inputs of a forward's linears, 8-bit rows only."""
    s = layout.strategies
    eight = s.is_("precision", "fp8") | s.is_("precision", "mxfp8")
    widths = 2.0 * layout.transformer.hidden_size + block.attention.output_width + inner_width(block)
    return np.where(
        eight, law("cast_bytes") * widths * layout.tokens / layout.tensor / memory_rate(layout), 0.0
    )


@dataclass(frozen=True)
class LayerSeconds:
    """Seconds of one layer for one micro-batch, (n, kinds), without communication.

    `selective` and `full` are what the backward repeats under each kind of recompute.
    """

    forward: Floats
    backward: Floats
    selective: Floats
    full: Floats
    attention: Floats

    @classmethod
    def of(cls, layout: Layout) -> LayerSeconds:
        """From products, attention and memory-bound work with the stack's factors."""
        parts = [_one_kind(layout, block) for block in layout.blocks]
        return cls(*(np.stack([part[i] for part in parts], axis=1) for i in range(5)))


def _one_kind(layout: Layout, block: Block) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    hidden = layout.transformer.hidden_size
    gemm = stack_constant(layout, "gemm_factor")
    attended = products_seconds(layout, attention_products(block, hidden)) * gemm
    fed = feed_forward_seconds(layout, block) * gemm
    core, core_back = attention_seconds(layout, block)
    scale = stack_constant(layout, "attention_factor")
    memory = memory_seconds(layout, block) * stack_constant(layout, "memory_factor")
    cast = cast_seconds(layout, block)
    floor = stack_constant(layout, "host_floor_seconds")
    forward = at_least(attended + fed + scale * core + memory + cast, floor)
    work = 2.0 * (attended + fed + memory + cast) + scale * core_back
    backward = at_least(work, law("host_backward_floor") * floor)
    by_op = 0.5 * (attended + fed) + memory
    by_mlp = fed + memory * 0.5
    mlp = layout.strategies.is_("backend", "megatron")
    return forward, backward, np.where(mlp, by_mlp, by_op), forward, scale * core


def at_least(work: Floats, floor: Floats) -> Floats:
    """A soft maximum of device and host time: (work^4 + floor^4)^(1/4), by square roots alone."""
    return np.sqrt(np.sqrt(work**4 + floor**4))


def head_seconds(layout: Layout) -> Floats:
    """Seconds of head and loss, both passes of a micro-batch: three products and 16 B an entry."""
    entries = layout.vocabulary / layout.tensor
    hidden = np.full_like(layout.tokens, layout.transformer.hidden_size)
    products = 3.0 * product_seconds(layout, layout.tokens, entries, hidden, linear=False)
    moved = law("loss_traffic_bytes") * layout.tokens * entries / memory_rate(layout)
    return products * stack_constant(layout, "gemm_factor") + moved


def embedding_seconds(layout: Layout) -> Floats:
    """Seconds of the embedding look-up and its scatter-add: 10 T h bytes."""
    return 10.0 * layout.tokens * layout.transformer.hidden_size / memory_rate(layout)
