"""States that are gathered and reduced once a step, and how much of that shows."""

from __future__ import annotations

import numpy as np

from .buffers import bucket_elements
from .collectives import bucketed, seconds
from .columns import Bools, Floats
from .crossings import (
    gathered,
    passes,
    reduced,
    wires,
)
from .experts import has_experts
from .group import Group
from .held import Held
from .kernels import LayerSeconds
from .law import law
from .layout import Layout
from .once import once
from .stacks import exposed
from .terms import Note, Term, ns

_ONCE = Note(
    "max(Dx reduce, reduce - backward) + max(Dx gather, gather - forward), at the rate of a bucket; Dx of "
    "runs with or without overlap",
    "regression of 2026-11",
    "M",
    "s",
)
_REPLICA = Note("max(0.1 AR, AR - 0.8 backward)", "ibm_fsdp-009, -010", "M", "s")


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
