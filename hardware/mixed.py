"""A mixed cluster by its pools: their names, and the cluster as if all machines were of one of them."""

from __future__ import annotations

from .cluster import Cluster


def pool_names(cluster: Cluster) -> tuple[str, ...]:
    """A name for each pool: its machine type, numbered where two pools share it."""
    names = [pool.node.name for pool in cluster.pools]
    return tuple(
        name if names.count(name) == 1 else f"{name} #{names[:index].count(name) + 1}"
        for index, name in enumerate(names)
    )


def all_alike(cluster: Cluster, index: int) -> Cluster | None:
    """As many cards as `cluster` has, in machines of pool `index`; None where they fill no whole ones.

    A group of cards of that pool costs here what it costs in the mixed cluster.
    """
    pool = cluster.pools[index]
    if cluster.gpus % pool.node.gpus:
        return None
    return pool.model_copy(update={"nodes": cluster.gpus // pool.node.gpus, "notes": ()})
