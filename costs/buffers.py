"""Temporary buffers: gathered units, stream pools, communication buckets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..models.adapters import adapted
from ..models.shares import trained_shares
from ..models.stack import stack, stack_names
from ..models.transformer import Block
from .columns import Bools, Floats, Ints
from .held import Held
from .law import law
from .layout import Layout
from .once import once
from .portion import Portion
from .states import kinds_total, per_parameter, portion_bytes, whole_in_16_bits
from .terms import Note, Term, kib

_GATHER = Note(
    "2 N_root + 2 x 2 N_unit; 2 N without resharding", "PyTorch FSDP notes; FSDP memory oracle", "D"
)
_UNSHARDED = Note(
    "(2 + r) N_unit, or (2 + r) N_root at the end; r of the reduction", "FSDP memory oracle", "D"
)
_POOLS = Note("4 N / d + 2 N_root, side-stream pools", "torchtitan reserved memory, 14 rows", "M")
_DEQUANTISED = Note(
    "2 N of the largest 4-bit linear", "bitsandbytes Linear4bit: one 16-bit copy at a time", "D"
)
_ZERO3 = Note(
    "2 x 2 bytes x min(max_live, N) + 4 max(N_linear, V h) + 2 V h",
    "DeepSpeed stage3.py; qwen_readme rows",
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
    """Bytes of a layer, embedding and head when gathered: of an element, or packed 4-bit ones."""
    found = Held.whole(layout.trained).scaled(layout.element_bytes)
    for portion in layout.portions[1:]:
        each = portion_bytes(layout, portion, "wire_gather_bytes")
        found = found.beside(Held.whole(portion).scaled(np.minimum(each, 2.0)))
    return found


def _gather_terms(layout: Layout, moment: str) -> list[Term]:
    """FSDP2 units: the root and, without resharding, all layers; two layers in the backward.

    The root is gathered from the forward on and freed at the end of the backward; where embedding and head
    are units of their own (`keeps_root`), only the head is gathered, at the loss.
    """
    rows = _fsdp_rows(layout)
    kept = rows & (layout.strategies.zero_stage == 2)
    inside = moment in ("forward", "backward")
    weights = unit_bytes(layout)
    keep = np.where(kept & inside, 1.0, 0.0)
    pair = np.where(rows & ~kept, 2.0, 0.0) * weights.layer.max(axis=1)
    whole = keeps_root(layout)
    first = np.where(rows & inside & whole, weights.first, 0.0)
    last = np.where(rows & inside & (whole | (moment == "forward")), weights.last, 0.0)
    return [
        Term(
            "gathered_units",
            "stage",
            _GATHER,
            kib(
                layer=keep[:, None] * weights.layer,
                fixed=pair if moment == "backward" else np.zeros(len(pair)),
                first=first,
                last=last,
            ),
        ),
        _unsharded_gradients(layout, moment),
    ]


@once
def keeps_root(layout: Layout) -> Bools:
    """Rows whose embedding and head are one unit that stays gathered."""
    whole = np.array([stack(name).keeps_root for name in stack_names()])
    found: Bools = whole[layout.strategies.software_stack]
    return found


def _unsharded_gradients(layout: Layout, moment: str) -> Term:
    """Gradients of FSDP2 units before they are reduced.

    In the backward one layer's in 16 bits and as input of the reduction in its type, and the head's in
    16 bits; at the end of the backward both of the root. Over pipeline stages they are summed unsharded in
    the type of the reduction until the last micro-batch.
    """
    rows = _fsdp_rows(layout)
    sums = rows & (layout.strategies.zero_stage == 2) & (layout.strategies.pipeline_parallel > 1)
    trained = layout.trained
    layer = trained.layer
    wire = per_parameter(layout, "wire_reduce_bytes")
    both, none = layout.element_bytes + wire, np.zeros_like(wire)
    whole = np.where(sums & (moment in ("forward", "backward")), wire, 0.0)
    first = both if moment == "gradients" else none
    last = {"backward": layout.element_bytes, "gradients": both}.get(moment, none)
    unit = both * layer.max(axis=1) if moment == "backward" else none
    return Term(
        "unsharded_gradients",
        "stage",
        _UNSHARDED,
        kib(
            layer=whole[:, None] * layer,
            fixed=np.where(rows, unit, 0.0),
            first=np.where(rows, first * trained.first, 0.0),
            last=np.where(rows & keeps_root(layout), last * trained.last, 0.0),
        ),
    )


def _pool_terms(layout: Layout, moment: str) -> list[Term]:
    """Pools of the gather and reduce-scatter streams; the gradient shard lies in one of them.

    Where gradients are alive as such, they are counted with the states. Nothing is gathered on the
    card's own pools where parameters are offloaded.
    """
    s = layout.strategies
    rows = np.where(_fsdp_rows(layout) & ~s.away("offload_params"), 1.0, 0.0)
    counted = (s.gradient_accumulation_steps > 1) | (moment in ("gradients", "step"))
    shard = Held.whole(layout.trained).scaled(np.where(counted, 0.0, 4.0 * rows / layout.shard))
    root = unit_bytes(layout).scaled(rows)
    pieces = kib(layer=shard.layer, first=shard.first + root.first, last=shard.last + root.last)
    return [Term("stream_pools", "stage", _POOLS, pieces)]


def _deepspeed_terms(layout: Layout, moment: str) -> list[Term]:
    s = layout.strategies
    rows = s.is_("backend", "deepspeed")
    bucketed = rows & ((s.zero_stage == 1) | (s.zero_stage == 2))
    several = np.array([stack(name).reduce_buckets for name in stack_names()])[s.software_stack]
    alive = np.where(s.overlaps("gradient_reduce"), several, 1)
    size = bucket_bytes(bucket_elements(layout), alive)
    terms = [Term("buckets", "stage", _BUCKETS, kib(fixed=np.where(bucketed, size, 0.0)))]
    if moment in ("forward", "backward"):
        third = rows & (s.zero_stage == 3)
        live = np.minimum(law("live_parameters"), whole_rank(layout, layout.portions))
        gather = 2.0 * 2.0 * live + _largest(layout)
        terms.append(Term("gathered_units", "stage", _ZERO3, kib(fixed=np.where(third, gather, 0.0))))
    return terms


@once
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


def _dequantised(layout: Layout, moment: str) -> list[Term]:
    """The 16-bit copy of the 4-bit linear at work."""
    if layout.training.way.kind != "qlora" or moment not in ("forward", "backward"):
        return []
    linear = max(largest_linear(block, layout.transformer.hidden_size) for block in layout.blocks)
    return [Term("dequantised_weights", "stage", _DEQUANTISED, kib(fixed=2.0 * linear / layout.tensor))]


def buffer_terms(layout: Layout, moment: str) -> list[Term]:
    """Buffers alive at `moment` on each stage."""
    return [
        *_gather_terms(layout, moment),
        *_pool_terms(layout, moment),
        *_deepspeed_terms(layout, moment),
        *_dequantised(layout, moment),
    ]
