"""Seconds of collectives: measured curves inside an island, shared NICs and latency beyond."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..hardware import Cluster
from ..hardware.catalogue import network
from ..hardware.collective import Kind, bus_share
from .columns import Floats
from .layout import Group, Layout

Rate = Callable[[Floats], Floats]


def seconds(layout: Layout, kind: Kind, payload: Floats, group: Group) -> Floats:
    """Seconds of one collective of `payload` bytes (the full tensor), (n,) or (n, kinds).

    Bus bytes W = S (n-1)/n, twice that for an all-reduce; time = W / busbw (nccl-tests convention).
    Groups of equal size and place share one curve, so each is looked up once.
    """
    found = np.zeros_like(payload)
    places, inverse = group.places
    for index, (size, per_island, level) in enumerate(places):
        if size < 2:
            continue
        rows = inverse == index
        share = bus_share(kind, size)
        one = _one(layout.cluster, kind, payload[rows] * share, size, per_island, level)
        found[rows] = one * link_factor(layout.cluster, size > per_island)
    return found


def among(cluster: Cluster, kind: Kind, payload_bytes: float, cards: int) -> float:
    """Seconds of one collective of `payload_bytes` (the full tensor) among `cards` cards of whole islands."""
    table = cluster.tiers()
    island = int(table.tiers[0].cards)
    bus = np.array([payload_bytes * bus_share(kind, cards)])
    one = _one(cluster, kind, bus, cards, min(cards, island), int(table.level(cards)))
    return float(one[0]) * link_factor(cluster, cards > island)


def link_factor(cluster: Cluster, away: bool) -> float:
    """Time of traffic over the catalogue's, as the site measured it: inside an island, or `away` from it."""
    return cluster.constant(f"links/{cluster.node.gpu.name}/{'network' if away else 'island'}", 1.0)


def _one(cluster: Cluster, kind: Kind, bus: Floats, size: int, per_island: int, level: int) -> Floats:
    """Seconds of `bus` bytes in a group of `size`, `per_island` of it in each island."""
    tiers = cluster.tiers().tiers
    if size <= per_island:
        return cluster.node.curve(size, kind, _link(cluster, size)).seconds(bus)
    tier = tiers[max(level, 1)]
    if tier.name == "node":  # a ring over PCI Express was measured whole, its bridged pairs in it
        return cluster.node.curve(size, kind, "pcie").seconds(bus)
    rate = per_island * tier.bandwidth_bytes_per_s
    if per_island > 1:
        curve = cluster.node.curve(per_island, kind, _link(cluster, per_island))
        rate = min(rate, curve.rate_bytes_per_s)
    law, node = network(), cluster.node
    if kind == "all_to_all":
        away = bus * (size - per_island) / (size - 1)
        rate = tier.bandwidth_bytes_per_s * law.all_to_all_share
        return latency(size, -(-size // per_island)) + away / rate
    islands = -(-size // per_island)
    ways = 2.0 if kind == "all_reduce" else 1.0
    filling = ways * law.levels_seconds(bus, islands, node.fabric, tier.alone_bytes_per_s)
    return np.where(bus > 0, np.maximum(latency(size, islands), bus / rate + filling), 0.0)


def _link(cluster: Cluster, ranks: int) -> Literal["island", "pcie"]:
    """What joins so many cards of the innermost tier: the node's own link, or PCI Express."""
    inner = cluster.tiers().tiers[0]
    joined = inner.name == "island" and cluster.node.gpu.joins(ranks)
    return "island" if joined else "pcie"


def latency(size: int, islands: int) -> float:
    """Least latency of ring and tree, seconds; a gather is half an all-reduce."""
    law = network()
    ring = float(law.ring_seconds(size - 1, islands - 1))
    tree = float(law.tree_seconds(max(size // islands, 1), islands))
    return min(ring, tree)


def point_to_point(layout: Layout, payload: Floats, group: Group) -> Floats:
    """Seconds to hand `payload` bytes to the neighbouring stage."""
    tiers = layout.cluster.tiers().tiers
    inside = layout.cluster.node.peer_bytes_per_s
    if _link(layout.cluster, 2) == "pcie":
        inside = min(inside, tiers[0].bandwidth_bytes_per_s)
    rates = np.array([inside] + [tier.bandwidth_bytes_per_s for tier in tiers[1:]], dtype=np.float64)
    law = network()
    wait = np.array([law.ring_inner_step_seconds] + [law.ring_network_step_seconds] * (len(tiers) - 1))
    slower = np.array([link_factor(layout.cluster, level > 0) for level in range(len(tiers))])
    times: NDArray[np.float64] = (payload / rates[group.level] + wait[group.level]) * slower[group.level]
    return np.where(group.size > 1, times, 0.0)


def bucketed(layout: Layout, kind: Kind, payload: Floats, bucket_bytes: Floats, group: Group) -> Floats:
    """Seconds of `payload` bytes moved in buckets: the rate of one bucket, so linear in the payload."""
    one = seconds(layout, kind, bucket_bytes, group)
    rate = one / np.maximum(bucket_bytes, 1.0)
    return payload * rate
