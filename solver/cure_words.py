"""The words of a cure: what to write after --set, and what stands there now."""

from __future__ import annotations

from math import ceil
from typing import Any

from ..plans import Request
from ..plans.quantity import gib
from ..plans.report import price
from .members import LIMIT
from .outcome import Found
from .points import padded
from .stage_limits import SHARES


def value_to_set(request: Request, field: str, value: Any, found: Found) -> str:
    """What to write after --set: for a freed knob or deadline what the best plan took."""
    table, _, name = field.partition(".")
    if field == "choose.recompute":
        return _recompute(found)
    if table == "choose" and name != "rules":
        taken = getattr(found.strategy, name)
        return str(taken).lower() if isinstance(taken, bool) else str(taken)
    if field == "limits.max_usd_per_hour":
        return str(ceil(100 * (request.cluster.usd_per_hour or 0.0)) / 100)
    if field == "limits.max_step_seconds":
        return str(-(-found.step_ns // 10**6) / 1000)
    if field in ("limits.max_comm_fraction", "limits.max_uplink_bytes_per_step"):
        ledger = price(padded(request), [found.strategy])[0]
        share = ceil(SHARES * ledger.comm_ns / ledger.step_ns) / SHARES
        return str(share if field == "limits.max_comm_fraction" else ledger.uplink_bytes)
    return str(value)


def _recompute(found: Found) -> str:
    """The words its layers carry: one word alone makes every layer carry it."""
    stages = found.strategy.stages
    full = sum(stage.recompute_full_layers for stage in stages)
    partly = sum(stage.recompute_selective_layers for stage in stages)
    counts = {"none": found.strategy.layers - full - partly, "selective": partly, "full": full}
    words = [word for word, count in counts.items() if count]
    return words[0] if len(words) == 1 else "[" + ", ".join(f'"{word}"' for word in words) + "]"


def value_now(request: Request, field: str) -> str:
    """What the request has in a field now, as a person reads it."""
    table, _, name = field.partition(".")
    value = getattr(getattr(request, table), name)
    if field == LIMIT:
        return gib(value)
    if isinstance(value, tuple):
        return ", ".join(map(word, value))
    return "free" if value is None else word(value)


def word(value: object) -> str:
    """A value as a request writes it.

    >>> word(True), word(8)
    ('true', '8')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)
