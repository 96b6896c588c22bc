"""Seconds of the attention core on one card: fused kernels by measured speed, unfused ones as products."""

from __future__ import annotations

import numpy as np

from ..hardware.catalogue import attention_curve, attention_kernel
from ..models.counts import attention_span
from ..models.mixers import Attention, Mixing
from .cards import clock_factor
from .columns import Floats, distinct, numbered
from .context import ring_ranks
from .law import law
from .layout import Layout
from .products import memory_rate, product_seconds
from .stacks import of_stacks, stack_has


def core_seconds(layout: Layout, mixer: Mixing) -> tuple[Floats, Floats]:
    """(forward, backward) seconds of the core of one mixer, by the attention kernel of the stack."""
    kernels = of_stacks("attention_kernel")
    slower = (law("sinks_factor") if isinstance(mixer, Attention) and mixer.sinks else 1.0) * np.where(
        stack_has(layout, "attention_bits", 8), law("eight_bit_attention"), 1.0
    )
    stacks = layout.strategies.software_stack
    mine = kernels[stacks]
    forward, backward = np.zeros(len(mine)), np.zeros(len(mine))
    for kernel in dict.fromkeys(kernels[distinct(stacks)].tolist()):
        seconds = (_fused if kernel.startswith("flash") else _products)(layout, mixer, kernel)
        forward, backward = (
            np.where(mine == kernel, new * slower, old)
            for new, old in zip(seconds, (forward, backward), strict=True)
        )
    return forward, backward


def _fused(layout: Layout, attention: Mixing, generation: str) -> tuple[Floats, Floats]:
    """Fused attention at the measured speeds of a generation of kernels over length and head size.

    FLOPs: 2 T span (q + o) / t over the causal (or windowed) half. The forward runs at the measured
    forward speed; both passes, 3.5 forwards, at the measured forward-and-backward speed. Where the
    sequence stays cut over c ranks (a ring, a gather), blocks of sequence_length / (2 c) set the speed
    (zig-zag balance); after an all-to-all of heads it is whole. Packed documents attend within themselves,
    and are as long as they are. A card whose clock falls under products slows attention too, if less: it
    draws less power.
    """
    sequence = layout.training.attended_length
    c = ring_ranks(layout)
    gpu = layout.cluster.node.gpu
    curve = attention_curve(gpu, attention_kernel(gpu, generation))
    rings, _, ring = numbered(c)
    length = np.where(rings > 1, sequence / (2.0 * rings), float(sequence))
    head = float(attention.head_dim + attention.rope_head_dim)
    width = attention.query_width + attention.output_width
    flops = 2.0 * layout.tokens * attention_span(attention, sequence) * width / layout.tensor
    flops = flops * max(clock_factor(layout.cluster, "bf16"), 1.0) ** law("attention_clock_share")
    speed = curve.forward_flops_per_s(length, head)[ring]
    twice = curve.forward_backward_flops_per_s(length, head)[ring]
    forward, both = flops / speed, (1.0 + law("attention_backward_units")) * flops / twice
    return forward, both - forward


def _products(layout: Layout, attention: Mixing, kernel: str) -> tuple[Floats, Floats]:
    """Scores and values as two products over the whole square, and their element-wise passes.

    Forward: two products and 9 bytes a score; backward: four and 11; where scale and mask are operators of
    their own 17 and 19. A head size that is no multiple of 8 makes the products 8.5 times as long
    (bloom_prequel).
    """
    sequence = float(layout.training.sequence_length)
    rows = layout.tokens * attention.heads / layout.tensor
    keys, head = np.full_like(rows, sequence), np.full_like(rows, float(attention.head_dim))
    products = product_seconds(layout, rows, keys, head, linear=False)
    products = products + product_seconds(layout, rows, head, keys, linear=False)
    products = products * (law("odd_head_factor") if attention.head_dim % 8 else 1.0)
    scores = rows * sequence / memory_rate(layout)
    word = kernel.replace("-", "_")
    forward = products + law(f"{word}_forward_bytes") * scores
    return forward, 2.0 * products + law(f"{word}_backward_bytes") * scores
