"""The graph of a cluster at node level: machines, islands, NVLink domains, leaf switches, spine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .measured import collective_curve
from .network import network

if TYPE_CHECKING:
    from .cluster import Cluster

Attributes = dict[str, Any]


def build_graph(cluster: Cluster) -> Any:
    """`cluster` as a frozen ``networkx.Graph``; see `Cluster.graph` for its attributes."""
    import networkx

    graph = networkx.Graph(name=cluster.name)
    graph.add_nodes_from(_machines(cluster))
    graph.add_nodes_from(_switches(cluster))
    graph.add_edges_from(_inner_edges(cluster))
    graph.add_edges_from(_network_edges(cluster))
    return networkx.freeze(graph)


def _machines(cluster: Cluster) -> Iterator[tuple[str, Attributes]]:
    """Machines, and the islands of machines that have several."""
    cards, several = _node_cards(cluster), cluster.node.islands > 1
    law, inside = network(), "island" if cluster.node.island_size > 1 else "pcie"
    innermost = {
        "bandwidth_bytes_per_s": _bus_rate(cluster, inside, cluster.island_gpus),
        "latency_seconds": law.ring_inner_step_seconds,
    }
    alone = {"kind": "node", "tier": "island", "cards": cards, **innermost}
    outer = {"kind": "node", "tier": "node", "cards": cards}
    for i in range(cluster.nodes):
        yield f"node:{i}", outer if several else alone
        for j, size in enumerate(_island_cards(cluster) if several else ()):
            yield f"island:{i}:{j}", {"kind": "island", "tier": "island", "cards": size, **innermost}


def _switches(cluster: Cluster) -> Iterator[tuple[str, Attributes]]:
    """NVLink domains of several machines, leaf switches, the spine."""
    if cluster.node.domain_nodes > 1:
        for name, held in _groups(cluster, "domain", cluster.node.domain_nodes):
            yield name, {"kind": "domain", "tier": "island", "cards": len(held) * _node_cards(cluster)}
    if cluster.nodes > 1:
        for name, held in _groups(cluster, "leaf", cluster.leaf_size):
            yield name, {"kind": "leaf", "tier": "leaf", "cards": len(held) * _node_cards(cluster)}
    if cluster.nodes > cluster.leaf_size:
        yield "spine", {"kind": "spine", "tier": "spine", "cards": cluster.gpus}


def _inner_edges(cluster: Cluster) -> Iterator[tuple[str, str, Attributes]]:
    """PCI Express from the islands of a machine to it; NVLink from a tray to its domain."""
    law, cards = network(), _node_cards(cluster)
    if cluster.node.islands > 1:
        rate = _bus_rate(cluster, "pcie", cards)
        step = {"share": 1.0, "latency_seconds": law.ring_pcie_step_seconds, "kind": "pcie", "tier": "node"}
        for j, size in enumerate(_island_cards(cluster)):
            edge = {"bandwidth_bytes_per_s": size * rate, "links": size, **step}
            yield from ((f"island:{i}:{j}", f"node:{i}", edge) for i in range(cluster.nodes))
    if cluster.node.domain_nodes > 1:
        rate = _bus_rate(cluster, "island", cluster.island_gpus)
        step = {"share": 1.0, "latency_seconds": law.ring_inner_step_seconds}
        edge = {
            "bandwidth_bytes_per_s": cards * rate,
            "links": cards,
            "kind": "nvlink",
            "tier": "island",
            **step,
        }
        for name, held in _groups(cluster, "domain", cluster.node.domain_nodes):
            yield from ((f"node:{i}", name, edge) for i in held)


def _network_edges(cluster: Cluster) -> Iterator[tuple[str, str, Attributes]]:
    """Network cards from machines to their leaf; uplinks, divided by the oversubscription, to the spine."""
    if cluster.nodes == 1:
        return
    law, total = network(), cluster.node.network_bytes_per_s
    share = law.fabric(cluster.node.fabric).nic_share
    wire = {"share": share, "latency_seconds": law.ring_network_step_seconds}
    nic = {"bandwidth_bytes_per_s": total, "links": cluster.node.nics, "kind": "nic", "tier": "leaf", **wire}
    for name, held in _groups(cluster, "leaf", cluster.leaf_size):
        yield from ((f"node:{i}", name, nic) for i in held)
        if cluster.nodes > cluster.leaf_size:
            up = total * len(held) / cluster.oversubscription
            edge = {"bandwidth_bytes_per_s": up, "links": 1, "kind": "uplink", "tier": "spine", **wire}
            yield name, "spine", edge


def _bus_rate(cluster: Cluster, link: Any, cards: int) -> float:
    """Bus rate of a ring (all-gather) of `cards` cards over `link`, bytes/s a card."""
    return collective_curve(cluster.node.gpu, max(2, cards), "all_gather", link).rate_bytes_per_s


def _node_cards(cluster: Cluster) -> int:
    """Cards in use of each machine."""
    return cluster.cards or cluster.node.gpus


def _island_cards(cluster: Cluster) -> list[int]:
    """Cards in use of each island of a machine."""
    size, cards = cluster.node.island_size, _node_cards(cluster)
    return [min(size, cards - first) for first in range(0, cards, size)]


def _groups(cluster: Cluster, kind: str, size: int) -> Iterator[tuple[str, range]]:
    """Vertices ``kind:k`` of up to `size` machines each, with the machines they hold."""
    for group, first in enumerate(range(0, cluster.nodes, size)):
        yield f"{kind}:{group}", range(first, min(first + size, cluster.nodes))
