"""A cluster: equal nodes under leaf switches and a spine, as a graph and as a table of tiers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property, lru_cache
from operator import index
from typing import Any, Self

from pydantic import Field, model_validator

from ..inputs import Frozen, InputError
from .graph import build_graph, kinds, parts
from .named_nodes import node as node_named
from .named_nodes import node_names
from .network import network
from .node import Node
from .pool import MAX_NODES, Pool
from .site import Site
from .tiers import TierTable, reduced

MAX_OVERSUBSCRIPTION = 1024.0

Origin = str | Mapping[str, str]
"""Where a value stood: one word for all fields, or a word for each (``{"cluster.nodes": "--nodes"}``)."""


class Cluster(Frozen):
    """`nodes` equal machines, `leaf_nodes` of them under one leaf switch, leaves joined by a spine.

    `oversubscription` r divides the bandwidth above the leaf by r. `cards` is set only where part of
    ONE node is used. In an NVL72 a node is a tray of 4 cards: 18 nodes make one rack.

    `others` are pools of other machines under leaves of their own (a mixed cluster). `free` lists the
    free cards of each machine by leaf where only some are to be had (fragments); nodes not named are
    taken. `notes` say what the source of the cluster did not show.
    """

    name: str = Field(min_length=1)
    node: Node
    nodes: int = Field(default=1, ge=1, le=MAX_NODES)
    oversubscription: float = Field(default=1.0, ge=1, le=MAX_OVERSUBSCRIPTION)
    leaf_nodes: int = Field(default_factory=lambda: network().leaf_nodes, ge=1, le=MAX_NODES)
    cards: int | None = Field(default=None, ge=1)
    others: tuple[Pool, ...] = ()
    free: tuple[tuple[int, ...], ...] = ()
    notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _fragments(self) -> Self:
        frees = [cards for leaf in self.free for cards in leaf]
        if self.free and (self.others or self.cards):
            raise InputError("cluster.free", self.free, "cluster", "is for whole machines of one kind")
        if self.free and (
            not frees or len(frees) > self.nodes or not 1 <= min(frees) <= max(frees) <= self.node.gpus
        ):
            reason = f"must list 1 to {self.node.gpus} cards for each of at most {self.nodes} machines"
            raise InputError("cluster.free", self.free, "cluster", reason)
        if self.others and self.cards:
            raise InputError("cluster.cards", self.cards, "cluster", "is for a cluster of one node")
        return self

    site: Site | None = None
    """Constants measured here, which go before the catalogue's."""

    @model_validator(mode="after")
    def _partial(self) -> Self:
        if self.cards is not None and (self.nodes != 1 or self.cards >= self.node.gpus):
            reason = f"is part of one node: below {self.node.gpus}, with nodes = 1"
            raise InputError("cluster.cards", self.cards, "cluster", reason)
        return self

    @classmethod
    def preset(
        cls, name: str, nodes: int = 1, oversubscription: float = 1.0, *, origin: Origin = "cluster.preset"
    ) -> Cluster:
        """`nodes` machines of the catalogue's type `name`.

        Raises `InputError` for ``cluster.preset``, ``cluster.nodes`` or ``cluster.oversubscription``.

        >>> Cluster.preset("dgx-h100", nodes=4).gpus
        32
        """
        machine = _machine(name, origin)
        return cls(
            name=machine.name,
            node=machine,
            nodes=_count(nodes, "cluster.nodes", origin, MAX_NODES),
            oversubscription=_ratio(oversubscription, origin),
        )

    @classmethod
    def read(cls, path: str | os.PathLike[str], **said: Any) -> Cluster:
        """The cluster in a file: ``nvidia-smi topo -m``, Slurm, kubectl, JSON devices, or our own TOML.

        `said` are keys of `topology.Description` that the file does not tell. Raises `InputError`.
        """
        from .topology import read_cluster

        return read_cluster(path, said)

    @classmethod
    def of_gpus(
        cls, name: str, gpus: int, oversubscription: float = 1.0, *, origin: Origin = "cluster.gpus"
    ) -> Cluster:
        """`gpus` cards in whole machines of type `name`, or part of one machine.

        Raises `InputError` for a count that is neither, with the nearest legal counts.

        >>> Cluster.of_gpus("dgx-h100", 4).cards
        4
        """
        machine = _machine(name, origin)
        count = _count(gpus, "cluster.gpus", origin, MAX_NODES * machine.gpus)
        nodes, rest = divmod(count, machine.gpus)
        if rest and nodes:
            legal = [str(nodes * machine.gpus), str((nodes + 1) * machine.gpus)]
            reason = f"must be whole nodes of {machine.gpus} cards, or part of one node"
            raise InputError("cluster.gpus", count, _origin(origin, "cluster.gpus"), reason, legal=legal)
        return cls(
            name=machine.name,
            node=machine,
            nodes=nodes or 1,
            oversubscription=_ratio(oversubscription, origin),
            cards=None if nodes else rest,
        )

    @property
    def gpus(self) -> int:
        """Cards of the cluster: the free ones where some are taken, those of all pools."""
        if self.free:
            return sum(map(sum, self.free))
        return (self.cards or self.nodes * self.node.gpus) + sum(pool.gpus for pool in self.others)

    @property
    def pools(self) -> tuple[Cluster, ...]:
        """Each pool as a cluster of its own; the cluster itself where it has one."""
        if not self.others:
            return (self,)
        first = Pool(node=self.node, nodes=self.nodes)
        return tuple(
            self.model_copy(update={"name": p.node.name, "node": p.node, "nodes": p.nodes, "others": ()})
            for p in (first, *self.others)
        )

    @property
    def told(self) -> str:
        """The machines in words: ``4 x dgx-h100``; those of no known type by their cards, ``2x RTX-3090``."""
        return " and ".join(_told(pool.node.name if self.others else pool.name, pool) for pool in self.pools)

    @property
    def island_gpus(self) -> int:
        """Cards of the largest NVLink island: at most the domain (72 in an NVL72) and the cluster."""
        return min(self.node.domain_size, self.gpus)

    @property
    def usd_per_hour(self) -> float | None:
        """List price of all nodes, None where the catalogue has none."""
        prices = [
            (self.node.usd_per_hour, self.nodes),
            *((p.node.usd_per_hour, p.nodes) for p in self.others),
        ]
        return None if any(usd is None for usd, _ in prices) else sum((usd or 0.0) * n for usd, n in prices)

    @property
    def leaf_size(self) -> int:
        """Nodes under one leaf: `leaf_nodes`, rounded up to whole NVLink domains."""
        domain = self.node.domain_nodes
        return -(-self.leaf_nodes // domain) * domain

    def tiers(self) -> TierTable:
        """The table of tiers, reduced from the parts of `graph` once.

        >>> [tier.name for tier in Cluster.preset("dgx-h100", nodes=64).tiers().tiers]
        ['island', 'leaf', 'spine']
        """
        return self._tiers

    @cached_property
    def _tiers(self) -> TierTable:
        return _tiers(self)

    def constant(self, name: str, catalogue: float) -> float:
        """A constant of the site (`Site.value`), `catalogue` where it was not measured here."""
        return catalogue if self.site is None else self.site.value(name, catalogue)

    @property
    def graph(self) -> Any:
        """The cluster as a frozen networkx graph at node level, built when first asked for.

        Vertices ``node:i``, ``island:i:j`` where a node has several islands, ``domain:k`` where nodes
        share an NVLink domain, ``leaf:k`` and ``spine``, with `kind`, `tier` and `cards`; the innermost
        ones also with the bus rate among their cards. Edges lead to the tier they carry traffic
        across: `kind` (pcie, nvlink, nic, uplink), `bandwidth_bytes_per_s` (one direction, all `links`
        together), `share` (what collectives reach of it), `latency_seconds`.
        """
        return _graph(self)


@lru_cache(maxsize=8)
def _graph(cluster: Cluster) -> Any:
    return build_graph(cluster)


@lru_cache(maxsize=1024)
def _tiers(cluster: Cluster) -> TierTable:
    return reduced(*parts(cluster, kinds(cluster)))


def _machine(name: object, origin: Origin) -> Node:
    field = "cluster.preset"
    return node_named(name, _origin(origin, field), field)  # type: ignore[arg-type]


def _origin(origin: Origin, field: str) -> str:
    return origin if isinstance(origin, str) else origin.get(field, "default")


def _count(value: object, field: str, origin: Origin, most: int) -> int:
    """`value` as a whole number in 1..most, or one `InputError`."""
    where = _origin(origin, field)
    if isinstance(value, bool | type) or not hasattr(value, "__index__"):
        raise InputError(field, value, where, "must be a whole number", legal=["1"])
    count = index(value)
    if not 1 <= count <= most:
        reason = f"must lie in 1..{most}"
        raise InputError(field, value, where, reason, legal=["1" if count < 1 else str(most)])
    return count


def _ratio(value: object, origin: Origin) -> float:
    """The oversubscription as a finite number in 1..`MAX_OVERSUBSCRIPTION`, or one `InputError`."""
    field = "cluster.oversubscription"
    where = _origin(origin, field)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(field, value, where, "must be a number", legal=["1.0"])
    if value > MAX_OVERSUBSCRIPTION:
        raise InputError(field, value, where, "is too large", legal=[str(MAX_OVERSUBSCRIPTION)])
    if not value >= 1:
        raise InputError(field, value, where, "must be at least 1 (1: none)", legal=["1.0"])
    return float(value)


def _other_card(machine: Node) -> str:
    """The card of a machine of the catalogue in words, where it is not that of its type."""
    if machine.name not in node_names() or machine.gpu.name == node_named(machine.name).gpu.name:
        return ""
    return f" with {machine.gpu.name}"


def _told(name: str, pool: Cluster) -> str:
    """Machines of one kind in words."""
    if name != pool.node.described_name:
        return f"{pool.nodes:,} x {name}{_other_card(pool.node)}"
    return name if pool.nodes == 1 else f"{pool.nodes:,} machines of {name}"
