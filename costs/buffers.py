"""Temporary buffers: gathered units, stream pools, communication buckets."""

from __future__ import annotations

import numpy as np

from ..models.transformer import Block
from .columns import Bools, Floats
from .law import law
from .layout import Layout
from .states import kinds_total, rank_parameters
from .terms import Note, Term, kib

_GATHER = Note("gathered weights and unsharded gradients of FSDP units", "PyTorch FSDP notes; oracle", "D")
_POOLS = Note("4 N / d + 2 N_root, side-stream pools", "torchtitan reserved memory, 14 rows", "M")
_ZERO3 = Note(
    "2 x 2 bytes x min(max_live, N) + 4 max(N_linear, V h) + 2 V h",
    "DeepSpeed stage3.py; qwen_readme rows",
    "M",
)
_BUCKETS = Note("2 bytes x (reduce + all-gather bucket)", "DeepSpeed stage_1_and_2.py; bloom rows", "D")


def bucket_elements(layout: Layout) -> Floats:
    """Elements of one communication bucket of each row (`bucket_of`).

    The launch files carry this number, and the overlap terms move states at the rate of one bucket.
    """
    return bucket_of(layout.cluster.node.gpu.memory_usable_bytes, np.ceil(whole_rank(layout)))


def bucket_of(card_bytes: int, parameters: Floats) -> Floats:
    """Elements of a bucket: the default of the card's size, at most the rank's parameters."""
    small = card_bytes < law("small_card_bytes")
    return np.minimum(law("bucket_small_elements") if small else law("bucket_elements"), parameters)


def bucket_bytes(elements: Floats) -> Floats:
    """Bytes of the reduce and the all-gather bucket together, 2 bytes an element."""
    return 2.0 * 2.0 * elements


def whole_rank(layout: Layout) -> Floats:
    """Parameters of a rank as if it held every layer, embedding and head (one stage)."""
    stages = layout.strategies.pipeline_parallel
    return kinds_total(layout, rank_parameters(layout)) / stages + layout.embedding + layout.head


def buckets(layout: Layout, row: int) -> dict[str, int]:
    """Buffer sizes of one row in elements, as the launch files write them."""
    bucket = int(bucket_elements(layout)[row])
    whole = int(np.ceil(whole_rank(layout)[row]))
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


def _fsdp_rows(layout: Layout) -> Bools:
    return layout.strategies.is_("backend", "fsdp")


def _gather_terms(layout: Layout, moment: str) -> list[Term]:
    """FSDP2 units: root and, without resharding, all layers; two units and gradients in the backward.

    Over pipeline stages gradients are summed unsharded in fp32 until the last micro-batch.
    """
    rows = _fsdp_rows(layout)
    kept = rows & (layout.strategies.zero_stage == 2)
    layer = rank_parameters(layout)
    unit = layer.max(axis=1)
    root = {"gradients": 6.0, "step": 0.0}.get(moment, 2.0)
    sums = kept & (layout.strategies.pipeline_parallel > 1)
    keep = np.where(kept, 2.0, 0.0) + np.where(sums, 4.0, 0.0)
    keep = keep if moment in ("forward", "backward") else np.zeros(len(layer))
    fixed = np.where(kept, 6.0, 10.0) * unit if moment == "backward" else np.zeros(len(layer))
    return [
        Term(
            "gathered_units",
            "stage",
            _GATHER,
            kib(
                layer=keep[:, None] * layer,
                fixed=np.where(rows, fixed, 0.0),
                first=np.where(rows, root * layout.embedding, 0.0),
                last=np.where(rows, root * layout.head, 0.0),
            ),
        )
    ]


def _pool_terms(layout: Layout, moment: str) -> list[Term]:
    """Pools of the gather and reduce-scatter streams; the gradient shard lies in one of them.

    Where gradients are alive as such, they are counted with the states. Nothing is gathered on the
    card's own pools where parameters are offloaded.
    """
    s = layout.strategies
    rows = np.where(_fsdp_rows(layout) & ~s.is_("offload_params", "cpu"), 1.0, 0.0)
    counted = (s.gradient_accumulation_steps > 1) | (moment in ("gradients", "step"))
    shard = np.where(counted, 0.0, 4.0 * rows / layout.shard)
    unit = 2.0 * rows
    return [
        Term(
            "stream_pools",
            "stage",
            _POOLS,
            kib(
                layer=shard[:, None] * rank_parameters(layout),
                first=(shard + unit) * layout.embedding,
                last=(shard + unit) * layout.head,
            ),
        )
    ]


def _deepspeed_terms(layout: Layout, moment: str) -> list[Term]:
    s = layout.strategies
    rows = s.is_("backend", "deepspeed")
    bucketed = rows & ((s.zero_stage == 1) | (s.zero_stage == 2))
    size = bucket_bytes(bucket_elements(layout))
    terms = [Term("buckets", "stage", _BUCKETS, kib(fixed=np.where(bucketed, size, 0.0)))]
    if moment in ("forward", "backward"):
        third = rows & (s.zero_stage == 3)
        vocabulary = layout.vocabulary * layout.transformer.hidden_size
        linear = max(largest_linear(block, layout.transformer.hidden_size) for block in layout.blocks)
        live = np.minimum(law("live_parameters"), whole_rank(layout))
        gather = 2.0 * 2.0 * live + 4.0 * np.maximum(linear, vocabulary) + 2.0 * vocabulary
        terms.append(Term("gathered_units", "stage", _ZERO3, kib(fixed=np.where(third, gather, 0.0))))
    return terms


def buffer_terms(layout: Layout, moment: str) -> list[Term]:
    """Buffers alive at `moment` on each stage."""
    return [
        *_gather_terms(layout, moment),
        *_pool_terms(layout, moment),
        *_deepspeed_terms(layout, moment),
    ]
