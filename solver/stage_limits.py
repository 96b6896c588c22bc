"""Limits on what stages do, which no row tells alone: traffic of uplinks, communication that shows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..costs import Ledger
from ..costs.columns import Bools, Ints
from ..plans import Request
from .coefficients import Coefficients
from .lower import cheapest, layers_by_kind

SHARES = 10_000
"""A share of a step is kept in whole ten-thousandths, rounded down."""


def comm_share(request: Request) -> int | None:
    """The largest share of the step that shown communication may take, in `SHARES`."""
    share = request.limits.max_comm_fraction
    return None if share is None else int(share * SHARES + 1e-6)


def on_stages(request: Request) -> bool:
    """Whether a request has such limits: then a plan of a row need not obey although its row does."""
    limits = request.limits
    return limits.max_comm_fraction is not None or limits.max_uplink_bytes_per_step is not None


def overstepped(request: Request, ledger: Ledger) -> Iterator[tuple[str, str]]:
    """(field, reason) of each such limit that a priced plan does not keep."""
    share, most = comm_share(request), request.limits.max_uplink_bytes_per_step
    if share is not None and SHARES * ledger.comm_ns > share * ledger.step_ns:
        shown = f"communication shows for {ledger.comm_ns / ledger.step_ns:.2%} of the step"
        yield "limits.max_comm_fraction", f"{shown}, {share / SHARES:.2%} is allowed"
    if most is not None and ledger.uplink_bytes > most:
        sent = f"the network cards of a machine send {ledger.uplink_bytes:,} bytes a step"
        yield "limits.max_uplink_bytes_per_step", f"{sent}, {most:,} are allowed"


def uplinks_can_carry(coefficients: Coefficients) -> Bools:
    """Rows whose fullest stage is not proved to send more than the uplinks of a machine may in a step.

    Some stage holds ceil(L / p) layers; recompute and embedding only add to what it sends.
    """
    most = coefficients.request.limits.max_uplink_bytes_per_step
    s = coefficients.strategies
    if most is None:
        return np.ones(len(s), dtype=np.bool_)
    count = layers_by_kind(coefficients.request)
    v, p = s.virtual_pipeline, s.pipeline_parallel
    fullest = -(-(int(count.sum()) // v) // p)
    each, once = coefficients.uplink
    sent = coefficients.passes * _least(each.stage, count, fullest) + _least(once.stage, count, fullest * v)
    found: Bools = sent <= most
    return found


def _least(piece: dict[str, Ints], count: Ints, layers: Ints) -> Ints:
    return cheapest(piece["layer"], count, layers) + piece["fixed"]
