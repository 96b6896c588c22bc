"""The graph of a cluster at node level: machines, islands, NVLink domains, leaf switches, spine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from .network import network
from .node import Node

if TYPE_CHECKING:
    from .cluster import Cluster

Attributes = dict[str, Any]


def vertices(cluster: Cluster) -> list[tuple[str, Attributes]]:
    """Vertices of the graph by name."""
    machines = placed(cluster)
    return [*_machines(machines), *_switches(machines)]


def edges(cluster: Cluster) -> list[tuple[str, str, Attributes]]:
    """Edges of the graph, from inside to outside."""
    machines = placed(cluster)
    return [*_inner_edges(machines), *_network_edges(machines, cluster.oversubscription)]


def build_graph(cluster: Cluster) -> Any:
    """`cluster` as a frozen ``networkx.Graph``; see `Cluster.graph` for its attributes."""
    import networkx

    graph = networkx.Graph(name=cluster.name)
    graph.add_nodes_from(vertices(cluster))
    graph.add_edges_from(edges(cluster))
    return networkx.freeze(graph)


class Placed(NamedTuple):
    """One machine in its place: cards in use, NVLink domain (None: its own), leaf."""

    number: int
    node: Node
    cards: int
    domain: int | None
    leaf: int


def placed(cluster: Cluster) -> list[Placed]:
    """Every machine of `cluster` that has cards in use; pools under leaves of their own."""
    if cluster.free:
        spots = [(cards, leaf) for leaf, frees in enumerate(cluster.free) for cards in frees]
        return [Placed(i, cluster.node, cards, None, leaf) for i, (cards, leaf) in enumerate(spots)]
    found: list[Placed] = []
    leaf = domain = 0
    for pool in cluster.pools:
        wide, size = pool.node.domain_nodes, pool.leaf_size
        for i in range(pool.nodes):
            own = domain + i // wide if wide > 1 else None
            found.append(Placed(len(found), pool.node, pool.cards or pool.node.gpus, own, leaf + i // size))
        leaf, domain = leaf - (-pool.nodes // size), domain - (-pool.nodes // wide)
    return found


class _Rates:
    """Bus rates of a ring (all-gather) of cards of one machine type, looked up once for each count."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, str, int], float] = {}

    def of(self, node: Node, link: Literal["island", "pcie"], cards: int) -> float:
        """Bytes/s a card of `cards` cards over `link`; `node` must live as long as this."""
        key = (id(node), link, cards)
        if key not in self._known:
            self._known[key] = node.curve(max(2, cards), "all_gather", link).rate_bytes_per_s
        return self._known[key]


def _machines(machines: list[Placed]) -> Iterator[tuple[str, Attributes]]:
    """Machines, and the islands of machines that have several."""
    law, rates, total = network(), _Rates(), sum(machine.cards for machine in machines)
    alike: dict[tuple[int, int], list[Attributes]] = {}
    for machine in machines:
        node, cards = machine.node, machine.cards
        key = (id(node), cards)
        if key not in alike:
            inside: Literal["island", "pcie"] = "island" if node.island_size > 1 else "pcie"
            joined = min(node.domain_size, total if machine.domain is not None else cards)
            innermost = {
                "bandwidth_bytes_per_s": rates.of(node, inside, joined),
                "latency_seconds": law.ring_inner_step_seconds,
            }
            sizes = _island_cards(machine) if node.islands > 1 else []
            outer: Attributes = {"kind": "node", "tier": "node", "cards": cards}
            islands = [{"kind": "island", "tier": "island", "cards": size, **innermost} for size in sizes]
            alike[key] = [outer if sizes else {**outer, "tier": "island", **innermost}, *islands]
        first, *inner = alike[key]
        yield f"node:{machine.number}", first
        for j, island in enumerate(inner):
            yield f"island:{machine.number}:{j}", island


def _held(machines: list[Placed]) -> tuple[dict[int, list[Placed]], dict[int, list[Placed]]]:
    """Machines by domain and by leaf."""
    domains: dict[int, list[Placed]] = {}
    leaves: dict[int, list[Placed]] = {}
    for machine in machines:
        leaves.setdefault(machine.leaf, []).append(machine)
        if machine.domain is not None:
            domains.setdefault(machine.domain, []).append(machine)
    return domains, leaves


def _switches(machines: list[Placed]) -> Iterator[tuple[str, Attributes]]:
    """NVLink domains of several machines, leaf switches, the spine."""
    domains, leaves = _held(machines)
    for domain, held in domains.items():
        yield f"domain:{domain}", {"kind": "domain", "tier": "island", "cards": sum(m.cards for m in held)}
    for leaf, held in leaves.items() if len(machines) > 1 else ():
        yield f"leaf:{leaf}", {"kind": "leaf", "tier": "leaf", "cards": sum(m.cards for m in held)}
    if len(leaves) > 1:
        yield "spine", {"kind": "spine", "tier": "spine", "cards": sum(m.cards for m in machines)}


def _inner_edges(machines: list[Placed]) -> Iterator[tuple[str, str, Attributes]]:
    """PCI Express from the islands of a machine to it; NVLink from a tray to its domain."""
    law, rates, total = network(), _Rates(), sum(machine.cards for machine in machines)
    for machine in machines:
        node, name = machine.node, f"node:{machine.number}"
        if node.islands > 1:
            rate = rates.of(node, "pcie", machine.cards)
            step = {
                "share": 1.0,
                "latency_seconds": law.ring_pcie_step_seconds,
                "kind": "pcie",
                "tier": "node",
            }
            for j, size in enumerate(_island_cards(machine)):
                edge = {"bandwidth_bytes_per_s": size * rate, "links": size, **step}
                yield f"island:{machine.number}:{j}", name, edge
        if machine.domain is not None:
            rate = rates.of(node, "island", min(node.domain_size, total))
            edge = {
                "bandwidth_bytes_per_s": machine.cards * rate,
                "links": machine.cards,
                "kind": "nvlink",
                "tier": "island",
                "share": 1.0,
                "latency_seconds": law.ring_inner_step_seconds,
            }
            yield name, f"domain:{machine.domain}", edge


def _network_edges(machines: list[Placed], oversubscription: float) -> Iterator[tuple[str, str, Attributes]]:
    """Network cards from machines to their leaf; uplinks, divided by the oversubscription, to the spine.

    A machine in part of whose cards others work has its share of the network cards, at least one.
    """
    if len(machines) == 1:
        return
    step = network().ring_network_step_seconds
    leaves = _held(machines)[1]
    alike: dict[tuple[int, int], Attributes] = {}
    for leaf, held in leaves.items():
        up, share = 0.0, 1.0
        for machine in held:
            key = (id(machine.node), machine.cards)
            nic = alike.get(key) or alike.setdefault(key, _nic(machine, step))
            up, share = up + nic["bandwidth_bytes_per_s"], min(share, nic["share"])
            yield f"node:{machine.number}", f"leaf:{leaf}", nic
        if len(leaves) > 1:
            wire = {"share": share, "latency_seconds": step, "kind": "uplink", "tier": "spine"}
            yield (
                f"leaf:{leaf}",
                "spine",
                {"bandwidth_bytes_per_s": up / oversubscription, "links": 1, **wire},
            )


def _nic(machine: Placed, step: float) -> Attributes:
    """The edge of a machine's network cards, or of its cards' share of them."""
    node, cards = machine.node, machine.cards
    wire = {"share": node.network_share, "latency_seconds": step, "kind": "nic", "tier": "leaf"}
    total, links = node.network_bytes_per_s * cards / node.gpus, max(1, node.nics * cards // node.gpus)
    return {"bandwidth_bytes_per_s": total, "links": links, **wire}


def _island_cards(machine: Placed) -> list[int]:
    """Cards in use of each island of a machine."""
    size, cards = machine.node.island_size, machine.cards
    return [min(size, cards - first) for first in range(0, cards, size)]
