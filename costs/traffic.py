"""Bytes that cross links, by axis: the payloads that both the report and the seconds read."""

from __future__ import annotations

import numpy as np

from ..models.shares import trained_shares
from ..models.strategy import ELEMENT_BYTES, PRECISIONS
from ..models.transformer import Block
from .columns import Floats
from .context import ACTIVATION_BYTES, context_traffic
from .crossings import gathered, passes, reduced, wires
from .dispatch import exchange_group, exchanged_bytes, hidden_bytes
from .experts import folded
from .group import Group
from .layout import Layout
from .once import once
from .run_again import exchange_again, pairs_again
from .schedule import placed
from .sharding import has_secondary
from .terms import Note, Term, ceil

_TENSOR = Note(
    "16 T h (t-1)/t a layer: 4 all-reduces; 4 T h (t-1)/t each of embedding and head; sequence-parallel "
    "gathers of a layer in the width of its operands",
    "arXiv 1909.08053; 2205.05198; Transformer Engine, module/base.py; torchao, float8_tensor_parallel.py",
    "P",
)
_MODULE_PAIRS = 3.0
_COPY = Note(
    "2 b_g V h / t (2-1)/2 once a step: gradients of the embedding on the first and on the last stage",
    "Megatron Core, finalize_model_grads.py: _allreduce_word_embedding_grads; DeepSpeed, pipe/engine.py: "
    "_exec_reduce_tied_grads",
    "D",
)
_PIPE = Note("2 x 2 T h / t a boundary", "arXiv 2104.04473 section 4.1", "P")
_EXPERT = Note(
    "4 x 2 T k h / t (e-1)/e a layer; between islands once an island",
    "Megatron Core, moe/token_dispatcher.py",
    "D",
)
_EXPERT_CUT = Note(
    "4 x 2 T k h / t (e_t-1) a layer: copies gathered, sums scattered, both passes",
    "Megatron Core, moe/token_dispatcher.py",
    "D",
)
_REPLICA = Note("2 b_g N / d (r-1)/r once a step", "arXiv 2304.11277 section 3.2.2", "P")
_DATA = Note(
    "(b_g + b_w) N (n-1)/n once, or every micro-batch where sharded: weights twice, embedding and head once; "
    "2 b_g for b_g of a stack that sums gradients whole at that stage",
    "ZeRO paper section 7; DeepSpeed 0.5.10, engine.py and stage_1_and_2.py: reduce_ipg_grads, 0.12.4: "
    "allreduce_and_scatter",
    "P",
)


_SECONDARY = Note(
    "b_w N (g-1)/g, two gathers a micro-batch (embedding and head one) but the first of a step",
    "ZeRO++, arXiv 2306.10209 section 3.2; DeepSpeed stage3.py drops the copy at the step",
    "D",
)


def tensor_pairs(layout: Layout, block: Block) -> Floats:
    """All-gather + reduce-scatter pairs of a layer's forward: attention and feed-forward.

    Routed experts need none where each rank routes its own tokens: in a grid of their own, or not cut. A
    module that predicts a further token has three more: two where both hidden states are gathered for its
    projection and the result after it, one of embedding and head together.
    """
    forward, beside = block.feed_forward, _MODULE_PAIRS if block.joins else 0.0
    own = (forward.experts > 0) & (folded(layout) | (layout.strategies.expert_tensor_parallel == 1))
    return np.where(own, 2.0 if forward.shared_width else 1.0, 2.0) + beside


def layer_gather_bytes(layout: Layout) -> Floats:
    """Hidden states as the tensor ranks of a layer gather them before its products.

    Ranks of sequence parallel quantise their share first: 8- and 4-bit operands travel in their own width,
    in the backward the output's gradient too. Sums are scattered in 16 bits.
    """
    width = np.array([min(ELEMENT_BYTES[word], ACTIVATION_BYTES) for word in PRECISIONS])
    split = layout.strategies.sequence_parallel > 0
    each = np.where(split, width[layout.strategies.precision], ACTIVATION_BYTES)
    found: Floats = each / ACTIVATION_BYTES * hidden_bytes(layout)
    return found


def boundary_bytes(layout: Layout) -> Floats:
    """Activations of one rank over a boundary between stages: each rank of a tensor group sends its share.

    Split by sequence parallel, by Megatron-LM's scatter and gather (arXiv 2104.04473 section 4.1), or by
    DeepSpeed's ``pipe_partitioned``.
    """
    return hidden_bytes(layout) / layout.tensor


@once
def traffic_terms(layout: Layout) -> dict[str, tuple[list[Term], Group]]:
    """Bytes a card sends, by axis: terms per chunk and micro-batch or per step, and the group."""
    s = layout.strategies
    tensor = layout.tensor_group
    states = hidden_bytes(layout)
    each = [tensor_pairs(layout, block) for block in layout.blocks]
    pairs = np.stack(each, axis=1)
    again = np.stack([pairs_again(layout, *pair) for pair in zip(layout.blocks, each, strict=True)], axis=1)
    per_pass = 2.0 * states * tensor.ring_share
    in_layer = (states + layer_gather_bytes(layout)) * tensor.ring_share
    tensor_layer = 2.0 * pairs * in_layer[:, None]
    repeated = exchange_again(layout)[:, None]
    to_experts, among_cut = exchanged_bytes(layout)
    piped = np.where(s.pipeline_parallel > 1, 2.0 * boundary_bytes(layout), 0.0)
    return {
        "tensor": (
            [
                _bytes(
                    "tensor",
                    "chunk",
                    _TENSOR,
                    layer=tensor_layer,
                    full=tensor_layer / 2 * layout.run_again,
                    selective=again * in_layer[:, None],
                    first=per_pass,
                    last=per_pass,
                )
            ],
            tensor,
        ),
        **context_traffic(layout),
        "expert": ([_routed(layout, "expert", _EXPERT, to_experts, repeated)], exchange_group(layout)),
        "expert_tensor": (
            [_routed(layout, "expert_tensor", _EXPERT_CUT, among_cut, repeated)],
            layout.expert_tensor_group,
        ),
        "pipeline": (
            [_bytes("pipeline", "chunk", _PIPE, fixed=piped), *_copy_terms(layout)],
            layout.pipe_group,
        ),
        "data": (_data_terms(layout), layout.shard_group),
        "secondary": (_secondary_terms(layout), layout.secondary_group),
        "replica": ([_replica_term(layout)], layout.replica_group),
    }


def _routed(layout: Layout, name: str, note: Note, layer: Floats, repeated: Floats) -> Term:
    """Bytes of a layer's exchange with its experts, half of them in the forward that recompute repeats."""
    again_whole, again_part = layer / 2 * layout.run_again, repeated * layer / 2
    return _bytes(name, "chunk", note, layer=layer, full=again_whole, selective=again_part)


def copied_bytes(layout: Layout) -> Floats:
    """Bytes of the gradient of token vectors that first and last stage hold: a tied head's, or a predictor's.

    Where the last chunk lies on the first stage there is one copy.
    """
    apart = (layout.strategies.pipeline_parallel > 1) & ~placed(layout.strategies, "vee")
    tied = layout.transformer.tied_embeddings and layout.transformer.head
    head = layout.head - layout.counted.final_norm if tied else 0.0
    share = trained_shares(layout.training, layout.transformer).embedding
    return np.where(apart, share * (layout.embedding_copy + head) * wires(layout)[1], 0.0)


def _copy_terms(layout: Layout) -> list[Term]:
    sent = copied_bytes(layout)
    return [_bytes("pipeline", "stage", _COPY, first=sent, last=sent)] if sent.any() else []


def _replica_term(layout: Layout) -> Term:
    """HSDP's all-reduce of a shard's gradients over replicas, once a step: (r-1)/r there and back."""
    each = 2.0 * layout.replica_group.ring_share / layout.shard
    moved = reduced(layout).scaled(each)
    return _bytes("replica", "stage", _REPLICA, layer=moved.layer, first=moved.first, last=moved.last)


def _data_terms(layout: Layout) -> list[Term]:
    dense, expert = layout.shard_group.ring_share, layout.expert_state_group.ring_share
    gather, reduce, gather_once, reduce_once = passes(layout)
    second = has_secondary(layout)
    gather, gather_once = np.where(second, 0.0, gather), np.where(second, 1.0, gather_once)
    weights, gradients = gathered(layout), reduced(layout)

    def sent(gathers: Floats, reduces: Floats, of_ends: Floats) -> dict[str, Floats]:
        """Bytes of a layer, and of embedding and head, which are gathered `of_ends` times."""
        moved = weights.scaled(gathers).beside(gradients.scaled(reduces))
        ends = weights.scaled(of_ends * dense).beside(gradients.scaled(reduces * dense))
        layer = moved.dense * dense[:, None] + moved.expert * expert[:, None]
        return {"layer": layer, "first": ends.first, "last": ends.last}

    return [
        _bytes("data", "chunk", _DATA, **sent(gather, reduce, np.minimum(gather, 1.0))),
        _bytes("data", "stage", _DATA, **sent(gather_once, reduce_once, gather_once)),
    ]


def _secondary_terms(layout: Layout) -> list[Term]:
    """Gathers inside the group of the second copy; the first of a step goes over all ranks."""
    second = has_secondary(layout)
    if not second.any():
        return []
    moved = gathered(layout).scaled(np.where(second, layout.secondary_group.ring_share, 0.0))
    layer, ends = passes(layout)[0], np.minimum(passes(layout)[0], 1.0)
    return [
        _bytes(
            "secondary",
            "chunk",
            _SECONDARY,
            layer=layer[:, None] * moved.layer,
            first=ends * moved.first,
            last=ends * moved.last,
        ),
        _bytes("secondary", "stage", _SECONDARY, layer=-moved.layer, first=-moved.first, last=-moved.last),
    ]


def _bytes(name: str, per: str, note: Note, **pieces: Floats) -> Term:
    assert per in ("chunk", "stage")
    return Term(name, "chunk" if per == "chunk" else "stage", note, {k: ceil(v) for k, v in pieces.items()})
