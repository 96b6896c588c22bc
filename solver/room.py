"""Rows whose states alone are too large for the cards: dropped with their core, before any row is listed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..costs.columns import Bools, Ints, numbered
from ..costs.layout import Layout
from ..costs.states import lasting_terms
from ..costs.sums import Sum
from ..plans import Request
from .lower import layers_by_kind
from .space import Space


def with_room(request: Request, found: Space) -> Space:
    """The space without rows whose weights and optimizer states exceed all cards of a pipeline together.

    Against the whole usable memory, so that the space is the same under every margin. These terms are the
    same for all shapes of a core, and the others of a card's memory only add to them.
    """
    if not len(found.core):
        return found
    _, first, core = numbered(found.core)
    keep = _hold_states(request, found, first)
    kinds: dict[tuple[int, bytes], int] = {}
    tables: list[Ints] = []
    chosen: list[int] = []
    ends = np.cumsum(found.sizes[first])
    for kind, mask in zip(found.kind[first].tolist(), np.split(keep, ends[:-1]), strict=True):
        key = (kind, mask.tobytes())
        if key not in kinds:
            kinds[key] = len(tables)
            tables.append(found.variants[kind][mask])
        chosen.append(kinds[key])
    kinds_of_shapes = np.array(chosen, dtype=np.int64)[core]
    whole = replace(found, kind=kinds_of_shapes, variants=tuple(tables))
    kept = whole if whole.sizes.all() else whole.take(np.flatnonzero(whole.sizes))
    return kept.short_of(int(found.sizes @ (1 + found.others) - kept.sizes @ (1 + kept.others)))


def _hold_states(request: Request, found: Space, first: Ints) -> Bools:
    """Which rows of the shapes `first` have lasting states that their cards hold, taken together."""
    rows = found.rows(first)
    layout = Layout(request.model, request.training, request.cluster, rows)
    states = Sum.of(lasting_terms(layout), len(rows), len(request.model.kinds)).stage
    stages = rows.pipeline_parallel
    each = states["layer"] + np.minimum(states["offloaded"], 0)
    total = states["fixed"] * stages + states["first"] + states["last"] + each @ layers_by_kind(request)
    held: Bools = total <= stages * (request.cluster.node.gpu.memory_usable_bytes // 1024)
    return held
