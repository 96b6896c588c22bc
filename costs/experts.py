"""What routed experts cost a card beside their products: balance, bytes moved, and the host's launches."""

from __future__ import annotations

import numpy as np

from ..models.transformer import Block
from .columns import Bools, Floats, Ints
from .launches import layer_launches
from .law import law
from .layout import Layout
from .stacks import imbalance, stack_constant, stack_has


def has_experts(layout: Layout) -> bool:
    """Whether any layer of the model has routed experts."""
    return any(block.feed_forward.experts for block in layout.blocks)


def folded(layout: Layout) -> Bools:
    """Rows whose experts lie over the ranks of a stage in a grid of their own."""
    return layout.strategies.by_backend("folds_experts") > 0


def routed_ranks(layout: Layout) -> Ints:
    """Tensor ranks whose tokens one rank routes, (n,): its own alone in a folded grid, else those of all."""
    return np.where(folded(layout), 1, layout.strategies.expert_tensor_parallel)


def routed_bytes(layout: Layout, block: Block) -> Floats:
    """Bytes a token that its copies move in a forward's memory-bound work, and more.

    k phi (4 h (1 + e_t) + 6 f): copies are sorted by expert and put back, each a read and a write of h
    before and after the exchange; after it on all e_t ranks of an expert's cut, with f / e_t of its width
    each. Outside the one grouped kernel each expert's inputs are read again to be quantised and padded, and
    gates with biases are written out in many passes over f.
    """
    forward, hidden = block.feed_forward, layout.transformer.hidden_size
    if not forward.experts:
        return np.zeros(len(layout.strategies))
    cut = layout.strategies.expert_tensor_parallel
    more = law("separate_expert_bytes") * (cut * hidden + forward.width)
    sorted_bytes = law("permuted_bytes") * (routed_ranks(layout) + cut) / 2.0 * hidden
    moved = sorted_bytes + np.where(stack_has(layout, "graphs", "step"), 0.0, more)
    return forward.experts_per_token * imbalance(layout) * moved + gate_bytes(layout, block)


def gate_bytes(layout: Layout, block: Block) -> Floats:
    """Of `routed_bytes` those of the activation between the matrices of routed experts."""
    forward = block.feed_forward
    if not forward.experts:
        return np.zeros(len(layout.strategies))
    more = law("biased_gate_bytes") * forward.width * (forward.gated and forward.bias)
    moved = 6.0 * forward.width + np.where(stack_has(layout, "graphs", "step"), 0.0, more)
    return forward.experts_per_token * imbalance(layout) * moved


def floor_seconds(layout: Layout, block: Block) -> Floats:
    """Least seconds of the host for a layer's forward.

    H is the seconds of a launch times `layer_launches`. With experts (H + router and exchange) x what graphs
    leave + launches x local experts; a step in one graph has a tenth of H. A loop calls experts that are
    modules. Kernels of DeepEP and HybridEP count, sort and put back copies that the host else does.
    """
    base = stack_constant(layout, "host_launch_seconds") * layer_launches(layout, block)
    graphed = np.where(stack_has(layout, "graphs", "step"), law("graphed_step_left"), 1.0) * base
    if not block.feed_forward.experts:
        return graphed
    left = np.where(stack_has(layout, "graphs", "router"), law("graphed_router_left"), 1.0)
    left = np.where(stack_has(layout, "graphs", "attention"), law("graphed_attention_left"), left)
    called = base + stack_constant(layout, "host_launch_seconds") * _called(layout, block)
    sorting = np.where(stack_has(layout, "exchange", "alltoall"), 1.0, law("fused_exchange_host"))
    found = (base + law("expert_host_seconds") * sorting) * left + _launches(layout, block)
    found = found * np.where(stack_has(layout, "exchange_overlapped", True), law("overlapped_host"), 1.0)
    found = np.where(stack_has(layout, "expert_kernel", "modules"), called, found)
    return np.where(stack_has(layout, "graphs", "step"), graphed, found)


def _called(layout: Layout, block: Block) -> Floats:
    """Operations of the local experts where each is a module: a turn of the loop, and 4-bit weights."""
    packed = law("dequantise_launches") * block.feed_forward.matrices * (layout.training.way.kind == "qlora")
    turn = law("called_expert_launches") + packed
    return turn * block.feed_forward.experts / layout.strategies.expert_parallel


def _launches(layout: Layout, block: Block) -> Floats:
    """Seconds to launch the local experts one by one; in 16 bits only their products, no quantisation."""
    s = layout.strategies
    local = block.feed_forward.experts / s.expert_parallel
    plain = s.is_("precision", "bf16") | s.is_("precision", "fp16") | s.is_("precision", "fp32")
    each = law("expert_launch_seconds") * np.where(plain, law("plain_launch_share"), 1.0)
    return np.where(stack_has(layout, "expert_kernel", "loop"), each * local, 0.0)
