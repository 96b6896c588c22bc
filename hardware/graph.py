"""The graph of a cluster at node level: machines, islands, NVLink domains, leaf switches, spine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from .network import network
from .node import Node

if TYPE_CHECKING:
    from .cluster import Cluster

Attributes = dict[str, Any]


class Parts(NamedTuple):
    """Vertices of a graph by name, and its edges from inside to outside."""

    vertices: list[tuple[str, Attributes]]
    edges: list[tuple[str, str, Attributes]]


def parts(cluster: Cluster, machines: Sequence[Placed]) -> Parts:
    """The parts of the graph of `cluster` in which these `machines` stand."""
    total = cluster.gpus
    return Parts(
        [*_machines(machines, total), *_switches(machines, total)],
        [*_inner_edges(machines, total), *_network_edges(machines, cluster.oversubscription)],
    )


def build_graph(cluster: Cluster) -> Any:
    """`cluster` as a frozen ``networkx.Graph``; see `Cluster.graph` for its attributes."""
    import networkx

    graph = networkx.Graph(name=cluster.name)
    whole = parts(cluster, placed(cluster))
    graph.add_nodes_from(whole.vertices)
    graph.add_edges_from(whole.edges)
    return networkx.freeze(graph)


class Placed(NamedTuple):
    """One machine in its place: cards in use, NVLink domain (None: its own), leaf; or several alike in it."""

    number: int
    node: Node
    cards: int
    domain: int | None
    leaf: int
    copies: int = 1


def kinds(cluster: Cluster) -> list[Placed]:
    """Machines that stand for all: what holds of them holds of every leaf, domain and machine.

    Of each pool two leaves (equal leaves have equal uplinks) and the last, which may hold fewer machines.
    """
    if cluster.free:
        return placed(cluster)
    found: list[Placed] = []
    leaf = domain = 0
    for pool in cluster.pools:
        wide, cards = pool.node.domain_nodes, pool.cards or pool.node.gpus
        whole, rest = divmod(pool.nodes, pool.leaf_size)
        for size in [pool.leaf_size] * min(whole, 2) + [rest] * bool(rest):
            step = wide if wide > 1 else size
            for first in range(0, size, step):
                own = domain if wide > 1 else None
                found.append(Placed(len(found), pool.node, cards, own, leaf, min(step, size - first)))
                domain += 1
            leaf += 1
    return found


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


def _machines(machines: Sequence[Placed], total: int) -> Iterator[tuple[str, Attributes]]:
    """Machines, and the islands of machines that have several."""
    law, rates = network(), _Rates()
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


def _held(machines: Sequence[Placed]) -> tuple[dict[int, list[Placed]], dict[int, list[Placed]]]:
    """Machines by domain and by leaf."""
    domains: dict[int, list[Placed]] = {}
    leaves: dict[int, list[Placed]] = {}
    for machine in machines:
        leaves.setdefault(machine.leaf, []).append(machine)
        if machine.domain is not None:
            domains.setdefault(machine.domain, []).append(machine)
    return domains, leaves


def _cards(machines: Sequence[Placed]) -> int:
    return sum(machine.cards * machine.copies for machine in machines)


def _several(machines: Sequence[Placed]) -> bool:
    """Whether there is more than one machine, so that they have a network."""
    return len(machines) > 1 or machines[0].copies > 1


def _switches(machines: Sequence[Placed], total: int) -> Iterator[tuple[str, Attributes]]:
    """NVLink domains of several machines, leaf switches, the spine."""
    domains, leaves = _held(machines)
    for domain, held in domains.items():
        yield f"domain:{domain}", {"kind": "domain", "tier": "island", "cards": _cards(held)}
    for leaf, held in leaves.items() if _several(machines) else ():
        yield f"leaf:{leaf}", {"kind": "leaf", "tier": "leaf", "cards": _cards(held)}
    if len(leaves) > 1:
        yield "spine", {"kind": "spine", "tier": "spine", "cards": total}


def _inner_edges(machines: Sequence[Placed], total: int) -> Iterator[tuple[str, str, Attributes]]:
    """PCI Express from the islands of a machine to it; NVLink from a tray to its domain."""
    law, rates = network(), _Rates()
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


def _network_edges(
    machines: Sequence[Placed], oversubscription: float
) -> Iterator[tuple[str, str, Attributes]]:
    """Network cards from machines to their leaf; uplinks, divided by the oversubscription, to the spine.

    A machine in part of whose cards others work has its share of the network cards, at least one.
    """
    if not _several(machines):
        return
    step = network().ring_network_step_seconds
    leaves = _held(machines)[1]
    alike: dict[tuple[int, int], Attributes] = {}
    for leaf, held in leaves.items():
        up, share = 0.0, 1.0
        for machine in held:
            key = (id(machine.node), machine.cards)
            nic = alike.get(key) or alike.setdefault(key, _nic(machine, step))
            up, share = up + nic["bandwidth_bytes_per_s"] * machine.copies, min(share, nic["share"])
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
