"""A cluster in a few keys: what a person writes of it, beside or instead of what machines say."""

from __future__ import annotations

from pydantic import Field

from ...inputs import Frozen, InputError
from ..gpu import Gpu
from ..host import host
from ..named import gpu, gpu_names
from ..named_nodes import node
from ..node import Link, Node


class Bus(Frozen):
    """Bus rates measured on the machines (``nccl-tests`` all-reduce, large messages), GB/s of 1e9."""

    island: float | None = Field(default=None, gt=0)
    pcie: float | None = Field(default=None, gt=0)
    network: float | None = Field(default=None, gt=0)


class Description(Frozen):
    """One kind of machine and how many; all keys may be left out where a file or a catalogue tells them.

    `machine` is a type of the catalogue, `gpu` a card of it; the others overrule both. `mig` is a profile
    such as ``3g.40gb``: each slice then counts as a card without peers. Rates in one direction.
    """

    name: str | None = Field(default=None, min_length=1, max_length=200)
    machine: str | None = None
    gpu: str | None = None
    nodes: int | None = Field(default=None, ge=1, le=65536)
    gpus_per_node: int | None = Field(default=None, ge=1, le=1024)
    link: Link | None = None
    island_gpus: int | None = Field(default=None, ge=1, le=1024)
    nvlink_domain: int | None = Field(default=None, ge=1, le=65536)
    nics_per_node: int | None = Field(default=None, ge=1, le=1024)
    nic_gbit_per_s: float | None = Field(default=None, gt=0, le=1e6)
    fabric: str | None = None
    host_class: str | None = None
    host_memory_gib: float | None = Field(default=None, ge=0, le=1e6)
    cpu_cores: int | None = Field(default=None, ge=1, le=10**6)
    nvme_tb: float | None = Field(default=None, ge=0, le=1e6)
    usd_per_hour: float | None = Field(default=None, ge=0, le=1e9)
    mig: str | None = None
    topology: str | None = None
    measured_bus_gb_per_s: Bus = Bus()


NOT_GIVEN = "nothing"
NO_NETWORK = {"nics": 1, "nic_bytes_per_s": 1.25e9, "fabric": "tcp"}
"""What stands for the network of a machine until it is given, as several of them must have it."""


def no_fabric(found: Node, said: Description) -> list[str]:
    """What to say of a network whose rate was given, but not what kind it is."""
    if said.machine or said.fabric or said.nic_gbit_per_s is None or found.fabric != NO_NETWORK["fabric"]:
        return []
    return [f"fabric not known: taken as {found.fabric}, the slowest; give fabric (infiniband-ndr, roce)"]


def assumed_bridge(found: Node, said: Description) -> list[str]:
    """What to say of bridges between pairs of cards that nobody spoke of: they are sold apart."""
    if said.machine or said.link or said.island_gpus or found.link != "pairs":
        return []
    return ["link not known: pairs of cards taken as joined by their NVLink bridge; give link (pairs, pcie)"]


def card_of(description: Description, seen: list[Gpu], origin: str, named: str = "") -> Gpu:
    """The card: as described, else the one that was seen (`named` so). Raises `InputError` asking for it."""
    if description.gpu is not None:
        found = gpu(description.gpu, origin, "cluster.gpu")
    elif len(seen) == 1:
        found = seen[0]
    else:
        what = "leaves open which card it is" if seen else "does not name its cards"
        if named and not seen:
            what = f"names cards that the catalogue does not hold ({named})"
        legal = [card.name for card in seen] or list(gpu_names())
        reason = f"is required: the file {what}; say it with --set gpu=NAME (names: `list gpus`)"
        raise InputError("cluster.gpu", NOT_GIVEN, origin, reason, legal=legal[:8], code="missing")
    return sliced(found, description.mig, origin) if description.mig else found


def base_node(description: Description, card: Gpu | None, cards: int | None, origin: str) -> Node:
    """The machine before anything seen of it is laid over: a catalogue type, or the least its card allows.

    A machine of no known type has no known host memory (0) and asks for its network.
    """
    if description.machine is not None:
        return node(description.machine, origin, "cluster.machine")
    if card is None:
        card = card_of(description, [], origin)
    count = description.gpus_per_node or cards
    if count is None:
        reason = "is required: how many cards a machine has"
        raise InputError("cluster.gpus_per_node", NOT_GIVEN, origin, reason, legal=["8"], code="missing")
    kind = host().host_class("ddr4-1s")
    island = _island(card, count)
    return Node(
        name=f"{count}x {card.name}",
        gpu=card,
        gpus=count,
        link=_link(card, island),
        island_size=island,
        domain_size=island,
        **NO_NETWORK,
        host_memory_bytes=0,
        host_dram_bytes_per_s=kind.dram_bytes_per_s,
        cpu_adam_efficiency=kind.adam_efficiency,
        cpu_cores=1,
        nvme_bytes=0,
        source=f"described in {origin}",
    )


def _island(card: Gpu, count: int) -> int:
    """Cards that the card's own link joins by default: all, or what one bridge does."""
    if not card.nvlink_bytes_per_s:
        return 1
    size = min(count, card.bridge_gpus or count)
    return size if count % size == 0 else 1


def _link(card: Gpu, island: int) -> Link:
    if island == 1:
        return "pcie"
    if card.bridge_gpus:
        return "pairs"
    if card.peer_bytes_per_s is None:
        return "nvswitch"
    return "xgmi-mesh" if card.interconnect == "xgmi" else "nvlink-mesh"


def _joined(link: Link, card: Gpu, count: int, origin: str) -> int:
    """Cards that `link` joins on a machine of `count`, all on PCIe before. Raises `InputError` for none."""
    size = _island(card, count)
    if size == 1:
        reason = f"joins no cards of a machine of {count} {card.name}"
        raise InputError("cluster.link", link, origin, reason, legal=["pcie"])
    return size


def laid_over(found: Node, description: Description, card: Gpu | None, origin: str) -> Node:
    """`found` with what `description` says of it. Raises `InputError` where that cannot be."""
    said = description
    if said.link and said.island_gpus and (said.link == "pcie") != (said.island_gpus == 1):
        reason = f"contradicts link = {said.link}: islands of 1 are cards on PCIe alone"
        legal = ["1"] if said.link == "pcie" else ["2", "more"]
        raise InputError("cluster.island_gpus", said.island_gpus, origin, reason, legal=legal)
    changes: dict[str, object] = {}
    if card is not None and card != found.gpu:
        changes |= {"gpu": card}
    if said.gpus_per_node not in (None, found.gpus):
        size = _island(card or found.gpu, said.gpus_per_node or found.gpus)
        changes |= {"gpus": said.gpus_per_node, "island_size": size, "domain_size": size, "card_order": ()}
        changes |= {"link": _link(card or found.gpu, size)}
    if said.mig or said.link == "pcie":
        changes |= {"link": "pcie", "island_size": 1, "domain_size": 1, "card_order": ()}
    elif said.link and not said.island_gpus and changes.get("island_size", found.island_size) == 1:
        size = _joined(said.link, card or found.gpu, said.gpus_per_node or found.gpus, origin)
        changes |= {"island_size": size, "domain_size": size}
    if said.island_gpus is not None:
        changes |= {"island_size": said.island_gpus, "domain_size": said.island_gpus}
        changes |= {"link": _link(card or found.gpu, said.island_gpus)}
    plain = {
        "link": said.link,
        "domain_size": said.nvlink_domain,
        "nics": said.nics_per_node,
        "fabric": said.fabric,
        "cpu_cores": said.cpu_cores,
        "usd_per_hour": said.usd_per_hour,
        "nic_bytes_per_s": None if said.nic_gbit_per_s is None else said.nic_gbit_per_s * 1e9 / 8,
        "host_memory_bytes": None if said.host_memory_gib is None else round(said.host_memory_gib * 2**30),
        "nvme_bytes": None if said.nvme_tb is None else round(said.nvme_tb * 1e12),
        **{
            f"{word}_bus_bytes_per_s": None if rate is None else rate * 1e9
            for word, rate in said.measured_bus_gb_per_s.model_dump().items()
        },
    }
    changes |= {key: value for key, value in plain.items() if value is not None}
    if said.host_class is not None:
        kind = host().host_class(said.host_class, origin, "cluster.host_class")
        changes |= {
            "host_dram_bytes_per_s": kind.dram_bytes_per_s,
            "cpu_adam_efficiency": kind.adam_efficiency,
        }
    return changed(found, changes, origin)


def changed(found: Node, changes: dict[str, object], origin: str) -> Node:
    """`found` with fields replaced and checked again. Raises `InputError`."""
    from .checked import checked

    if not changes:
        return found
    fields = {name: getattr(found, name) for name in Node.model_fields}
    return checked(Node, {**fields, **changes}, origin)


_PROFILE_SLICES = 7
"""Compute slices of a card that can be cut (MIG user guide): a profile ``Ng.MGB`` has N of them."""


def sliced(card: Gpu, profile: str, origin: str) -> Gpu:
    """One MIG slice of `card` as a card: N/7 of its arithmetic, M GB of its memory, no peers.

    Bandwidth goes with memory. Raises `InputError` for a profile that is none.
    """
    import re

    met = re.fullmatch(r"(\d)g\.(\d{1,3})gb(?:\+me)?", profile.strip().lower())
    parts, memory = (int(met[1]), int(met[2]) * 1e9) if met else (0, 0.0)
    if not 1 <= parts <= _PROFILE_SLICES or not 0 < memory <= card.memory_bytes:
        reason = f"is no profile of {card.name}: write Ng.MGB"
        raise InputError("cluster.mig", profile, origin, reason, legal=["1g.10gb", "3g.40gb"])
    share, held = parts / _PROFILE_SLICES, memory / card.memory_bytes
    peaks = {
        name: value * share for name, value in card if name.endswith("_flops_per_s") and value is not None
    }
    changes = {
        "name": f"{card.name} MIG {profile.strip().lower()}",
        "aliases": (),
        "memory_bytes": int(memory),
        "memory_usable_bytes": int(card.memory_usable_bytes * held),
        "hbm_bytes_per_s": card.hbm_bytes_per_s * held,
        "interconnect": "none",
        "nvlink_bytes_per_s": 0.0,
        "bridge_gpus": None,
        "peer_bytes_per_s": None,
        "peer_to_peer": False,
        "sms": None if card.sms is None else max(1, int(card.sms * share)),
        "source": f"{card.source}; {parts}/{_PROFILE_SLICES} of it (MIG)",
        **peaks,
    }
    return card.model_copy(update=changes)
