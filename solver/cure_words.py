"""The words of a cure: what to write after --set, and what stands there now."""

from __future__ import annotations

import json
from math import ceil
from typing import Any

from ..inputs.quantity import gib
from ..models.strategy import Strategy
from ..plans import Plan, Request
from ..plans.report import price
from .members import LIMIT
from .stage_limits import SHARES

NOT_TOLD = "not told"
"""What stands in a field of the machines that a cluster does not keep as it was given."""


def value_to_set(request: Request, field: str, value: Any, found: Plan) -> str:
    """What to write after --set: for a freed knob or limit what the best plan took."""
    name = field.partition(".")[2]
    if value is not None:
        return text_of(value)
    if field == "choose.recompute":
        return _recompute(found.strategy)
    if field.startswith("choose."):
        return word(getattr(found.strategy, name))
    if field == "limits.max_usd_per_hour":
        return str(ceil(100 * (request.cluster.usd_per_hour or 0.0)) / 100)
    if field == "limits.max_step_seconds":
        return str(-(-round(1e9 * found.time.step_seconds) // 10**6) / 1000)
    if field in ("limits.max_comm_fraction", "limits.max_uplink_bytes_per_step"):
        ledger = price(found.request, [found.strategy])[0]
        share = ceil(SHARES * ledger.comm_ns / ledger.step_ns) / SHARES
        return str(share if field == "limits.max_comm_fraction" else ledger.uplink_bytes)
    raise AssertionError(f"nothing frees {field}")


def text_of(value: Any) -> str:
    """A value as it stands after ``--set``: a list as TOML has it, all else as a word.

    >>> text_of(["zero_stage >= 1"]), text_of(10.0), text_of(False)
    ('["zero_stage >= 1"]', '10', 'false')
    """
    if isinstance(value, list | tuple):
        return json.dumps(list(value))
    return f"{value:.12g}" if isinstance(value, float) else word(value)


def _recompute(strategy: Strategy) -> str:
    """The words its layers carry: one word alone makes every layer carry it."""
    stages = strategy.stages
    full = sum(stage.recompute_full_layers for stage in stages)
    partly = sum(stage.recompute_selective_layers for stage in stages)
    counts = {"none": strategy.layers - full - partly, "selective": partly, "full": full}
    words = [word for word, count in counts.items() if count]
    return words[0] if len(words) == 1 else json.dumps(words)


def value_now(request: Request, field: str) -> str:
    """What the request has in a field now, as a person reads it."""
    table, _, name = field.partition(".")
    value = getattr(getattr(request, table), name, NOT_TOLD)
    if field == LIMIT and isinstance(value, int):
        return gib(value)
    if field == "cluster.nodes" and request.cluster.cards is not None:
        return "part of 1"
    if isinstance(value, tuple):
        return ", ".join(map(word, value))
    return "free" if value is None else word(value)


def word(value: object) -> str:
    """A value as a request writes it.

    >>> word(True), word(8)
    ('true', '8')
    """
    return str(value).lower() if isinstance(value, bool) else str(value)
