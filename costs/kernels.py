"""Seconds of a layer's work on one card: matrix products, memory-bound work, head."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..models.shares import Shares, trained_shares
from ..models.transformer import Block
from .adapter_work import adapter_seconds, dequantise_seconds
from .attention import core_seconds
from .columns import Floats, Ints
from .context import ring_ranks
from .elementwise import memory_seconds, modules_seconds
from .experts import floor_seconds
from .law import law
from .layout import Layout
from .logits import loss_moved_bytes
from .products import (
    Local,
    Passes,
    Product,
    dense_products,
    memory_rate,
    mixer_products,
    passes_of,
    product_seconds,
)
from .run_again import Forward
from .stacks import imbalance, stack_constant


def expert_passes(layout: Layout, block: Block, trained: float) -> Passes:
    """Seconds of the routed experts' products: one product an expert on the rank."""
    forward, s = block.feed_forward, layout.strategies
    local = forward.experts / s.expert_parallel
    routed = layout.tokens * forward.experts_per_token * imbalance(layout)
    rows = routed * s.expert_tensor_parallel / layout.tensor / local
    width = forward.width / s.expert_tensor_parallel
    hidden = np.full_like(width, layout.transformer.hidden_size)
    inner = Local.whole(rows, (forward.matrices - 1) * width, hidden).passes(layout, trained)
    return inner.beside(Local.whole(rows, hidden, width).passes(layout, trained)).times(local)


def feed_forward_passes(layout: Layout, block: Block, trained: float) -> Passes:
    """Seconds of the products of a feed-forward, shared and routed."""
    forward, hidden = block.feed_forward, layout.transformer.hidden_size
    if not forward.experts:
        return passes_of(layout, dense_products(forward.width, hidden, forward.matrices), trained)
    found = expert_passes(layout, block, trained)
    found = found.beside(passes_of(layout, [Product(forward.experts, hidden, "whole")], trained))
    return found.beside(shared_passes(layout, block, trained))


def shared_passes(layout: Layout, block: Block, trained: float) -> Passes:
    """Seconds of the products of shared experts."""
    forward = block.feed_forward
    if not (forward.experts and forward.shared_width):
        return passes_of(layout, [], trained)
    products = dense_products(forward.shared_width, layout.transformer.hidden_size, forward.matrices)
    return passes_of(layout, products, trained)


class LayerSeconds(NamedTuple):
    """Seconds of one layer for one micro-batch, (n, kinds), or (n,) of one kind, without communication.

    `selective` and `full` are what the backward repeats under each kind of recompute, `weight` what of it
    are gradients of weights, and `column` those of matrices that tensor parallel cuts by column. `host` is
    what the host takes for the forward, which `forward` has met.
    """

    forward: Floats
    backward: Floats
    selective: Floats
    full: Floats
    attention: Floats
    weight: Floats
    column: Floats
    host: Floats

    def take(self, rows: Ints) -> LayerSeconds:
        """The seconds of some rows."""
        return LayerSeconds(*(part[rows] for part in self))

    @classmethod
    def of(cls, layout: Layout) -> LayerSeconds:
        """From products, attention and memory-bound work with the stack's factors."""
        shares = trained_shares(layout.training, layout.transformer)
        again_made = dequantise_seconds(layout)
        parts = [
            _one_kind(layout, block, shares, again_made[:, kind]) for kind, block in enumerate(layout.blocks)
        ]
        return cls(*(np.stack(part, axis=1) for part in zip(*parts, strict=True)))


def _one_kind(layout: Layout, block: Block, shares: Shares, unpacked: Floats) -> LayerSeconds:
    """A frozen weight has a product for the gradient of its input, none for its own."""
    hidden = layout.transformer.hidden_size
    gemm = stack_constant(layout, "gemm_factor")
    weights = [product for mixer in block.mixers for product in mixer_products(mixer, hidden)]
    weights += [Product(hidden, 2 * hidden, "column")] if block.joins else []
    trained = shares.experts if block.feed_forward.experts else shares.dense
    attended = passes_of(layout, weights, shares.attention).times(gemm)
    fed = feed_forward_passes(layout, block, trained).times(gemm)
    core, core_back = attention_seconds(layout, block)
    memory = memory_seconds(layout, block) * stack_constant(layout, "memory_factor")
    floor = floor_seconds(layout, block)
    thin, sums = adapter_seconds(layout, block)
    thin, sums = thin * gemm, sums * stack_constant(layout, "memory_factor")
    beside = thin + sums + unpacked
    forward = at_least(attended.forward + fed.forward + core + memory + beside, floor)
    products = attended.backward + fed.backward
    work = products + 2.0 * (memory + thin) + sums + unpacked + core_back
    backward = at_least(work, law("host_backward_floor") * floor)
    weight = backward * (attended.weight + fed.weight + thin) / work
    named = modules_seconds(layout, block) * stack_constant(layout, "memory_factor")
    shared = shared_passes(layout, block, trained).forward * gemm
    parts = Forward(attended.forward, beside, fed.forward, shared, core, memory, named)
    part = parts.again(layout, block)
    found = LayerSeconds(
        forward=forward,
        backward=backward,
        selective=np.minimum(part, forward),
        full=forward,
        attention=core,
        weight=weight,
        column=_column_seconds(layout, block, shares) * gemm,
        host=floor,
    )
    return _predicting(layout, found) if block.joins else found


def _column_seconds(layout: Layout, block: Block, shares: Shares) -> Floats:
    """Seconds of the gradients of weights that tensor parallel cuts by column; routed experts have none."""
    forward, hidden = block.feed_forward, layout.transformer.hidden_size
    attended = [product for mixer in block.mixers for product in mixer_products(mixer, hidden)]
    width = forward.shared_width if forward.experts else forward.width
    fed = dense_products(width, hidden, forward.matrices) if width else []
    parts = (attended, shares.attention), (fed, shares.experts if forward.experts else shares.dense)
    columns = (([one for one in products if one.cut == "column"], share) for products, share in parts)
    found: Floats = np.sum([passes_of(layout, *part).weight for part in columns], axis=0)
    return found


def _predicting(layout: Layout, block: LayerSeconds) -> LayerSeconds:
    """A module's block with its own embedding, head and loss; full recompute leaves all of it as it is."""
    ends, share = head_seconds(layout) + embedding_seconds(layout), law("forward_share")
    return block._replace(
        forward=block.forward + share * ends,
        backward=block.backward + (1.0 - share) * ends,
        full=np.zeros_like(block.full),
        weight=block.weight + head_weight_seconds(layout),
    )


def attention_seconds(layout: Layout, block: Block) -> tuple[Floats, Floats]:
    """(forward, backward) seconds of the attention cores of a layer under each row's stack."""
    cores = [core_seconds(layout, mixer) for mixer in block.mixers]
    scale = stack_constant(layout, "attention_factor") * _unbalanced(layout)
    forward, backward = (np.sum(part, axis=0) for part in zip(*cores, strict=True))
    return scale * forward, scale * backward


def _unbalanced(layout: Layout) -> Floats:
    """Attention over a sequence cut without regard to the causal mask: 1 + u (1 - 1/c)."""
    c = ring_ranks(layout).astype(np.float64)
    return 1.0 + stack_constant(layout, "context_imbalance") * (1.0 - 1.0 / c)


def at_least(work: Floats, floor: Floats) -> Floats:
    """A soft maximum of device and host time: (work^4 + floor^4)^(1/4), by square roots alone."""
    return np.sqrt(np.sqrt(fourth(work) + fourth(floor)))


def fourth(values: Floats) -> Floats:
    """The fourth power, by squares."""
    found: Floats = np.square(np.square(values))
    return found


def head_weight_seconds(layout: Layout) -> Floats:
    """Seconds of the head's product for the gradient of its weights, of those in `head_seconds`."""
    entries, share = (
        layout.vocabulary / layout.tensor,
        trained_shares(layout.training, layout.transformer).head,
    )
    hidden = np.full_like(layout.tokens, layout.transformer.hidden_size)
    one = product_seconds(layout, layout.tokens, entries, hidden, linear=False)
    return share * one * stack_constant(layout, "gemm_factor")


def head_seconds(layout: Layout) -> Floats:
    """Seconds of head and loss, both passes of a micro-batch: three products (two frozen), M B an entry."""
    entries = layout.vocabulary / layout.tensor
    hidden = np.full_like(layout.tokens, layout.transformer.hidden_size)
    share = trained_shares(layout.training, layout.transformer).head
    products = (2.0 + share) * product_seconds(layout, layout.tokens, entries, hidden, linear=False)
    moved = loss_moved_bytes(layout) * layout.tokens * entries / memory_rate(layout)
    return products * stack_constant(layout, "gemm_factor") + moved


def embedding_seconds(layout: Layout) -> Floats:
    """Seconds of the embedding look-up, 4 T h bytes, and of its scatter-add where it is trained, 6 T h."""
    share = trained_shares(layout.training, layout.transformer).embedding
    return (4.0 + 6.0 * share) * layout.tokens * layout.transformer.hidden_size / memory_rate(layout)
