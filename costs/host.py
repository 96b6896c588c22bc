"""Host memory of offloaded states, bytes a card, and how stages share a node."""

from __future__ import annotations

import numpy as np

from .columns import Bools, Ints
from .law import law
from .layout import Layout
from .states import Held, sharding
from .terms import Note, Term, kib

_HOST = Note("16 x 1.5 bytes a parameter", "DeepSpeed estimators; torch pins powers of two", "M")


def host_terms(layout: Layout) -> list[Term]:
    """Host bytes one card's offloaded states take: of its layers, and of embedding and head."""
    held = Held.of(layout, sharding(layout)[2])
    offloaded = layout.strategies.is_("offload_optimizer", "cpu")
    each = np.where(offloaded, law("host_state_bytes") * law("host_pinned_factor"), 0.0)
    return [
        Term(
            "offloaded_states",
            "stage",
            _HOST,
            kib(offloaded=held.layer * each[:, None], first=held.first * each, last=held.last * each),
        )
    ]


def host_capacity_bytes(layout: Layout) -> float:
    """Host bytes a node may give to offloaded states."""
    return layout.cluster.node.host_memory_bytes * law("host_usable_share")


def stage_block(layout: Layout) -> tuple[Ints, Ints, Bools]:
    """How stages lie on a node: (stages a node, cards of each stage on it, whether they line up).

    Stages whose ranks straddle nodes unevenly do not line up; their host memory is not priced.
    """
    s = layout.strategies
    node = min(layout.cluster.node.gpus, layout.cluster.gpus)
    stride = layout.pp_stride
    inner = s.is_("rank_order", "tp-cp-pp-dp")
    period = stride * s.pipeline_parallel
    crowded = np.maximum(node // stride, 1)
    stages = np.minimum(crowded, s.pipeline_parallel)
    replicas = np.where(inner & (period < node), node // np.maximum(period, 1), 1)
    cards = np.minimum(stride, node) * replicas
    aligned = np.where(stride < node, node % stride == 0, stride % node == 0)
    aligned &= np.where(inner & (stride < node), (period % node == 0) | (node % period == 0), True)
    aligned &= np.where(stages < s.pipeline_parallel, s.pipeline_parallel % stages == 0, True)
    return stages, cards, aligned
