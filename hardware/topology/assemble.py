"""From what was seen and described to a `Cluster`; what neither tells becomes a note or a question."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...inputs import InputError
from ..gpu import Gpu
from ..host import NO_HOST
from ..named import gpu, gpu_names
from ..named_nodes import node_names
from ..node import Node
from .cards import cards_named
from .checked import checked
from .describe import NOT_GIVEN, Description, base_node, card_of, changed, laid_over, no_fabric
from .islands import Islands
from .sighting import Machine, Sighting

if TYPE_CHECKING:
    from ..cluster import Cluster

PER_LINK = {
    "volta": 25e9,
    "turing": 25e9,
    "ampere": 25e9,
    "hopper": 25e9,
    "blackwell": 50e9,
    "blackwell-ultra": 50e9,
}
"""Bytes/s of one NVLink in one direction by generation (NVIDIA NVLink pages): a card's count follows."""

_MIG = re.compile(r"(?:-MIG-|_)(\dg\.\d{1,3}gb)", re.I)
"""What GPU feature discovery (strategy single) and Slurm's AutoDetect add to a card cut in slices."""

RDMA_FABRIC = "roce"
"""What the network cards of a matrix are taken for: nvidia-smi lists RDMA devices alone (its manual)."""


def cluster_of_sighting(sighting: Sighting, said: Description, origin: str, **network: Any) -> Cluster:
    """The cluster of a sighting. `network` holds oversubscription and leaf_nodes where they were said.

    Machines of one kind make one pool; several kinds make a mixed cluster, the largest pool first.
    Raises `InputError`, most often asking for what nobody said.
    """
    from ..cluster import Cluster
    from ..pool import Pool

    machines = _alike(sighting)
    kinds = sorted(machines.values(), key=lambda same: -sum(m.cards or 0 for m in same))
    notes = list(sighting.notes)
    pools = []
    for same in kinds:
        found, more = _node(same[0], said, origin)
        pools.append(Pool(node=found, nodes=len(same)))
        notes += more
    several = sum(pool.nodes for pool in pools) if len(pools) > 1 else said.nodes or pools[0].nodes
    if several > 1 and not said.machine:
        for same in kinds:
            _ask_network(same[0], said, origin)
    if len(pools) == 1 and said.nodes:
        pools = [pools[0].model_copy(update={"nodes": said.nodes})]
    free, more = _free(sighting, pools)
    fields = {
        "name": said.name or pools[0].node.name,
        "node": pools[0].node,
        "nodes": pools[0].nodes,
        "others": tuple(pools[1:]),
        "free": free if said.nodes is None else (),
        "notes": tuple(dict.fromkeys(notes + more)),
        **_leaf_nodes(sighting),
        **network,
    }
    return checked(Cluster, fields, origin)


def _alike(sighting: Sighting) -> dict[tuple[object, ...], list[Machine]]:
    """Machines by what a plan can tell apart: card, count, kind, links and network cards."""
    found: dict[tuple[object, ...], list[Machine]] = {}
    for machine in sighting.machines:
        islands = Islands(matrix=machine.matrix) if machine.matrix else None
        shape = (islands.size, islands.shape, len(islands.rail_nics)) if islands else machine.nics
        found.setdefault((machine.cards, machine.card, machine.card_bytes, machine.kind, shape), []).append(
            machine
        )
    return found


def _node(machine: Machine, said: Description, origin: str) -> tuple[Node, list[str]]:
    """The node type of a machine, and what of it is not known."""
    notes: list[str] = []
    known = machine.kind if machine.kind.lower() in {name.lower() for name in node_names()} else None
    if known and not said.machine and not said.gpu:
        said = said.model_copy(update={"machine": known})
    slices = _MIG.search(machine.card)
    if slices and said.mig is None:
        said = said.model_copy(update={"mig": slices[1]})
        notes.append(f"cards are MIG slices of {slices[1]}: each counts as a card without peers")
    card = None
    if not said.machine or said.gpu:
        card = card_of(said, _seen_cards(machine), origin, machine.card)
        if not said.gpu and not machine.card:
            notes.append(f"card not named: taken as {card.name}, the one with so many NVLinks")
        if (
            card.interconnect == "nvlink"
            and machine.matrix is None
            and not said.link
            and not said.island_gpus
        ):
            notes.append(f"links between cards not seen: taken as {card.name} has them")
    found = base_node(said, card, machine.cards, origin)
    if machine.cards not in (None, found.gpus) and said.gpus_per_node is None:
        found = laid_over(found, Description(gpus_per_node=machine.cards), card, origin)
    changes: dict[str, object] = {}
    if machine.host_memory_bytes is not None:
        changes |= {"host_memory_bytes": machine.host_memory_bytes}
    if machine.cpu_cores is not None:
        changes |= {"cpu_cores": machine.cpu_cores}
    if machine.nics is not None:
        changes |= {"nics": machine.nics}
    found = changed(found, changes, origin)
    if machine.matrix is not None:
        found, more = _with_matrix(found, Islands(matrix=machine.matrix), said)
        notes += more
    if not found.host_memory_bytes and said.host_memory_gib is None:
        notes.append(NO_HOST)
    found = laid_over(found, said, card, origin)
    return found, [*notes, *no_fabric(found, said)]


def _seen_cards(machine: Machine) -> list[Gpu]:
    """Cards the machine may hold, by its name for them, else by their NVLinks."""
    if machine.card:
        slices = _MIG.search(machine.card)
        return cards_named(_MIG.sub("", machine.card), None if slices else machine.card_bytes)
    if machine.matrix is None:
        return []
    islands = Islands(matrix=machine.matrix)
    if islands.shape not in ("nvswitch", "nvlink-mesh"):
        return []
    most = islands.counts[-1] if islands.shape == "nvswitch" else islands.degrees[1]
    cards = [gpu(name) for name in gpu_names()]
    return [c for c in cards if links_in_all(c) == most and c.joins(islands.size)]


def links_in_all(card: Gpu) -> int | None:
    """NVLinks of a card, None where its rate is no whole number of links.

    >>> links_in_all(gpu("A100-SXM-80GB")), links_in_all(gpu("B200-SXM")), links_in_all(gpu("L4"))
    (12, 18, None)
    """
    each = PER_LINK.get(card.arch)
    if not each or not card.nvlink_bytes_per_s or card.interconnect != "nvlink":
        return None
    count = card.nvlink_bytes_per_s / each
    return round(count) if count == round(count) else None


def _with_matrix(found: Node, islands: Islands, said: Description) -> tuple[Node, list[str]]:
    """`found` as its matrix shows it: islands, weakest link, order of cards, network cards in use."""
    joined, links = _island_links(found, islands)
    used, rails = _rails(islands, said)
    order = islands.order if islands.order != tuple(range(found.gpus)) else ()
    notes = [*islands.notes(), *links]
    if not found.gpu.peer_to_peer and islands.path:
        through = "has no peer-to-peer copies: traffic between cards goes through host memory"
        notes.append(f"{found.gpu.name} {through}")
    return changed(found, {"card_order": order, **joined, **used}, "matrix"), [*notes, *rails]


def _island_links(found: Node, islands: Islands) -> tuple[dict[str, object], list[str]]:
    """Fields of a machine's islands and their links where the matrix differs from it, and what to say."""
    card, notes = found.gpu, []
    changes: dict[str, object] = {}
    size = islands.size if islands.size == 1 or card.joins(islands.size) else 1
    if size == 1 and card.interconnect == "nvlink" and card.bridge_gpus is None and found.gpus > 1:
        notes.append(
            f"{card.name} has NVLink but the matrix shows none: taken as shown; the PCIe-only view "
            "(topo -mp) hides it, so paste topo -m"
        )
    if size != islands.size:
        notes.append(f"{card.name} has no NVLink that joins {islands.size} cards: its islands are left out")
    if size != found.island_size:
        domain = found.domain_size if size == found.gpus and found.domain_size > size else size
        shape = islands.shape if size > 1 else "pcie"
        changes |= {"island_size": size, "domain_size": domain, "link": shape}
    elif size > 2 and islands.shape != found.link:
        changes |= {"link": islands.shape}
    if islands.shape == "nvlink-mesh" and size > 1:
        changes |= {"link_share": islands.degrees[0] / islands.degrees[1]}
    if islands.shape in ("nvswitch", "pairs") and size > 1:
        whole = links_in_all(card) or islands.counts[-1]
        changes |= {"link_share": min(1.0, islands.weakest / whole)}
        if islands.weakest < whole:
            notes.append(f"NV{islands.weakest} of the {whole} links of {card.name}: rates are scaled to it")
    return changes, notes


def _rails(islands: Islands, said: Description) -> tuple[dict[str, object], list[str]]:
    """Network cards next to cards, where nothing else tells how many there are, and what to say of them."""
    rails = islands.rail_nics
    if not rails or said.nics_per_node is not None or said.machine is not None:
        return {}, []
    changes: dict[str, object] = {"nics": len(rails)}
    notes = []
    if said.fabric is None:
        changes |= {"fabric": RDMA_FABRIC}
        notes.append(f"fabric not known: the listed network cards do RDMA, so taken as {RDMA_FABRIC}")
    total = len(islands.matrix.nics)
    spare = total - len(rails)
    if spare and all(islands.rails):
        notes.append(f"{spare} of {total} network cards are next to no card: not counted")
    return changes, notes


def _ask_network(machine: Machine, said: Description, origin: str) -> None:
    """Several machines need the rate of their network, which no matrix and no scheduler tells."""
    if machine.kind.lower() in {name.lower() for name in node_names()} and not said.gpu:
        return
    reason = "is required for several nodes: nothing in the file tells the rate of their network"
    if said.nic_gbit_per_s is None:
        raise InputError(
            "cluster.nic_gbit_per_s", NOT_GIVEN, origin, reason, legal=["400", "200", "100"], code="missing"
        )
    seen = machine.nics or (machine.matrix and machine.matrix.nics)
    if said.nics_per_node is None and not seen:
        raise InputError("cluster.nics_per_node", NOT_GIVEN, origin, reason, legal=["8", "1"], code="missing")


def _free(sighting: Sighting, pools: list[Any]) -> tuple[tuple[tuple[int, ...], ...], list[str]]:
    """Free cards by leaf and machine, empty where all of one pool are free under one leaf."""
    machines = [m for m in sighting.machines if m.cards]
    whole = all(m.free in (None, m.cards) for m in machines)
    if len(pools) > 1 or not machines:
        held = sum(1 for m in machines if m.free not in (None, m.cards))
        return (), [
            f"{held} nodes of the mixed cluster are in part or wholly taken: counted as free"
        ] if held else []
    sizes = {leaf: sum(1 for m in machines if m.leaf == leaf) for leaf in {m.leaf for m in machines}}
    if whole and len(set(sizes.values())) == 1:
        return (), []
    leaves: dict[str, list[int]] = {}
    for machine in machines:
        free = machine.cards if machine.free is None else machine.free
        leaves.setdefault(machine.leaf, []).append(free or 0)
    found = tuple(tuple(sorted((f for f in frees if f), reverse=True)) for _, frees in sorted(leaves.items()))
    kept = tuple(frees for frees in found if frees)
    lost = sum(m.cards or 0 for m in machines) - sum(map(sum, kept))
    if not kept:
        raise InputError("cluster.file", "0 free cards", sighting.format, "no card is free", code="bad-file")
    return kept, [f"{lost} cards are taken, down or drained: {sum(map(sum, kept))} are free"] if lost else []


def _leaf_nodes(sighting: Sighting) -> Mapping[str, int]:
    """Machines under one leaf, where the source names leaves."""
    named = [m.leaf for m in sighting.machines if m.leaf]
    return {"leaf_nodes": max(named.count(leaf) for leaf in set(named))} if named else {}
