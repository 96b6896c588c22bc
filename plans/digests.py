"""Digests of what a plan was made of, so that a file edited by hand says so when it is read again."""

from __future__ import annotations

import hashlib
import json

from pydantic import BaseModel

from ..inputs.release import release
from .plan import Plan

DIGITS = 8
"""Hex digits kept of each digest."""

PARTS = ("model", "cluster", "training", "choose", "limits", "objective")
"""Parts of a request that change its answer."""
NUMBERS = ("strategy", "memory", "time", "cost", "proof")
"""Parts of a plan beside its request."""


def digests(plan: Plan) -> dict[str, str]:
    """Part of `plan` to the first `DIGITS` hex digits of the SHA-256 of its canonical JSON."""
    parts: dict[str, BaseModel] = {name: getattr(plan.request, name) for name in PARTS}
    parts |= {name: getattr(plan, name) for name in NUMBERS}
    return {name: _digest(part) for name, part in parts.items()}


def stamped(plan: Plan) -> Plan:
    """`plan` with the digests of its parts as they stand."""
    return plan.model_copy(update={"digests": digests(plan)})


def edited(plan: Plan) -> tuple[str, ...]:
    """Parts of `plan` that are not those it was written with.

    Empty for a plan of another release, whose parts may be spelled otherwise, and for one without digests.
    """
    if plan.versions.get("shardwise") != release():
        return ()
    now = digests(plan)
    return tuple(name for name, old in plan.digests.items() if now.get(name) != old)


def _digest(part: BaseModel) -> str:
    """Without what is as by default: a field that a later release adds changes no digest."""
    data = part.model_dump(mode="json", exclude_defaults=True)
    text = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
