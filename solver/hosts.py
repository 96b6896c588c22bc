"""Whether hosts can hold what must leave the cards: a sound test of rows before any stage is looked at."""

from __future__ import annotations

import numpy as np

from ..costs.columns import Bools, Ints
from .capacity import capacity_kib, host_capacity_kib
from .coefficients import Coefficients
from .lower import layers_by_kind


def host_can_hold(coefficients: Coefficients, rows: Ints | None = None) -> Bools:
    """Which of `rows`, by default all, have hosts that are not proved too small for what they offload."""
    away = coefficients.on_host
    rows = np.arange(len(away)) if rows is None else rows
    found = ~away[rows]
    if not found.all():
        found[~found] = _holds(coefficients.take(rows[~found]))
    return found


def _holds(part: Coefficients) -> Bools:
    """Rows, all of which offload, whose hosts are not proved too small; sound, not complete.

    All stages together hold every layer, so what exceeds the sum of their cards must move to the hosts, at
    the best ratio of card to host bytes of any kind of layer; all cards of all nodes share that.
    """
    s, count = part.strategies, layers_by_kind(part.request)
    p = s.pipeline_parallel
    least = part.layout.flight_on(np.arange(len(p)), p[:, None] - 1)[:, 0]
    over = np.zeros(len(s))
    ratio = np.full(len(s), np.inf)
    for total in part.memory.values():
        eased = np.minimum(np.minimum(total.flight["full"], total.flight["selective"]), 0)
        flying = total.flight | {"layer": np.zeros_like(eased)}
        chunks = (total.flight["layer"] + eased) @ count // s.virtual_pipeline
        used = _all_stages(total.stage, p, count) + least * (_all_stages(flying, p, count) + chunks)
        relief = -total.stage["offloaded"]
        each = np.where(relief > 0, part.host.stage["offloaded"] / np.maximum(relief, 1), np.inf)
        over = np.maximum(over, used - p * capacity_kib(part.request))
        ratio = np.minimum(ratio, each.min(axis=1))
    moved = np.where(over > 0, over * np.where(np.isfinite(ratio), ratio, 0.0), 0.0)
    need = (_all_stages(part.host.stage, p, count) + moved) * (part.request.cluster.gpus // p)
    hosts = part.request.cluster.nodes * host_capacity_kib(part.request)
    fits: Bools = need <= hosts + 1
    return fits


def _all_stages(piece: dict[str, Ints], stages: Ints, count: Ints) -> Ints:
    """A sum over all stages of a row that hold `count` layers of each kind."""
    total: Ints = piece["fixed"] * stages + piece["first"] + piece["last"] + piece["layer"] @ count
    return total
