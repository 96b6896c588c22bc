"""The cluster of a row.

Rules: the machine is the catalogue's first node type with the card, else the one that
``catalogue/machines.json`` names for it or for its kind of links, with the row's card put in. `inter_link`
gives the network (`links`); blank or without a rate: the network of that node type. `intra_link` tells cards
on PCI Express alone from cards that a bridge joins, where the card has a bridge. A link domain of several
machines is used by the largest power of two of its cards (64 of an NVL72's 72): groups of 2, 4, .. 64 must
not straddle it; links from chip to chip (a TPU's) join all machines of the row. `gpus_per_node` below the
node's count with all cards in one machine is part of that machine; blank it is what the node type holds, but
at least 8 outside an NVL72, and divides the cards.
"""

from __future__ import annotations

from functools import cache
from math import gcd
from typing import Any

from pydantic import ValidationError

from ..hardware import Cluster, Gpu, Node, node, node_names
from ..inputs import InputError
from ..inputs.origin import as_input_error
from .cards import card_of
from .facts import facts
from .links import fabric_of, network_of
from .record import Record
from .refusal import Refused

USUAL = 8
"""Cards of a machine of a kind that no catalogue describes."""


def cluster_of(record: Record) -> tuple[Cluster, tuple[str, ...], tuple[str, ...]]:
    """The cluster of a row, the columns that a rule filled and what stands in for what.

    `Refused` without cards or card count.
    """
    card = card_of(record.said("gpu"), record.text("source_ref"))
    gpus = _gpus(record)
    try:
        machine = _linked(_machine(card.gpu), record)
        per_node = _per_node(record, machine, gpus)
        machine = _with_network(machine, record, per_node)
        cluster = _cluster(machine, gpus, per_node)
    except InputError as error:
        raise Refused("cluster", f"makes no cluster: {error}") from None
    except ValidationError as error:
        raise Refused("cluster", f"makes no cluster: {as_input_error(error, {}).reason}") from None
    imputed = ["gpu"] if card.imputed else []
    if gpus > per_node and network_of(record.said("inter_link"), per_node) is None:
        imputed.append("inter_link")
    return cluster, tuple(imputed), card.stand_ins


def _gpus(record: Record) -> int:
    """The cards of a row: as counted, else the product of its degrees where the data ranks are among them."""
    if not record.integer("gpus") and record.integer("dp"):
        degrees = [record.integer(column) or 1 for column in ("dp", "tp", "pp", "cp")]
        return degrees[0] * degrees[1] * degrees[2] * degrees[3]
    return record.needed("gpus")


def _per_node(record: Record, machine: Node, gpus: int) -> int:
    stated = record.integer("gpus_per_node")
    if stated:
        return stated
    usual = machine.gpus if machine.domain_nodes > 1 else max(machine.gpus, USUAL)
    return gpus if gpus <= usual else gcd(gpus, usual)


def _cluster(machine: Node, gpus: int, per_node: int) -> Cluster:
    name = f"{gpus} x {machine.gpu.name}"
    if gpus <= machine.gpus and gpus <= per_node:
        return Cluster(name=name, node=machine, cards=gpus if gpus < machine.gpus else None)
    if gpus < per_node:
        per_node = gpus
    if gpus % per_node:
        raise Refused("cluster", f"{gpus} cards are no whole machines of {per_node}")
    if machine.gpu.interconnect in facts("machines")["joins_machines"]:
        machine = _changed(machine, gpus=per_node, island_size=per_node, domain_size=gpus)
    if machine.domain_size > machine.gpus:
        machine = _changed(machine, domain_size=machine.grouped_domain_size)
    if per_node != machine.gpus:
        size = _island(machine, per_node)
        machine = _changed(machine, gpus=per_node, island_size=size, domain_size=size)
    return Cluster(name=name, node=machine, nodes=gpus // per_node)


def _island(machine: Node, cards: int) -> int:
    """Cards of an island in a machine like `machine` that holds `cards`, no more than a bridge joins."""
    if machine.gpu.bridge_gpus is not None and machine.island_size > 1:
        return gcd(cards, machine.gpu.bridge_gpus)
    return gcd(cards, machine.island_size) if machine.island_size < machine.gpus else cards


@cache
def _machine(card: Gpu) -> Node:
    for name in _ordered():
        if node(name).gpu.name == card.name:
            return node(name)
    known = facts("machines")
    joined = card.interconnect if card.bridge_gpus is None else "none"
    kind = f"{joined} {card.arch}" if f"{joined} {card.arch}" in known["node_by_link"] else joined
    name = known["node_by_gpu"].get(card.name) or known["node_by_link"].get(kind)
    if name is None:
        raise Refused("no-machine", f"no node type holds {card.name}")
    return _changed(node(name), gpu=card)


@cache
def _ordered() -> tuple[str, ...]:
    """Node types, the maker's own before those of clouds, by name."""
    return tuple(sorted(node_names(), key=lambda name: (node(name).provider != "nvidia", name)))


def _linked(machine: Node, record: Record) -> Node:
    """`machine` with its cards joined as `intra_link` says, where the card allows both ways."""
    said, bridge = record.said("intra_link").lower(), machine.gpu.bridge_gpus
    if bridge is None or not said:
        return machine
    apart = "no nvlink" in said or "without nvlink" in said or ("nvlink" not in said and "pci" in said)
    if apart:
        return _changed(machine, link="pcie", island_size=1, domain_size=1)
    if "nvlink" in said and machine.gpus % bridge == 0:
        return _changed(machine, link="pairs", island_size=bridge, domain_size=bridge)
    return machine


def _with_network(machine: Node, record: Record, per_node: int) -> Node:
    link = record.said("inter_link")
    found = network_of(link, per_node, machine.nics if machine.gpus == per_node else None)
    fabric = fabric_of(link, machine.fabric)
    if found is None:
        return _changed(machine, fabric=fabric)
    return _changed(machine, nics=found[0], nic_bytes_per_s=found[1], fabric=fabric)


def _changed(machine: Node, **changes: Any) -> Node:
    """`machine` with other values, validated again."""
    values = {name: getattr(machine, name) for name in Node.model_fields}
    return Node.model_validate(values | changes)
