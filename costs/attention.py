"""Seconds of the attention core on one card, by measured speeds over length and head size."""

from __future__ import annotations

import numpy as np

from ..hardware.catalogue import attention_curve
from ..models.counts import attention_span
from ..models.transformer import Block
from .columns import Floats
from .law import law
from .layout import Layout


def attention_seconds(layout: Layout, block: Block) -> tuple[Floats, Floats]:
    """(forward, backward) seconds of the attention core of one layer and micro-batch.

    FLOPs: 2 T span (q + o) / t over the causal (or windowed) half. The forward runs at the measured
    forward speed; the backward is 2.5 forwards at the measured forward-and-backward speed. Under
    context parallel, blocks of sequence_length / (2 c) set the speed (zig-zag balance).
    """
    attention = block.attention
    sequence = layout.training.sequence_length
    c = layout.strategies.context_parallel
    curve = attention_curve(layout.cluster.node.gpu)
    length = np.where(c > 1, sequence / (2.0 * c), float(sequence))
    head = float(attention.head_dim + attention.rope_head_dim)
    width = attention.query_width + attention.output_width
    flops = 2.0 * layout.tokens * attention_span(attention, sequence) * width / layout.tensor
    forward = flops / curve.forward_flops_per_s(length, head)
    units = law("attention_backward_units")
    return forward, units * flops / curve.forward_backward_flops_per_s(length, head)
