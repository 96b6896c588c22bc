"""Limits on what stages do, which no row tells alone: traffic of uplinks, communication that shows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..costs import Ledger
from ..costs.columns import Bools, Ints
from ..plans import Request
from .coefficients import Coefficients
from .lower import NEVER, cheapest, layers_by_kind, work_of

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


def least_shown(coefficients: Coefficients) -> Ints:
    """What no step of each row beats, ns, as what it shows of communication is a limited share of it."""
    share = comm_share(coefficients.request)
    if share is None:
        return np.zeros(len(coefficients.strategies), dtype=np.int64)
    shown = np.minimum.reduce([_shown(coefficients, count) for count in _slowest_holds(coefficients)])
    return -(-SHARES * shown // share) if share else np.where(shown > 0, NEVER, 0)


def _slowest_holds(coefficients: Coefficients) -> tuple[Ints, Ints]:
    """Fewest and most layers of a chunk of the slowest stage: it is no faster than the mean one."""
    s, chunk = coefficients.strategies, coefficients.chunk.stage
    p, v = s.pipeline_parallel, s.virtual_pipeline
    work = work_of(chunk, layers_by_kind(coefficients.request), p, v)
    most = coefficients.depth - p + 1
    fewest = np.clip((work // p - _ends(chunk)) // np.maximum(_slow(coefficients), 1), 1, most)
    return fewest, most


def _shown(coefficients: Coefficients, count: Ints) -> Ints:
    """Communication of a step that shows at least where the slowest chunk holds `count` layers, ns."""
    each, once = (part.stage for part in coefficients.communication)
    v, passes = coefficients.strategies.virtual_pipeline, coefficients.passes
    chunks = passes * np.maximum(each["fixed"] + count * _fewest(each), 0)
    found: Ints = np.maximum(chunks + once["fixed"] + v * _fewest(once), 0)
    return found


def _slow(coefficients: Coefficients) -> Ints:
    """The most a layer takes of a chunk, ns."""
    chunk, v = coefficients.chunk.stage, coefficients.strategies.virtual_pipeline
    found: Ints = _most(chunk) + v * np.maximum(chunk["offloaded"].max(axis=1), 0)
    return found


def _ends(piece: dict[str, Ints]) -> Ints:
    """What is fixed and what embedding and head add at most."""
    found: Ints = piece["fixed"] + np.maximum(piece["first"], 0) + np.maximum(piece["last"], 0)
    return found


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
    p, v, passes = s.pipeline_parallel, s.virtual_pipeline, coefficients.passes
    fewest, most = _slowest_holds(coefficients)
    longest = _ends(tail) + most * v * (_most(tail) + np.maximum(tail["offloaded"].max(axis=1), 0))
    rest = longest + (passes - 1) * coefficients.longest_wait
    least = np.full(len(s), np.inf)
    for count in (fewest, most):
        step = (passes + p - 1) * (_ends(chunk) + count * _slow(coefficients)) + rest
        least = np.minimum(least, _shown(coefficients, count) / np.maximum(step, 1))
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
