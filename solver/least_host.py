"""The least host memory of a node with which a plan exists, and the layout that needs no more."""

from __future__ import annotations

from ..models import Strategy
from ..plans import Request
from ..plans.report import price
from .alternatives import best
from .feasible import Rows, feasible

STEP_BYTES = 2**30 // 20
"""How near the least is looked for, bytes: what one decimal of a GiB shows."""


def least_host(request: Request) -> tuple[Strategy, int] | None:
    """The layout that offloads least to a node, and those bytes, of a `request` whose hosts are boundless.

    Halves the limit between what is proved too little and what a plan is known to need. None where no plan
    keeps the other limits.
    """
    found = best(request, {})
    if found is None:
        return None
    rows, low, high = Rows(request), 0, _host_bytes(request, found.strategy)
    while high - low > STEP_BYTES:
        middle = (low + high) // 2
        if feasible(_limited(request, middle), rows):
            high = middle
        else:
            low = middle
    lean = best(_limited(request, high), {}) or found
    return lean.strategy, _host_bytes(request, lean.strategy)


def _limited(request: Request, most: int) -> Request:
    return request.changed({"limits.host_memory_bytes": max(most, 1)})


def _host_bytes(request: Request, strategy: Strategy) -> int:
    return price(request, [strategy])[0].host_node_kib * 1024
