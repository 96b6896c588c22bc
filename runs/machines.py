"""The cluster of a row.

Rules: the machine is the catalogue's first node type with the card, else the one that
``catalogue/machines.json`` names for it, with the row's card put in. `inter_link` gives the network:
"NxRGb" N cards of R Gbit/s, "R per GPU" one a card, "R per node" shared by the machine; blank or
without a rate: the network of that node type. A link domain of several machines is used by the largest
power of two of its cards (64 of an NVL72's 72): groups of 2, 4, .. 64 must not straddle it.
`gpus_per_node` below the node's count with all cards in one machine is part of that machine.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from pydantic import ValidationError

from ..hardware import Cluster, Gpu, Node, gpu, node, node_names
from ..inputs import InputError
from .facts import facts
from .record import Record
from .refusal import Refused

_COUNTED = re.compile(r"(\d+)x(\d+(?:\.\d+)?)\s*Gb")
_RATED = re.compile(r"(\d+(?:\.\d+)?)\s*([TG])b/s.*per (GPU|node)", re.IGNORECASE)
_FABRICS = (
    ("roce", "roce"),
    ("efa", "efa"),
    ("ndr", "infiniband-ndr"),
    ("hdr", "infiniband-hdr"),
    ("edr", "infiniband-hdr"),
    ("omnipath", "infiniband-hdr"),
)
BITS = 8


def cluster_of(record: Record) -> tuple[Cluster, tuple[str, ...]]:
    """The cluster of a row and the columns that a rule filled; `Refused` without cards or card count."""
    try:
        card = gpu(record.text("gpu"))
    except InputError as error:
        raise Refused("unknown-gpu", error.message) from None
    gpus = record.needed("gpus")
    machine = _with_network(_machine(card), record)
    per_node = record.integer("gpus_per_node") or machine.gpus
    crossing = gpus > per_node
    imputed = ("inter_link",) if crossing and network_of(record.text("inter_link"), per_node) is None else ()
    try:
        return _cluster(machine, gpus, per_node), imputed
    except (InputError, ValidationError) as error:
        raise Refused("cluster", f"makes no cluster: {error}") from None


def _cluster(machine: Node, gpus: int, per_node: int) -> Cluster:
    name = f"{gpus} x {machine.gpu.name}"
    if gpus <= machine.gpus and gpus <= per_node:
        return Cluster(name=name, node=machine, cards=gpus if gpus < machine.gpus else None)
    if gpus % per_node:
        raise Refused("cluster", f"{gpus} cards are no whole machines of {per_node}")
    if machine.domain_size > machine.gpus:
        machine = _changed(machine, domain_size=1 << (machine.domain_size.bit_length() - 1))
    if per_node != machine.gpus:
        size = min(per_node, machine.island_size)
        machine = _changed(machine, gpus=per_node, island_size=size, domain_size=size)
    return Cluster(name=name, node=machine, nodes=gpus // per_node)


@cache
def _machine(card: Gpu) -> Node:
    for name in _ordered():
        if node(name).gpu.name == card.name:
            return node(name)
    if card.name not in facts("machines")["node_by_gpu"]:
        raise Refused("no-machine", f"no node type holds {card.name}")
    return _changed(node(facts("machines")["node_by_gpu"][card.name]), gpu=card)


@cache
def _ordered() -> tuple[str, ...]:
    """Node types, the maker's own before those of clouds, by name."""
    return tuple(sorted(node_names(), key=lambda name: (node(name).provider != "nvidia", name)))


def network_of(link: str, per_node: int) -> tuple[int, float] | None:
    """(network cards, bytes/s of each) that `link` states, None where it gives no rate.

    >>> network_of("4x100Gb OmniPath", 8)
    (4, 12500000000.0)
    >>> network_of("400Gb/s per node GDR", 8)
    (1, 50000000000.0)
    """
    if counted := _COUNTED.search(link):
        return int(counted[1]), float(counted[2]) * 1e9 / BITS
    if rated := _RATED.search(link):
        rate = float(rated[1]) * (1e12 if rated[2].upper() == "T" else 1e9) / BITS
        return (per_node, rate) if rated[3].lower() == "gpu" else (1, rate)
    return None


def _with_network(machine: Node, record: Record) -> Node:
    link = record.text("inter_link")
    found = network_of(link, record.integer("gpus_per_node") or machine.gpus)
    fabric = next((name for word, name in _FABRICS if word in link.lower()), machine.fabric)
    if found is None:
        return _changed(machine, fabric=fabric)
    return _changed(machine, nics=found[0], nic_bytes_per_s=found[1], fabric=fabric)


def _changed(machine: Node, **changes: Any) -> Node:
    """`machine` with other values, validated again."""
    values = {name: getattr(machine, name) for name in Node.model_fields}
    return Node.model_validate(values | changes)
