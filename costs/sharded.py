"""Sharded states that every micro-batch gathers and reduces, and how much of that shows."""

from __future__ import annotations

import numpy as np

from ..hardware.collective import Kind
from .collectives import seconds
from .columns import Floats
from .crossings import (
    gathered,
    passes,
    reduced,
)
from .dispatch import slower_away
from .group import Group
from .held import Held
from .kernels import LayerSeconds
from .layout import Layout
from .once import once
from .overlap import beside, shown
from .sharding import has_secondary
from .terms import Note, Term, ns

_SHARDED = Note(
    "max(compute + s min(comm, compute), comm) - compute; comm without overlap", "FSDP prefetch", "M", "s"
)
_FIRST = Note(
    "exposed gather over all ranks - inside the secondary group, first forward of a step",
    "ZeRO++, arXiv 2306.10209; DeepSpeed stage3.py drops the copy at the step",
    "D",
    "s",
)


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
