"""FLOPs of forwards that backwards run again: what HFU counts beside the model's own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..models.adapters import Matrix, matrices
from ..models.counts import LayerCount, core_flops
from ..models.transformer import Block
from ..models.work import adapters_met
from .columns import Floats
from .layout import Layout
from .run_again import Forward
from .stage_counts import Counts


def flops_again(layout: Layout, counts: Counts) -> Floats:
    """FLOPs of a step that all cards together repeat under recompute, (n,).

    A layer's forward is 2 FLOPs a parameter that a token meets, and its core: the whole of it under full
    recompute, else what `Forward.again` tells, the same parts that the term `recompute` takes seconds for.
    Modules that predict further tokens are kept under full recompute.
    """
    found = np.zeros(len(layout.strategies))
    for kind, (block, held) in enumerate(zip(layout.blocks, layout.counted.layers, strict=True)):
        whole, part = _of_a_token(layout, block, held)
        full, selective = counts.full[:, :, kind].sum(axis=1), counts.selective[:, :, kind].sum(axis=1)
        found += selective * part + (0.0 if block.joins else full * whole)
    return found * layout.training.tokens


def _of_a_token(layout: Layout, block: Block, held: LayerCount) -> tuple[float, Floats]:
    """FLOPs a token of a layer's forward: whole, and what selective recompute runs again, (n,)."""
    forward, hidden = block.feed_forward, layout.transformer.hidden_size
    fed = [m for m in matrices(block, hidden) if m.reads in ("feed_forward", "inner")]
    lone = [m for m in fed if forward.experts and not m.routed]
    products = _met(fed) + forward.experts * hidden
    each = {
        "attended": 2.0 * (held.active - products),
        "beside": 2.0 * adapters_met(layout.training, block, hidden),
        "fed": 2.0 * products,
        "shared": 2.0 * _met(lone),
        "core": sum(core_flops(mixer, layout.training.attended_length) for mixer in block.mixers),
        "memory": 0.0,
        "named": 0.0,
    }
    whole = each["attended"] + each["beside"] + each["fed"] + each["core"]
    parts = Forward(**{name: np.full(len(layout.strategies), value) for name, value in each.items()})
    return whole, np.minimum(parts.again(layout, block), whole)


def _met(some: Sequence[Matrix]) -> int:
    """Parameters of matrices that a token meets."""
    return sum(matrix.met * matrix.inputs * matrix.outputs for matrix in some)
