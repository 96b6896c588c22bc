"""Seconds of collectives: measured curves inside an island, shared NICs and latency beyond."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..hardware import Cluster
from ..hardware.catalogue import network
from ..hardware.collective import CollectiveCurve, Kind, bus_share
from ..inputs.record import dataclass
from .columns import Floats, Ints
from .group import Group
from .layout import Layout


@dataclass(frozen=True)
class _Way:
    """How a collective of one kind goes in groups of one size and place.

    Inside an island or machine along a measured curve; beyond, at `rate`, with seconds to fill the levels of
    a tree (`slope` times what the size fills) and a least latency. `share` of the full tensor is on the bus.
    """

    share: float
    curve: CollectiveCurve | None = None
    rate: float = 1.0
    slope: float = 0.0
    latency: float = 0.0
    away: float = 1.0
    """Part of the bus bytes that leaves the island, where it alone counts."""
    factor: float = 1.0

    @property
    def alone(self) -> bool:
        """Whether it is no collective at all: a group of one."""
        return not self.share


def seconds(layout: Layout, kind: Kind, payload: Floats, group: Group) -> Floats:
    """Seconds of one collective of `payload` bytes (the full tensor), (n,) or (n, kinds).

    Bus bytes W = S (n-1)/n, twice that for an all-reduce; time = W / busbw (nccl-tests convention).
    """
    places, inverse = group.places
    way = _ways(layout.cluster)
    return _seconds(layout.cluster, kind, payload, [way(kind, *place) for place in places], inverse)


def among(cluster: Cluster, kind: Kind, payload_bytes: float, cards: int) -> float:
    """Seconds of one collective of `payload_bytes` (the full tensor) among `cards` cards of whole islands."""
    table = cluster.tiers()
    island = int(table.tiers[0].cards)
    way = _ways(cluster)(kind, cards, min(cards, island), int(table.level(cards)))
    return float(_seconds(cluster, kind, np.array([payload_bytes]), [way], np.zeros(1, dtype=np.int64))[0])


def _seconds(cluster: Cluster, kind: Kind, payload: Floats, ways: Sequence[_Way], which: Ints) -> Floats:
    """Seconds of collectives of `payload` bytes, each along one of `ways`."""
    found = np.zeros_like(payload)
    table = np.array([(w.share, w.factor, w.latency, w.rate, w.slope, w.away) for w in ways]).reshape(-1, 6)
    each = table[which].T if payload.ndim == 1 else table[which].T[:, :, None]
    bus, factor = payload * each[0], each[1]
    for curve in {id(way.curve): way.curve for way in ways if way.curve is not None}.values():
        rows = np.array([way.curve is curve for way in ways])[which]
        found[rows] = curve.seconds(bus[rows])
    rows = np.array([way.curve is None and not way.alone for way in ways])[which]
    if rows.any():
        moved, (latency, rate, slope, away) = bus[rows], each[2:, rows]
        if kind == "all_to_all":
            found[rows] = latency + moved * away / rate
        else:
            filling = slope * network().filled(moved)
            found[rows] = np.where(moved > 0, np.maximum(latency, moved / rate + filling), 0.0)
    whole: Floats = found * factor
    return whole


@lru_cache(maxsize=64)
def _ways(cluster: Cluster) -> Callable[[Kind, int, int, int], _Way]:
    """`_way` of a cluster, which takes long to hash, remembered."""
    return lru_cache(maxsize=4096)(partial(_way, cluster))


def _way(cluster: Cluster, kind: Kind, size: int, per_island: int, level: int) -> _Way:
    """The way of a group of `size`, `per_island` of it in each island, inside the tier `level`."""
    if size < 2:
        return _Way(0.0)
    share, factor = bus_share(kind, size), link_factor(cluster, size > per_island)
    tier = cluster.tiers().tiers[max(level, 1) if size > per_island else 0]
    if size <= per_island:
        return _Way(share, cluster.node.curve(size, kind, _link(cluster, size)), factor=factor)
    if tier.name == "node":  # a ring over PCI Express was measured whole, its bridged pairs in it
        return _Way(share, cluster.node.curve(size, kind, "pcie"), factor=factor)
    law, node, islands = network(), cluster.node, -(-size // per_island)
    if kind == "all_to_all":
        rate, away = tier.bandwidth_bytes_per_s * law.all_to_all_share, (size - per_island) / (size - 1)
        return _Way(share, rate=rate, latency=latency(size, islands), away=away, factor=factor)
    rate = _entered(cluster, per_island) * tier.bandwidth_bytes_per_s
    if per_island > 1:
        rate = min(rate, node.curve(per_island, kind, _link(cluster, per_island)).rate_bytes_per_s)
    slope = float(law.level_seconds(islands, node.fabric, tier.alone_bytes_per_s))
    slope *= 2.0 if kind == "all_reduce" else 1.0
    return _Way(share, rate=rate, slope=slope, latency=latency(size, islands), factor=factor)


def _entered(cluster: Cluster, per_island: int) -> float:
    """Of how many cards the network's share serves a ring with `per_island` cards in a machine.

    Of all of them where it enters the machine by the ports next to each; else by no more than `group_ports`.
    """
    node = cluster.node
    ports = network().fabric(node.fabric).group_ports
    if ports is None:
        return float(per_island)
    return min(float(per_island), max(1.0, ports * node.gpus / node.nics))


def link_factor(cluster: Cluster, away: bool) -> float:
    """Time of traffic over the catalogue's, as the site measured it: inside an island, or `away` from it."""
    return cluster.constant(f"links/{cluster.node.gpu.name}/{'network' if away else 'island'}", 1.0)


def _link(cluster: Cluster, ranks: int) -> Literal["island", "pcie"]:
    """What joins so many cards of the innermost tier: the node's own link, or PCI Express."""
    inner = cluster.tiers().tiers[0]
    joined = inner.name == "island" and cluster.node.gpu.joins(ranks)
    return "island" if joined else "pcie"


@lru_cache(maxsize=4096)
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
