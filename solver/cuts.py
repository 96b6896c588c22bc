"""What rules and limits of a request cut off before any bound: masks of rows."""

from __future__ import annotations

import numpy as np

from ..costs.columns import NAMES, WORDS, Bools, Strategies
from ..plans import Request
from .rules import Rule


def cut_by(request: Request, strategies: Strategies) -> dict[str, Bools]:
    """Masks of rows that obey each rule and limit of the request, by the field that states it."""
    columns = {name: getattr(strategies, name) for name in NAMES if name not in WORDS}
    masks: dict[str, Bools] = {}
    for text in request.choose.rules:
        masks[f"choose.rules: {text}"] = Rule(text, request.origin("choose.rules")).holds(columns)
    tier = request.limits.tensor_parallel_within
    if tier is not None:
        found = request.cluster.tiers().named(tier)
        inside = found.cards if found else _cards_below(request, tier)
        masks["limits.tensor_parallel_within"] = strategies.tensor_parallel <= inside
    if request.limits.max_usd_per_hour is not None:
        masks["limits.max_usd_per_hour"] = np.full(len(strategies), affordable(request))
    return masks


def obeying(request: Request, strategies: Strategies) -> Bools:
    """Rows that obey every rule and limit of the request."""
    keep = np.ones(len(strategies), dtype=np.bool_)
    for mask in cut_by(request, strategies).values():
        keep &= mask
    return keep


def affordable(request: Request) -> bool:
    """Whether the cluster costs no more an hour than the request allows."""
    hourly, most = request.cluster.usd_per_hour, request.limits.max_usd_per_hour
    return most is None or (hourly is not None and hourly <= most)


def _cards_below(request: Request, tier: str) -> int:
    """Cards within a tier the cluster has no entry for: those of the next smaller tier, else one."""
    order = ("island", "node", "leaf", "spine")
    below = [t.cards for t in request.cluster.tiers().tiers if order.index(t.name) <= order.index(tier)]
    return max(below, default=1)
