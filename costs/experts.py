"""What routed experts cost a card beside their products: balance, bytes moved, and the host's launches."""

from __future__ import annotations

import numpy as np

from ..models.transformer import Block
from .columns import Floats
from .law import law
from .layout import Layout
from .once import once
from .stacks import stack_constant, stack_has


def has_experts(layout: Layout) -> bool:
    """Whether any layer of the model has routed experts."""
    return any(block.feed_forward.experts for block in layout.blocks)


@once
def imbalance(layout: Layout) -> Floats:
    """Tokens of the busiest rank over the mean, (n,): 1 where the router is forced to balance."""
    return np.where(stack_has(layout, "balanced", True), 1.0, law("expert_imbalance"))


def routed_bytes(layout: Layout, block: Block) -> Floats:
    """Bytes a token that its copies move in a forward's memory-bound work: k phi (8 h + 6 f), and more.

    Copies are sorted by expert and put back, each a read and a write of h before and after the exchange.
    Outside the one grouped kernel each expert's inputs are read again to be quantised and padded, and gates
    with biases are written out in many passes over f.
    """
    forward, hidden = block.feed_forward, layout.transformer.hidden_size
    if not forward.experts:
        return np.zeros(len(layout.strategies))
    more = law("separate_expert_bytes") * (hidden + forward.width)
    more += law("biased_gate_bytes") * forward.width * (forward.gated and forward.bias)
    fused = law("permuted_bytes") * hidden + 6.0 * forward.width
    moved = fused + np.where(stack_has(layout, "graphs", "step"), 0.0, more)
    return forward.experts_per_token * imbalance(layout) * moved


def floor_seconds(layout: Layout, block: Block) -> Floats:
    """Least seconds of the host for a layer's forward.

    (H + router) x what graphs leave + launches x local experts; a step in one graph has a tenth of H.
    """
    base = stack_constant(layout, "host_floor_seconds")
    if not block.feed_forward.experts:
        return base
    left = np.where(stack_has(layout, "graphs", "router"), law("graphed_router_left"), 1.0)
    left = np.where(stack_has(layout, "graphs", "attention"), law("graphed_attention_left"), left)
    found = (base + law("expert_host_seconds")) * left + _launches(layout, block)
    found = found * np.where(stack_has(layout, "exchange_overlapped", True), law("overlapped_host"), 1.0)
    return np.where(stack_has(layout, "graphs", "step"), law("graphed_step_left") * base, found)


def _launches(layout: Layout, block: Block) -> Floats:
    """Seconds to launch the local experts one by one; in 16 bits only their products, no quantisation."""
    s = layout.strategies
    local = block.feed_forward.experts / s.expert_parallel
    plain = s.is_("precision", "bf16") | s.is_("precision", "fp16") | s.is_("precision", "fp32")
    each = law("expert_launch_seconds") * np.where(plain, law("plain_launch_share"), 1.0)
    return np.where(stack_has(layout, "expert_kernel", "loop"), each * local, 0.0)
