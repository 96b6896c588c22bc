"""Who hides behind whom: exposed seconds of communication beside compute."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..hardware.collective import Kind
from ..inputs.record import dataclass
from .activations import again
from .buffers import bucket_elements
from .collectives import bucketed, point_to_point, seconds
from .columns import Bools, Floats
from .held import Held
from .kernels import LayerSeconds
from .law import law
from .layout import Group, Layout
from .once import once
from .schedule import pairs_passes
from .stacks import exposed_once, stack_constant, stack_has
from .states import has_secondary
from .terms import Note, Term, ns
from .traffic import (
    boundary_bytes,
    dispatched_bytes,
    gathered,
    hidden_bytes,
    passes,
    reduced,
    tensor_pairs,
    wires,
)

_TENSOR = Note(
    "X (pairs (AG + RS) fwd and bwd), half again under full recompute", "measured curves", "M", "s"
)
_EXPERT = Note("E x 4 all-to-all, or what shows beside compute", "regression on MoE rows", "M", "s")
_PAIRED = Note(
    "max(compute + s min(comm, compute), comm) - compute under DualPipe",
    "arXiv 2412.19437 section 3.2.1; untested by any run",
    "D",
    "s",
)
_PIPE = Note("2 sends a chunk, the share that shows", "Megatron-LM p2p_communication.py", "M", "s")
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


def slower_away(layout: Layout, group: Group) -> Floats:
    """Time of a layer's collectives between islands over that at the full rate of the network cards."""
    away = group.size > group.per_island
    return np.where(away, 1.0 / stack_constant(layout, "gather_share"), 1.0)


def tensor_term(layout: Layout) -> Term:
    """Tensor-parallel collectives of a layer, of the embedding (first) and of the head (last)."""
    group, states = layout.tensor_group, hidden_bytes(layout)
    pair = seconds(layout, "all_gather", states, group) + seconds(layout, "reduce_scatter", states, group)
    whole = seconds(layout, "all_reduce", states, group)
    one = np.where(layout.strategies.sequence_parallel > 0, pair, whole)
    one = one * stack_constant(layout, "tensor_exposed") * slower_away(layout, group)
    layer = _kinds([2.0 * tensor_pairs(layout, block) * one for block in layout.blocks])
    part = again(layout, "tensor")[:, None] * layer / 2.0
    pieces = ns(layer=layer, full=layer / 2.0, selective=part, first=one, last=one)
    return Term("tensor_comm", "chunk", _TENSOR, pieces)


@once
def exchange_seconds(layout: Layout) -> Floats:
    """Dispatch and combine of a layer, both passes, (n, kinds): the slower between and inside islands."""
    group = layout.expert_group
    inner = Group(np.minimum(group.size, group.per_island), group.per_island, np.zeros_like(group.level))
    columns = []
    for block in layout.blocks:
        copies = seconds(layout, "all_to_all", dispatched_bytes(layout, block, group.size), inner)
        away = seconds(layout, "all_to_all", dispatched_bytes(layout, block, group.islands), group)
        columns.append(np.where(group.islands > 1, np.maximum(copies, away), copies))
    return 4.0 * _kinds(columns)


def expert_term(layout: Layout, work: LayerSeconds) -> Term:
    """Dispatch and combine, forward and backward.

    Beside the compute of another micro-batch what slows or outlasts it shows, else the law's share of it.
    """
    whole = exchange_seconds(layout)
    hidden = stack_has(layout, "exchange_overlapped", True)[:, None]
    beside_work = beside(work.forward + work.backward, whole)
    layer = np.where(hidden, beside_work, law("expert_exposed") * whole)
    part = again(layout, "expert")[:, None] * layer / 2.0
    return Term("expert_comm", "chunk", _EXPERT, ns(layer=layer, full=layer / 2.0, selective=part))


def paired_term(layout: Layout, work: LayerSeconds) -> Term:
    """What a schedule that runs a forward beside a backward hides more of the exchange of tokens.

    Each of the two talks while the other computes: all of the exchange beside all of a layer's work shows as
    any communication beside compute does.
    """
    paired = pairs_passes(layout.strategies)
    if not paired.any():
        return Term("expert_comm", "chunk", _PAIRED, {})
    usual = expert_term(layout, work).coefficients["layer"] / 1e9
    shown = beside(work.forward + work.backward, exchange_seconds(layout))
    hidden = np.where(paired[:, None], np.minimum(shown - usual, 0.0), 0.0)
    return Term("expert_comm", "chunk", _PAIRED, ns(layer=hidden))


def pipeline_term(layout: Layout) -> Term:
    """Activations and their gradients over a boundary, each chunk.

    Each rank of a tensor group hands its share on; without sequence parallel the next stage gathers it.
    A stack may send beside its work.
    """
    one = point_to_point(layout, boundary_bytes(layout), layout.pipe_group)
    whole = seconds(layout, "all_gather", hidden_bytes(layout), layout.tensor_group)
    split = (layout.strategies.sequence_parallel > 0) | (layout.strategies.pipeline_parallel == 1)
    one = one + np.where(split, 0.0, whole)
    return Term(
        "pipeline_comm", "chunk", _PIPE, ns(fixed=2.0 * stack_constant(layout, "pipeline_exposed") * one)
    )


@dataclass(frozen=True)
class StateSeconds:
    """Seconds to gather or reduce a layer (n, kinds) and the embedding and head (n,) over the shard group."""

    gather: Floats
    reduce: Floats
    gather_first: Floats
    gather_last: Floats
    reduce_first: Floats
    reduce_last: Floats

    @classmethod
    def of(cls, layout: Layout) -> StateSeconds:
        """A layer, the embedding and the head are each one collective."""
        weights, gradients = gathered(layout), reduced(layout)
        dense, expert = layout.shard_group, layout.expert_state_group

        def layer(kind: Kind, held: Held) -> Floats:
            return _over(layout, kind, held.dense, dense) + _over(layout, kind, held.expert, expert)

        return cls(
            layer("all_gather", weights),
            layer("reduce_scatter", gradients),
            _over(layout, "all_gather", weights.first, dense),
            _over(layout, "all_gather", weights.last, dense),
            _over(layout, "reduce_scatter", gradients.first, dense),
            _over(layout, "reduce_scatter", gradients.last, dense),
        )


def _over(layout: Layout, kind: Kind, payload: Floats, group: Group) -> Floats:
    """Seconds of a collective of states over a group, slower where it leaves the island."""
    slower = slower_away(layout, group)
    return seconds(layout, kind, payload, group) * (slower[:, None] if payload.ndim == 2 else slower)


state_seconds = once(StateSeconds.of)


@once
def kept_seconds(layout: Layout) -> StateSeconds:
    """`state_seconds` of a usual micro-batch: a second copy of the weights is gathered in its small group."""
    whole, second = state_seconds(layout), has_secondary(layout)
    if not second.any():
        return whole
    weights, group = gathered(layout), layout.secondary_group

    def gather(payload: Floats, usual: Floats) -> Floats:
        rows = second[:, None] if payload.ndim == 2 else second
        return np.where(rows, _over(layout, "all_gather", payload, group), usual)

    return replace(
        whole,
        gather=gather(weights.layer, whole.gather),
        gather_first=gather(weights.first, whole.gather_first),
        gather_last=gather(weights.last, whole.gather_last),
    )


def sharded_term(layout: Layout, work: LayerSeconds) -> Term:
    """Gathers and reductions of every micro-batch beside a layer's forward and backward.

    What is not run beside them shows whole; of embedding and head half shows that is.
    """
    states, s = kept_seconds(layout), layout.strategies
    gathers, reduces = s.overlaps_zero3_gather, s.overlaps("gradient_reduce")
    gather, reduce, _, _ = passes(layout)
    forward = states.gather * np.minimum(gather, 1.0)[:, None]
    again = states.gather * np.maximum(gather - 1.0, 0.0)[:, None]
    reduction = states.reduce * reduce[:, None]
    hidden: Floats = np.where(gathers[:, None], again, 0.0) + np.where(reduces[:, None], reduction, 0.0)
    bare = again + reduction - hidden

    def exposed(repeated: Floats) -> Floats:
        return shown(work.forward, forward, gathers) + beside(work.backward + repeated, hidden) + bare

    plain = exposed(np.zeros_like(work.forward))
    root = np.where(gathers, 0.5, 1.0) * np.minimum(gather, 1.0)
    roots = np.where(reduces, 0.5, 1.0) * reduce
    return Term(
        "data_comm_exposed",
        "chunk",
        _SHARDED,
        ns(
            layer=plain,
            full=exposed(work.full) - plain,
            selective=exposed(work.selective) - plain,
            first=root * states.gather_first + roots * states.reduce_first,
            last=root * states.gather_last + roots * states.reduce_last,
        ),
    )


def first_gather_term(layout: Layout, work: LayerSeconds) -> Term:
    """What the first forward of a step shows more: it gathers over all ranks and makes the second copy."""
    if not has_secondary(layout).any():
        return Term("data_comm_exposed", "stage", _FIRST, {})
    whole, kept = state_seconds(layout), kept_seconds(layout)
    hidden = layout.strategies.overlaps_zero3_gather
    layer = shown(work.forward, whole.gather, hidden) - shown(work.forward, kept.gather, hidden)
    root = np.where(hidden, 0.5, 1.0)
    return Term(
        "data_comm_exposed",
        "stage",
        _FIRST,
        ns(
            layer=np.maximum(layer, 0.0),
            first=root * np.maximum(whole.gather_first - kept.gather_first, 0.0),
            last=root * np.maximum(whole.gather_last - kept.gather_last, 0.0),
        ),
    )


def first_gather_raw_term(layout: Layout) -> Term:
    """How much longer the first gathers of a step take than those of the second copy, hidden or not."""
    if not has_secondary(layout).any():
        return Term("data_comm", "stage", _FIRST, {})
    longer = state_seconds(layout).gather - kept_seconds(layout).gather
    return Term("data_comm", "stage", _FIRST, ns(layer=np.maximum(longer, 0.0)))


def sharded_raw_term(layout: Layout) -> Term:
    """The whole time of a layer's gathers and reductions of a micro-batch, hidden or not."""
    states = kept_seconds(layout)
    gather, reduce, _, _ = passes(layout)
    return Term(
        "data_comm",
        "chunk",
        _SHARDED,
        ns(layer=states.gather * gather[:, None] + states.reduce * reduce[:, None]),
    )


def step_raw_term(layout: Layout) -> Term:
    """The whole time of the reductions and gathers done once a step, hidden or not."""
    gather, reduce = once_seconds(layout)
    nothing = np.zeros(len(layout.strategies), dtype=np.bool_)
    gather_share, reduce_share = once_shares(layout, nothing, nothing)
    both = gather.scaled(gather_share).beside(reduce.scaled(reduce_share))
    return Term("data_comm", "stage", _ONCE, ns(layer=both.layer, first=both.first, last=both.last))


def once_shares(layout: Layout, gathers: Bools, reduces: Bools) -> tuple[Floats, Floats]:
    """Shares that show of what is gathered and reduced once a step, run beside compute or not.

    Of DeepSpeed's gathers, which have nothing beside them, the ring's time shows: its rows were fitted so.
    Without ZeRO a gather is the second half of the gradients' all-reduce.
    """
    s, (hidden, whole) = layout.strategies, exposed_once(layout)
    gather_whole = np.where(s.is_("backend", "deepspeed"), 1.0, whole)
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
    gather, reduce = bucket_rates(layout, layout.shard_group)
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
    shard = layout.shard.astype(np.float64)
    gradients = reduced(layout)
    layer = seconds(layout, "all_reduce", gradients.layer / shard[:, None], group)
    hidden = law("replica_hidden_backward") * work.backward
    least = law("replica_exposed")
    first = seconds(layout, "all_reduce", gradients.first / shard, group)
    last = seconds(layout, "all_reduce", gradients.last / shard, group)
    return Term(
        "data_comm_exposed",
        "stage",
        _REPLICA,
        ns(layer=np.maximum(least * layer, layer - hidden), first=first, last=last),
    )
