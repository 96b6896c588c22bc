"""Host memory of offloaded states, bytes a card, and how stages share a node."""

from __future__ import annotations

import numpy as np

from ..hardware import Node
from ..models.optimizer import paged_bytes
from .activations import saved_of
from .columns import Bools, Ints
from .held import Held
from .law import law
from .layout import Layout
from .sharding import sharding
from .states import weight_bytes, window
from .terms import Note, Term, kib

_HOST = Note("16 x 1.5 bytes a parameter", "DeepSpeed estimators; torch pins powers of two", "M")
_FROZEN = Note("1.5 w N / d of frozen weights", "torch pins powers of two", "D")
_INPUTS = Note("1.5 x 2 T h / split a layer and micro-batch in flight", "torch pins powers of two", "D")
_PAGED = Note("paged_bytes N / d", "bitsandbytes paged optimizers, unified memory", "P")


def host_terms(layout: Layout) -> list[Term]:
    """Host bytes one card's offloaded states take: of its layers, and of embedding and head."""
    found = [_states(layout)]
    if len(layout.portions) > 1:
        found.append(_frozen(layout))
    if layout.training.offload_activations:
        found.append(_inputs(layout))
    if paged_bytes(layout.training.optimizer):
        found.append(_paged(layout))
    return found


def _states(layout: Layout) -> Term:
    """States of trained parameters: optimizer, gradients and, where they go too, weights.

    Of states on NVMe the host holds the sub-group that is stepped.
    """
    held = Held.of(layout, layout.trained, sharding(layout)[2])
    s = layout.strategies
    share = np.where(s.is_("offload_optimizer", "nvme"), window(layout, held), s.away("offload_optimizer"))
    each = law("host_state_bytes") * law("host_pinned_factor") * share
    held = held.scaled(each)
    return Term(
        "offloaded_states", "stage", _HOST, kib(offloaded=held.layer, first=held.first, last=held.last)
    )


def _frozen(layout: Layout) -> Term:
    """Frozen weights where parameters are offloaded, pinned."""
    away = np.where(layout.strategies.is_("offload_params", "cpu"), law("host_pinned_factor"), 0.0)
    found = weight_bytes(layout, layout.portions[1:]).scaled(away)
    pieces = kib(offloaded=found.layer, first=found.first, last=found.last)
    return Term("offloaded_frozen_weights", "stage", _FROZEN, pieces)


def _inputs(layout: Layout) -> Term:
    """Inputs of all layers, pinned, of the micro-batches that a stage has in flight at most."""
    s = layout.strategies
    flight = np.minimum(2 * s.pipeline_parallel - 1, s.gradient_accumulation_steps)
    each = law("host_pinned_factor") * flight
    return Term("offloaded_activations", "stage", _INPUTS, kib(layer=saved_of(layout).full * each[:, None]))


def _paged(layout: Layout) -> Term:
    """Moments that page out when the card is full."""
    held = Held.of(layout, layout.trained, sharding(layout)[2])
    on_card = ~layout.strategies.away("offload_optimizer")
    each = np.where(on_card, paged_bytes(layout.training.optimizer), 0.0)
    held = held.scaled(each)
    return Term("paged_moments", "stage", _PAGED, kib(layer=held.layer, first=held.first, last=held.last))


def host_share_bytes(node: Node) -> int:
    """Bytes of a node's memory that offloaded states may take; system, page cache and loaders need the rest.

    >>> from ..hardware import Cluster
    >>> node = Cluster.preset("dgx-h100").node
    >>> host_share_bytes(node) / node.host_memory_bytes
    0.9
    """
    return int(node.host_memory_bytes * law("host_usable_share"))


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
