"""Digests of the parts of a saved plan, so that a file edited by hand says so when it is read again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

DIGITS = 12
"""Hex digits kept of each digest. Plans whose digests have 8 were digested in another way."""

REQUEST = ("model", "cluster", "training", "choose", "limits", "objective")
"""Parts of a request that change its answer."""
PLAN = ("strategy", "memory", "time", "cost", "proof", "buckets", "writable_by", "placement")
"""Parts of a plan beside its request."""


def digests(data: Mapping[str, Any]) -> dict[str, str]:
    """Part of the JSON object of a plan to the first `DIGITS` hex digits of its SHA-256, keys sorted."""
    request = data.get("request")
    parts = {name: request.get(name) for name in REQUEST} if isinstance(request, Mapping) else {}
    parts |= {name: data.get(name) for name in PLAN}
    return {name: _digest(part) for name, part in parts.items()}


def mismatched(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Parts of the JSON object of a plan that are not those it was written with; empty without digests."""
    written = data.get("digests")
    if not isinstance(written, Mapping):
        return ()
    now = digests(data)
    return tuple(name for name, old in written.items() if _comparable(old) and now.get(name) != old)


def _comparable(old: object) -> bool:
    return isinstance(old, str) and len(old) == DIGITS


def _digest(part: object) -> str:
    text = json.dumps(part, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:DIGITS]
