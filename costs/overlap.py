"""Who hides behind whom: exposed seconds of communication beside compute."""

from __future__ import annotations

import numpy as np

from ..hardware.collective import Kind
from ..models.overlap import user_buffered
from .activations import again
from .buffers import bucket_elements
from .collectives import bucketed, point_to_point, seconds
from .columns import Bools, Floats
from .dispatch import exchange_seconds, gather_seconds, hidden_bytes, slower_away
from .experts import has_experts
from .held import Held
from .kernels import LayerSeconds
from .law import law
from .layout import Group, Layout
from .once import once
from .schedule import pairs_passes
from .stacks import exposed, stack_constant, stack_has
from .states import has_secondary
from .terms import Note, Term, ns
from .traffic import (
    boundary_bytes,
    copied_bytes,
    gathered,
    layer_gather_bytes,
    passes,
    reduced,
    tensor_pairs,
    wires,
)

_TENSOR = Note(
    "X (pairs (AG + RS) fwd and bwd), half again under full recompute; X of runs with or without overlap",
    "measured curves",
    "M",
    "s",
)
_EXPERT = Note(
    "E x 4 all-to-all, or what shows beside compute; + 2 (AG + RS) where an expert is cut",
    "regression on MoE rows",
    "M",
    "s",
)
_PAIRED = Note(
    "max(compute + s min(comm, compute), comm) - compute under DualPipe",
    "arXiv 2412.19437 section 3.2.1; untested by any run",
    "D",
    "s",
)
_PIPE = Note("2 sends a chunk, the share that shows", "Megatron-LM p2p_communication.py", "M", "s")
_COPY = Note(
    "all-reduce of b_g V h / t over two stages, once a step",
    "Megatron Core, finalize_model_grads.py: _allreduce_word_embedding_grads",
    "D",
    "s",
)
_SHARDED = Note(
    "max(compute + s min(comm, compute), comm) - compute; comm without overlap", "FSDP prefetch", "M", "s"
)
_FIRST = Note(
    "exposed gather over all ranks - inside the secondary group, first forward of a step",
    "ZeRO++, arXiv 2306.10209; DeepSpeed stage3.py drops the copy at the step",
    "D",
    "s",
)
_ONCE = Note(
    "max(Dx reduce, reduce - backward) + max(Dx gather, gather - forward), at the rate of a bucket; Dx of "
    "runs with or without overlap",
    "regression of 2026-11",
    "M",
    "s",
)
_REPLICA = Note("max(0.1 AR, AR - 0.8 backward)", "ibm_fsdp-009, -010", "M", "s")


def beside(compute: Floats, comm: Floats) -> Floats:
    """Exposed seconds of `comm` that runs beside `compute`: it slows compute, or outlasts it."""
    slowed = compute + law("overlap_slowdown") * np.minimum(comm, compute)
    return np.maximum(slowed, comm) - compute


def shown(compute: Floats, comm: Floats, hidden: Bools) -> Floats:
    """Exposed seconds of `comm` in rows that run it beside `compute`, and all of it in others."""
    found: Floats = np.where(hidden[:, None], beside(compute, comm), comm)
    return found


def _kinds(columns: list[Floats]) -> Floats:
    return np.stack(columns, axis=1)


def tensor_term(layout: Layout) -> Term:
    """Tensor-parallel collectives of a layer, of the embedding (first) and of the head (last)."""
    group, states = layout.tensor_group, hidden_bytes(layout)
    scatter, whole = (seconds(layout, kind, states, group) for kind in ("reduce_scatter", "all_reduce"))
    share = _tensor_share(layout) * slower_away(layout, group)
    split = layout.strategies.sequence_parallel > 0
    narrow = seconds(layout, "all_gather", layer_gather_bytes(layout), group)
    inner, end = (
        share * np.where(split, gather + scatter, whole) for gather in (narrow, _hidden_gather(layout))
    )
    layer = _kinds([2.0 * tensor_pairs(layout, block) * inner for block in layout.blocks])
    part = again(layout, "tensor")[:, None] * layer / 2.0
    whole_again = layer / 2.0 * layout.run_again
    pieces = ns(layer=layer, full=whole_again, selective=part, first=end, last=end)
    return Term("tensor_comm", "chunk", _TENSOR, pieces)


def _tensor_share(layout: Layout) -> Floats:
    """Share that shows of what tensor ranks send; the stack's own where nothing tells of both ways."""
    if not user_buffered(layout.transformer):
        return stack_constant(layout, "tensor_exposed")
    hidden, whole = exposed(layout, "tensor")
    return np.where(layout.strategies.overlaps("tensor_parallel"), hidden, whole)


@once
def _hidden_gather(layout: Layout) -> Floats:
    """Seconds in which a tensor group gathers the hidden states of a micro-batch."""
    return seconds(layout, "all_gather", hidden_bytes(layout), layout.tensor_group)


def expert_term(layout: Layout, work: LayerSeconds) -> Term:
    """Dispatch and combine, forward and backward.

    Beside the compute of another micro-batch what slows or outlasts it shows, else the law's share of it.
    What the ranks of an expert's cut gather shows whole: it stands between exchange and products.
    """
    if not has_experts(layout):
        return Term("expert_comm", "chunk", _EXPERT, {})
    layer = _exchange_shown(layout, work)
    part = again(layout, "expert")[:, None] * layer / 2.0
    pieces = ns(layer=layer, full=layer / 2.0 * layout.run_again, selective=part)
    return Term("expert_comm", "chunk", _EXPERT, pieces)


def _exchange_shown(layout: Layout, work: LayerSeconds) -> Floats:
    """Seconds that show of a layer's exchange and gathers of tokens, forward and backward."""
    whole = exchange_seconds(layout)
    hidden = stack_has(layout, "exchange_overlapped", True)[:, None]
    beside_work = beside(work.forward + work.backward, whole)
    shown: Floats = np.where(hidden, beside_work, law("expert_exposed") * whole) + gather_seconds(layout)
    return shown


def paired_term(layout: Layout, work: LayerSeconds) -> Term:
    """What a schedule that runs a forward beside a backward hides more of the exchange of tokens.

    Each of the two talks while the other computes: all of the exchange beside all of a layer's work shows as
    any communication beside compute does.
    """
    paired = pairs_passes(layout.strategies)
    if not (paired.any() and has_experts(layout)):
        return Term("expert_comm", "chunk", _PAIRED, {})
    usual = _exchange_shown(layout, work)
    shown = beside(work.forward + work.backward, exchange_seconds(layout)) + gather_seconds(layout)
    hidden = np.where(paired[:, None], np.minimum(shown - usual, 0.0), 0.0)
    return Term("expert_comm", "chunk", _PAIRED, ns(layer=hidden))


def pipeline_term(layout: Layout) -> Term:
    """Activations and their gradients over a boundary, each chunk.

    Each rank of a tensor group hands its share on; without sequence parallel the next stage gathers it.
    A stack may send beside its work.
    """
    s = layout.strategies
    if not (s.pipeline_parallel > 1).any():
        return Term("pipeline_comm", "chunk", _PIPE, {})
    one = point_to_point(layout, boundary_bytes(layout), layout.pipe_group)
    split = (s.sequence_parallel > 0) | (s.pipeline_parallel == 1)
    one = one + np.where(split, 0.0, _hidden_gather(layout))
    pieces = ns(fixed=2.0 * stack_constant(layout, "pipeline_exposed") * one)
    return Term("pipeline_comm", "chunk", _PIPE, pieces)


def embedding_copy_terms(layout: Layout) -> list[Term]:
    """Gradients of the embedding summed over first and last stage, where a predictor reads it on the last.

    It stands after all other reductions of a step, so it shows whole.
    """
    if not layout.embedding_copy.any():
        return []
    one = seconds(layout, "all_reduce", copied_bytes(layout), layout.pipe_group)
    one = np.where(layout.embedding_copy > 0, one, 0.0)
    return [Term("pipeline_comm", "stage", _COPY, ns(first=one, last=one))]


def _seconds_of(layout: Layout, kind: Kind, held: Held) -> Held:
    """Seconds to gather or reduce a layer, the embedding and the head, each one collective."""
    kinds, whole = held.layer.shape[1], np.column_stack([held.dense, held.first, held.last])
    dense, expert = _over(layout, kind, whole, layout.shard_group), held.expert
    if expert.any():
        expert = _over(layout, kind, expert, layout.expert_state_group)
    return Held(dense[:, :kinds] + expert, expert, dense[:, kinds], dense[:, kinds + 1])


def _over(layout: Layout, kind: Kind, payload: Floats, group: Group) -> Floats:
    """Seconds of collectives of states over a group, slower where it leaves the island."""
    return seconds(layout, kind, payload, group) * slower_away(layout, group)[:, None]


@once
def state_seconds(layout: Layout) -> tuple[Held, Held]:
    """Seconds to gather and to reduce the states of a layer, the embedding and the head over their group."""
    return (
        _seconds_of(layout, "all_gather", gathered(layout)),
        _seconds_of(layout, "reduce_scatter", reduced(layout)),
    )


@once
def kept_seconds(layout: Layout) -> tuple[Held, Held]:
    """`state_seconds` of a usual micro-batch: a second copy of the weights is gathered in its small group."""
    (whole, reduce), second = state_seconds(layout), has_secondary(layout)
    if not second.any():
        return whole, reduce
    weights = gathered(layout)
    payload = np.column_stack([weights.layer, weights.first, weights.last])
    own = _over(layout, "all_gather", payload, layout.secondary_group)
    kinds, wide = weights.layer.shape[1], second[:, None]
    kept = Held(
        np.where(wide, own[:, :kinds], whole.layer),
        np.where(wide, 0.0, whole.expert),
        np.where(second, own[:, kinds], whole.first),
        np.where(second, own[:, kinds + 1], whole.last),
    )
    return kept, reduce


def sharded_term(layout: Layout, work: LayerSeconds) -> Term:
    """Gathers and reductions of every micro-batch beside a layer's forward and backward.

    What is not run beside them shows whole; of embedding and head half shows that is.
    """
    (gathered_in, reduced_in), s = kept_seconds(layout), layout.strategies
    gathers, reduces = s.overlaps_zero3_gather, s.overlaps("gradient_reduce")
    gather, reduce, _, _ = passes(layout)
    forward = gathered_in.layer * np.minimum(gather, 1.0)[:, None]
    again = gathered_in.layer * np.maximum(gather - 1.0, 0.0)[:, None]
    reduction = reduced_in.layer * reduce[:, None]
    hidden: Floats = np.where(gathers[:, None], again, 0.0) + np.where(reduces[:, None], reduction, 0.0)
    bare = again + reduction - hidden

    def showing(repeated: Floats) -> Floats:
        return shown(work.forward, forward, gathers) + beside(work.backward + repeated, hidden) + bare

    plain = showing(np.zeros_like(work.forward))
    root = np.where(gathers, 0.5, 1.0) * np.minimum(gather, 1.0)
    roots = np.where(reduces, 0.5, 1.0) * reduce
    return Term(
        "data_comm_exposed",
        "chunk",
        _SHARDED,
        ns(
            layer=plain,
            full=showing(work.full) - plain,
            selective=showing(work.selective) - plain,
            first=root * gathered_in.first + roots * reduced_in.first,
            last=root * gathered_in.last + roots * reduced_in.last,
        ),
    )


def first_gather_term(layout: Layout, work: LayerSeconds) -> Term:
    """What the first forward of a step shows more: it gathers over all ranks and makes the second copy."""
    if not has_secondary(layout).any():
        return Term("data_comm_exposed", "stage", _FIRST, {})
    whole, kept = state_seconds(layout)[0], kept_seconds(layout)[0]
    hidden = layout.strategies.overlaps_zero3_gather
    layer = shown(work.forward, whole.layer, hidden) - shown(work.forward, kept.layer, hidden)
    root = np.where(hidden, 0.5, 1.0)
    return Term(
        "data_comm_exposed",
        "stage",
        _FIRST,
        ns(
            layer=np.maximum(layer, 0.0),
            first=root * np.maximum(whole.first - kept.first, 0.0),
            last=root * np.maximum(whole.last - kept.last, 0.0),
        ),
    )


def first_gather_raw_term(layout: Layout) -> Term:
    """How much longer the first gathers of a step take than those of the second copy, hidden or not."""
    if not has_secondary(layout).any():
        return Term("data_comm", "stage", _FIRST, {})
    longer = state_seconds(layout)[0].layer - kept_seconds(layout)[0].layer
    return Term("data_comm", "stage", _FIRST, ns(layer=np.maximum(longer, 0.0)))


def sharded_raw_term(layout: Layout) -> Term:
    """The whole time of a layer's gathers and reductions of a micro-batch, hidden or not."""
    gathers, reductions = kept_seconds(layout)
    gather, reduce, _, _ = passes(layout)
    whole = gathers.layer * gather[:, None] + reductions.layer * reduce[:, None]
    return Term("data_comm", "chunk", _SHARDED, ns(layer=whole))


def step_raw_term(layout: Layout) -> Term:
    """The whole time of the reductions and gathers done once a step, hidden or not."""
    gather, reduce = once_seconds(layout)
    nothing = np.zeros(len(layout.strategies), dtype=np.bool_)
    gather_share, reduce_share = once_shares(layout, nothing, nothing)
    both = gather.scaled(gather_share).beside(reduce.scaled(reduce_share))
    return Term("data_comm", "stage", _ONCE, ns(layer=both.layer, first=both.first, last=both.last))


def once_shares(layout: Layout, gathers: Bools, reduces: Bools) -> tuple[Floats, Floats]:
    """Shares that show of what is gathered and reduced once a step, run beside compute or not.

    A backend may say what shows of gathers with nothing beside them (`Overlap.gather_exposed`). Without ZeRO
    a gather is the second half of the gradients' all-reduce.
    """
    s, (hidden, whole) = layout.strategies, exposed(layout, "data")
    said = s.gather_exposed
    gather_whole = np.where(np.isnan(said), whole, said)
    gather_share = np.where(np.where(s.zero_stage == 0, reduces, gathers), hidden, gather_whole)
    return gather_share, np.where(reduces, hidden, whole)


def step_term(layout: Layout, work: LayerSeconds) -> Term:
    """Reductions and gathers done once a step, in buckets: what shows of them.

    The stack's share of each shows at least, and what the layer's own backward (reductions) or forward
    (gathers) of one micro-batch is too short to hide.
    """
    gather, reduce = once_seconds(layout)
    switches = (layout.strategies.overlaps(switch) for switch in ("parameter_gather", "gradient_reduce"))
    gather_share, reduce_share = once_shares(layout, *switches)
    least_gather, least_reduce = gather.scaled(gather_share), reduce.scaled(reduce_share)
    least = least_gather.beside(least_reduce)
    layer = np.maximum(least_gather.layer, gather.layer - work.forward)
    layer = layer + np.maximum(least_reduce.layer, reduce.layer - work.backward)
    return Term("data_comm_exposed", "stage", _ONCE, ns(layer=layer, first=least.first, last=least.last))


@once
def once_seconds(layout: Layout) -> tuple[Held, Held]:
    """Seconds of what is gathered, and of what is reduced, once a step.

    At the rate of a bucket; experts go over the ranks that hold the same ones.
    """
    _, _, gather_once, reduce_once = passes(layout)
    gather, reduce = expert_gather, expert_reduce = bucket_rates(layout, layout.shard_group)
    if has_experts(layout):
        expert_gather, expert_reduce = bucket_rates(layout, layout.expert_state_group)
    return (
        _timed(gathered(layout), gather * gather_once, expert_gather * gather_once),
        _timed(reduced(layout), reduce * reduce_once, expert_reduce * reduce_once),
    )


def _timed(held: Held, dense: Floats, expert: Floats) -> Held:
    """Bytes as seconds, at `dense` and `expert` seconds a byte."""
    routed = held.expert * expert[:, None]
    layer = held.dense * dense[:, None] + routed
    return Held(layer, routed, held.first * dense, held.last * dense)


def bucket_rates(layout: Layout, group: Group) -> tuple[Floats, Floats]:
    """Seconds a byte of a gather and of a reduction over `group`, at the size of one bucket."""
    weight, gradient = wires(layout)
    bucket = bucket_elements(layout)
    one = np.ones_like(weight)
    gather = bucketed(layout, "all_gather", one, bucket * weight, group)
    return gather, bucketed(layout, "reduce_scatter", one, bucket * gradient, group)


def replica_term(layout: Layout, work: LayerSeconds) -> Term:
    """HSDP's all-reduce of the gradient shard over replicas, once a step, beside the backward."""
    group = layout.replica_group
    if not (group.size > 1).any():
        return Term("data_comm_exposed", "stage", _REPLICA, {})
    gradients = reduced(layout)
    whole = np.column_stack([gradients.layer, gradients.first, gradients.last])
    each = seconds(layout, "all_reduce", whole / layout.shard[:, None], group)
    layer, least = each[:, :-2], law("replica_exposed")
    shown = np.maximum(least * layer, layer - law("replica_hidden_backward") * work.backward)
    pieces = ns(layer=shown, first=each[:, -2], last=each[:, -1])
    return Term("data_comm_exposed", "stage", _REPLICA, pieces)
