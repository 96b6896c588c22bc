"""Limits on what stages do, which no row tells alone: traffic of uplinks, communication that shows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..costs import Ledger
from ..costs.columns import Bools, Ints
from ..plans import Request
from .coefficients import Coefficients
from .lower import cheapest, layers_by_kind, work_of

SHARES = 10_000
"""A share of a step is kept in whole ten-thousandths, rounded down."""


def comm_share(request: Request) -> int | None:
    """The largest share of the step that shown communication may take, in `SHARES`."""
    share = request.limits.max_comm_fraction
    return None if share is None else int(share * SHARES + 1e-6)


def on_stages(request: Request) -> bool:
    """Whether a request has such limits: then a plan of a row need not obey although its row does."""
    limits = request.limits
    return limits.on_stages


def overstepped(request: Request, ledger: Ledger) -> Iterator[tuple[str, str]]:
    """(field, reason) of each such limit that a priced plan does not keep."""
    share, most = comm_share(request), request.limits.max_uplink_bytes_per_step
    if share is not None and SHARES * ledger.comm_ns > share * ledger.step_ns:
        shown = f"communication shows for {ledger.comm_ns / ledger.step_ns:.2%} of the step"
        yield "limits.max_comm_fraction", f"{shown}, {share / SHARES:.2%} is allowed"
    if most is not None and ledger.uplink_bytes > most:
        sent = f"the network cards of a machine send {ledger.uplink_bytes:,} bytes a step"
        yield "limits.max_uplink_bytes_per_step", f"{sent}, {most:,} are allowed"


def may_keep(coefficients: Coefficients) -> Bools:
    """Rows not proved to break such a limit whatever their stages hold; sound, not complete."""
    return _uplinks_can_carry(coefficients) & _may_show_little(coefficients)


def _may_show_little(coefficients: Coefficients) -> Bools:
    """Rows of which some plan may show communication for a share of the step that is small enough.

    If the slowest stage holds n layers of a chunk it shows at least C(n) of at most U(n), each a line in n,
    and the step is at most (m v + p - 1) U(n), m v - 1 waits for a link of an end and the longest tail: their
    ratio is least at an end of what n may be. The slowest chunk is no faster than the mean one, which bounds
    n from below.
    """
    share, s = comm_share(coefficients.request), coefficients.strategies
    if share is None:
        return np.ones(len(s), dtype=np.bool_)
    chunk, tail = coefficients.chunk.stage, coefficients.tail.stage
    each, once = (part.stage for part in coefficients.communication)
    p, v, passes = s.pipeline_parallel, s.virtual_pipeline, coefficients.passes
    layers = coefficients.depth
    slow = _most(chunk) + v * np.maximum(chunk["offloaded"].max(axis=1), 0)
    ends = chunk["fixed"] + np.maximum(chunk["first"], 0) + np.maximum(chunk["last"], 0)
    work = work_of(chunk, layers_by_kind(coefficients.request), p, v)
    most = layers - p + 1
    fewest = np.clip((work // p - ends) // np.maximum(slow, 1), 1, most)
    longest = tail["fixed"] + np.maximum(tail["first"], 0) + np.maximum(tail["last"], 0)
    longest = longest + most * v * (_most(tail) + np.maximum(tail["offloaded"].max(axis=1), 0))
    rest = longest + (passes - 1) * coefficients.longest_wait
    least = np.full(len(s), np.inf)
    for count in (fewest, most):
        shown = (
            passes * np.maximum(each["fixed"] + count * _fewest(each), 0) + once["fixed"] + v * _fewest(once)
        )
        step = (passes + p - 1) * (ends + count * slow) + rest
        least = np.minimum(least, np.maximum(shown, 0) / np.maximum(step, 1))
    found: Bools = SHARES * least * (1.0 - 1e-9) <= share
    return found


def _most(piece: dict[str, Ints]) -> Ints:
    """The most a layer takes, kept or recomputed."""
    again = np.maximum(np.maximum(piece["full"], piece["selective"]), 0)
    found: Ints = (piece["layer"] + again).max(axis=1)
    return found


def _fewest(piece: dict[str, Ints]) -> Ints:
    """The least a layer takes, kept or recomputed."""
    again = np.minimum(np.minimum(piece["full"], piece["selective"]), 0)
    found: Ints = (piece["layer"] + again).min(axis=1)
    return found


def _uplinks_can_carry(coefficients: Coefficients) -> Bools:
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
