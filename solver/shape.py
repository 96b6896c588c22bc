"""Blocks of free cards as a plain cluster: the tiers that their layout over leaves gives its groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from ..hardware import Cluster, Node
from ..inputs.record import dataclass
from ..plans import Request
from .blocks import SCALE, Leaf, Spread, spread


@dataclass(frozen=True)
class Shape:
    """`number` blocks of `size` cards, their stages of `stage_blocks` blocks lying as `laid` says."""

    cluster: Cluster
    size: int
    number: int
    stage_blocks: int
    laid: Spread

    @cached_property
    def virtual(self) -> Cluster:
        """A plain cluster of one block a machine, with the tiers that the layout gives its groups.

        One leaf holds all: one leaf. Whole stages in several leaves: a leaf a stage, so that only the
        boundaries between stages leave it. Split stages: their groups cross a spine as oversubscribed as
        the busiest uplink.
        """
        used = sum(1 for u, w in zip(self.laid.whole, self.laid.split, strict=True) if u or w)
        ratio = self.cluster.oversubscription
        leaf = self.number if used <= 1 else self.stage_blocks
        if self.laid.split_stages:
            leaf, ratio = max(1, self.stage_blocks // 2), max(1.0, self.laid.load / SCALE)
        return self.near.model_copy(update={"leaf_nodes": leaf, "oversubscription": ratio})

    @cached_property
    def near(self) -> Cluster:
        """The same blocks as if all were under one leaf."""
        return Cluster(
            name=f"{self.size} free cards of {self.cluster.name}",
            node=block_node(self.cluster.node, self.size),
            nodes=self.number,
            leaf_nodes=self.number,
            notes=self.cluster.notes,
        )


def block_node(node: Node, size: int) -> Node:
    """`size` cards of a machine as a machine: their share of its network cards, host memory and cores."""
    share = size / node.gpus
    island = min(node.island_size, size)
    changes = {
        "name": f"{size} of {node.name}",
        "gpus": size,
        "island_size": island,
        "domain_size": island,
        "link": node.link if island > 1 else "pcie",
        "card_order": (),
        "nics": max(1, node.nics * size // node.gpus),
        "nic_bytes_per_s": node.network_bytes_per_s * share / max(1, node.nics * size // node.gpus),
        "host_memory_bytes": int(node.host_memory_bytes * share),
        "host_dram_bytes_per_s": node.host_dram_bytes_per_s * share,
        "cpu_cores": max(1, int(node.cpu_cores * share)),
        "nvme_bytes": int(node.nvme_bytes * share),
        "usd_per_hour": None if node.usd_per_hour is None else node.usd_per_hour * share,
    }
    fields = {name: getattr(node, name) for name in Node.model_fields}
    return Node.model_validate({**fields, **changes})


def ideal_cluster(node: Node, cards: int) -> Cluster | None:
    """`cards` cards in whole machines under one leaf, or in part of one; None where they are neither."""
    if cards < node.gpus:
        return Cluster(name=node.name, node=node, cards=cards)
    if cards % node.gpus:
        return None
    count = cards // node.gpus
    return Cluster(name=node.name, node=node, nodes=count, leaf_nodes=count)


def leaves_of(cluster: Cluster, size: int) -> list[Leaf]:
    """Blocks of `size` cards free under each leaf, and the blocks its uplink carries at full rate."""
    found = []
    for frees in cluster.free:
        cards = len(frees) * cluster.node.gpus / cluster.oversubscription
        found.append(Leaf(sum(free // size for free in frees), max(1, int(cards / size))))
    return found


def shapes(
    request: Request, cards: int, size: int, stages: Sequence[int]
) -> Iterator[tuple[Shape, tuple[int, ...]]]:
    """Shapes of so many cards, each with the numbers of `stages` that have it."""
    cluster, number = request.cluster, cards // size
    by_blocks: dict[int, list[int]] = {}
    for p in stages:
        wide = cards // p
        if wide % size == 0 or size % wide == 0:
            by_blocks.setdefault(max(1, wide // size), []).append(p)
    for blocks, some in sorted(by_blocks.items(), reverse=True):
        laid = spread(leaves_of(cluster, size), number // blocks, blocks)
        if laid is not None:
            yield Shape(cluster, size, number, blocks, laid), tuple(some)
