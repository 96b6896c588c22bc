"""Temporary buffers: gathered units, stream pools, communication buckets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..models.adapters import adapted
from ..models.shares import trained_shares
from ..models.transformer import Block
from .columns import Bools, Floats, Ints
from .held import Held
from .law import law
from .layout import Layout
from .moments import AFTER, MOMENTS, PASSES, Alive, absent
from .once import once
from .portion import Portion
from .recipes import per_parameter, portion_bytes
from .replicated import replicated_terms
from .stacks import of_stacks, stack_has
from .states import kinds_total, whole_in_16_bits, with_gradients
from .terms import Note, Term, kib

_GATHER = Note(
    "2 N_root + 2 x 2 N_unit; 2 N without resharding", "PyTorch FSDP notes; FSDP memory oracle", "D"
)
_UNSHARDED = Note(
    "(2 + r) N_unit, or (2 + r) N_root at the end; r of the reduction", "FSDP memory oracle", "D"
)
_POOLS = Note(
    "4 N / d + 2 N_root, side-stream pools; 4 N_layer / d where FSDP2 sends gradients to the host",
    "torchtitan reserved memory, 14 rows; torch FSDP2 _fsdp_collectives.py, foreach_reduce: copied, let go",
    "M",
)
_DEQUANTISED = Note(
    "2 N of the largest 4-bit linear", "bitsandbytes Linear4bit: one 16-bit copy at a time", "D"
)
_ZERO3 = Note(
    "2 min(max_live, N) + 4 max(N_linear, V h) + 2 V h",
    "DeepSpeed stage3.py: max_live_parameters",
    "D",
)
_KEPT = Note(
    "2 min(max_live, N) of gathers before, which the allocator keeps",
    "qwen_readme rows, which count it; runs that count live tensors alone do not",
    "M",
)
_BUCKETS = Note(
    "2 bytes x (reduce buckets + all-gather bucket); two reduce buckets under overlap_gradient_reduce",
    "DeepSpeed stage_1_and_2.py (ipg buffers); bloom rows",
    "D",
)


@once
def bucket_elements(layout: Layout) -> Floats:
    """Elements of one communication bucket of each row (`bucket_of`).

    The launch files carry this number, and the overlap terms move states at the rate of one bucket.
    """
    trained = np.ceil(whole_rank(layout, [layout.trained]))
    return bucket_of(layout.cluster.node.gpu.memory_usable_bytes, trained)


def bucket_of(card_bytes: int, parameters: Floats) -> Floats:
    """Elements of a bucket: the default of the card's size, at most the rank's parameters."""
    small = card_bytes < law("small_card_bytes")
    return np.minimum(law("bucket_small_elements") if small else law("bucket_elements"), parameters)


def bucket_bytes(elements: Floats, reduce_buckets: Ints | int = 1) -> Floats:
    """Bytes of the reduce buckets and the all-gather bucket together, 2 bytes an element."""
    return 2.0 * (np.asarray(reduce_buckets) + 1) * elements


def whole_rank(layout: Layout, portions: Sequence[Portion]) -> Floats:
    """Parameters of some portions on a rank as if it held every layer, embedding and head (one stage)."""
    stages = layout.strategies.pipeline_parallel
    total = np.zeros(len(stages))
    for portion in portions:
        total += kinds_total(layout, portion.layer) / stages + portion.first + portion.last
    return total


def buckets(layout: Layout, row: int) -> dict[str, int]:
    """Buffer sizes of one row in elements, as the launch files write them."""
    bucket = int(bucket_elements(layout)[row])
    whole = int(np.ceil(whole_rank(layout, layout.portions)[row]))
    return {
        "reduce_bucket_elements": bucket,
        "allgather_bucket_elements": bucket,
        "prefetch_bucket_elements": min(int(law("prefetch_elements")), bucket),
        "max_live_parameters": min(int(law("live_parameters")), whole),
        "persistence_threshold": int(law("persistence_elements")),
        "sub_group_elements": int(law("sub_group_elements")),
    }


def largest_linear(block: Block, hidden: int) -> int:
    """Elements of the largest single linear of a layer."""
    attention, forward = block.attention, block.feed_forward
    widest = max(attention.query_width, attention.output_width, forward.width, forward.shared_width)
    return hidden * widest


@once
def _fsdp_rows(layout: Layout) -> Bools:
    """Rows whose units are gathered or cast before use: FSDP, but for 16-bit weights whole on one card."""
    sharded = layout.strategies.is_("backend", "fsdp") & (layout.strategies.zero_stage >= 2)
    return sharded & ~whole_in_16_bits(layout)


@once
def unit_bytes(layout: Layout) -> Held:
    """Bytes of a layer, embedding and head when gathered: of an element at least, or packed 4-bit ones."""
    each = np.maximum(layout.element_bytes, per_parameter(layout, "wire_gather_bytes"))
    found = Held.whole(layout.trained).scaled(each)
    for portion in layout.portions[1:]:
        each = portion_bytes(layout, portion, "wire_gather_bytes")
        found = found.beside(Held.whole(portion).scaled(each))
    return found


def _gather_terms(layout: Layout) -> list[Alive]:
    """FSDP2 units: the root and, without resharding, all layers; two layers in the backward.

    The root is gathered from the forward on and freed at the end of the backward; where embedding and head
    are units of their own (`keeps_root`), only the head is gathered, at the loss.
    """
    rows = _fsdp_rows(layout)
    if not rows.any():
        return [absent("gathered_units", _GATHER)]
    kept = rows & (layout.strategies.zero_stage == 2)
    weights = unit_bytes(layout)
    root = rows & keeps_root(layout)
    pair = np.where(rows & ~kept, 2.0, 0.0) * weights.layer.max(axis=1)
    whole = kib(
        layer=np.where(kept, 1.0, 0.0)[:, None] * weights.layer,
        first=np.where(root, weights.first, 0.0),
        last=np.where(root, weights.last, 0.0),
    )
    head = kib(last=np.where(rows & ~root, weights.last, 0.0))
    return [
        Alive(PASSES, Term("gathered_units", "stage", _GATHER, whole)),
        Alive(("forward",), Term("gathered_units", "stage", _GATHER, head)),
        Alive(("backward",), Term("gathered_units", "stage", _GATHER, kib(fixed=pair))),
    ]


def keeps_root(layout: Layout) -> Bools:
    """Rows whose embedding and head are one unit that stays gathered."""
    return stack_has(layout, "keeps_root", True)


def _unsharded_gradients(layout: Layout) -> list[Alive]:
    """Gradients of FSDP2 units before they are reduced.

    In the backward one layer's in 16 bits and as input of the reduction in its type, and the head's in
    16 bits; at the end of the backward both of the root. Over pipeline stages they are summed unsharded in
    the type of the reduction until the last micro-batch.
    """
    rows, trained = _fsdp_rows(layout), with_gradients(layout)
    if not rows.any():
        return [absent("unsharded_gradients", _UNSHARDED)]
    sums = rows & (layout.strategies.zero_stage == 2) & (layout.strategies.pipeline_parallel > 1)
    wire, element = per_parameter(layout, "wire_reduce_bytes"), layout.element_bytes
    both, head = np.where(rows, element + wire, 0.0), rows & keeps_root(layout)
    summed = kib(layer=np.where(sums, wire, 0.0)[:, None] * trained.layer)
    unit = kib(fixed=both * trained.layer.max(axis=1), last=np.where(head, element * trained.last, 0.0))
    root = kib(first=both * trained.first, last=np.where(head, both * trained.last, 0.0))
    return [
        Alive(PASSES, Term("unsharded_gradients", "stage", _UNSHARDED, summed)),
        Alive(("backward",), Term("unsharded_gradients", "stage", _UNSHARDED, unit)),
        Alive(("gradients",), Term("unsharded_gradients", "stage", _UNSHARDED, root)),
    ]


def _pool_terms(layout: Layout) -> list[Alive]:
    """Pools of the gather and reduce-scatter streams; the gradient shard lies in one of them.

    Where gradients are alive as such, they are counted with the states; where FSDP2 sends them to the host, a
    unit's shard is let go once it is copied.
    """
    s = layout.strategies
    pooled = _fsdp_rows(layout)
    if not pooled.any():
        return [absent("stream_pools", _POOLS)]
    rows = np.where(pooled, 1.0, 0.0)
    offloaded = s.is_("offload_optimizer", "cpu") & stack_has(layout, "keeps_offloaded_gradients", False)
    elsewhere = (s.gradient_accumulation_steps > 1) | offloaded
    each = Held.whole(with_gradients(layout)).scaled(4.0 * rows / layout.shard)
    shard = each.scaled(np.where(elsewhere, 0.0, 1.0))
    root = unit_bytes(layout).scaled(rows)
    both = kib(
        fixed=np.where(offloaded, each.layer.max(axis=1), 0.0),
        layer=shard.layer,
        first=shard.first + root.first,
        last=shard.last + root.last,
    )
    return [
        Alive(PASSES, Term("stream_pools", "stage", _POOLS, both)),
        Alive(AFTER, Term("stream_pools", "stage", _POOLS, kib(first=root.first, last=root.last))),
    ]


def _deepspeed_terms(layout: Layout) -> list[Alive]:
    s = layout.strategies
    rows = s.is_("backend", "deepspeed")
    if not rows.any():
        return [absent("buckets", _BUCKETS), absent("gathered_units", _ZERO3), absent("stream_pools", _KEPT)]
    bucketed = rows & ((s.zero_stage == 1) | (s.zero_stage == 2))
    alive = np.where(s.overlaps("gradient_reduce"), of_stacks("reduce_buckets")[s.software_stack], 1)
    size = bucket_bytes(bucket_elements(layout), alive)
    third = rows & (s.zero_stage == 3)
    live = 2.0 * np.minimum(law("live_parameters"), whole_rank(layout, layout.portions))
    gather, kept = np.where(third, live + _largest(layout), 0.0), np.where(third, live, 0.0)
    return [
        Alive(MOMENTS, Term("buckets", "stage", _BUCKETS, kib(fixed=np.where(bucketed, size, 0.0)))),
        Alive(PASSES, Term("gathered_units", "stage", _ZERO3, kib(fixed=gather))),
        Alive(PASSES, Term("stream_pools", "stage", _KEPT, kib(fixed=kept))),
    ]


def _largest(layout: Layout) -> Floats:
    """Bytes of the largest parameters gathered one by one, 2 each, and of their gradients where trained."""
    hidden = layout.transformer.hidden_size
    shares = trained_shares(layout.training, layout.transformer)
    vocabulary = layout.vocabulary * hidden
    linear = float(max(largest_linear(block, hidden) for block in layout.blocks))
    ends = vocabulary if max(shares.embedding, shares.head) else np.zeros(len(vocabulary))
    within = linear if max(shares.attention, shares.dense, shares.experts) else _largest_adapter(layout)
    return 2.0 * np.maximum(linear, vocabulary) + 2.0 * np.maximum(within, ends) + 2.0 * ends


def _largest_adapter(layout: Layout) -> float:
    """Elements of the largest adapter."""
    way, hidden = layout.training.way, layout.transformer.hidden_size
    found = [m for block in layout.blocks for m in adapted(block, hidden, layout.training.lora_targets)]
    return float(way.rank * max((max(m.inputs, m.outputs) for m in found), default=0))


def _dequantised(layout: Layout) -> list[Alive]:
    """The 16-bit copy of the 4-bit linear at work."""
    if layout.training.way.kind != "qlora":
        return []
    linear = max(largest_linear(block, layout.transformer.hidden_size) for block in layout.blocks)
    copy = kib(fixed=2.0 * linear / layout.tensor)
    return [Alive(PASSES, Term("dequantised_weights", "stage", _DEQUANTISED, copy))]


def buffer_terms(layout: Layout) -> list[Alive]:
    """Buffers of each stage."""
    return [
        *_gather_terms(layout),
        *_unsharded_gradients(layout),
        *replicated_terms(layout),
        *_pool_terms(layout),
        *_deepspeed_terms(layout),
        *_dequantised(layout),
    ]
