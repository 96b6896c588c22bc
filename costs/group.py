"""Groups of ranks that talk to each other, and where a cluster places them."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from ..hardware import Cluster
from ..inputs.record import dataclass
from .columns import Floats, Ints, numbered


@dataclass(frozen=True)
class Group:
    """Ranks that talk to each other, one entry a row: how many, how many share an island, and where.

    `level` is the index of the smallest tier that holds the whole group.
    """

    size: Ints
    per_island: Ints
    level: Ints

    @property
    def islands(self) -> Ints:
        """Over how many islands a group lies."""
        found: Ints = -(-self.size // np.maximum(self.per_island, 1))
        return found

    @property
    def ring_share(self) -> Floats:
        """(n-1)/n: what each rank sends of a payload, in a ring or an all-to-all."""
        size = self.size.astype(np.float64)
        return (size - 1.0) / size

    @cached_property
    def places(self) -> tuple[list[tuple[int, int, int]], Ints]:
        """The distinct (size, per_island, level), and the index of each row's into them."""
        packed = (self.size << 32) | (self.per_island << 8) | self.level
        keys, _, index = numbered(packed)
        return [(key >> 32, key >> 8 & 0xFFFFFF, key & 0xFF) for key in keys.tolist()], index


def placed(cluster: Cluster, tensor: Ints, size: Ints, span: Ints, outer: Ints, stride: Ints) -> Group:
    """A group over `span` consecutive ranks, `outer` steps of `stride` wide.

    A span that neither divides the island nor is a multiple of it has groups that straddle two
    islands; such a group counts the members of the smaller part. Its tier is the slowest that any
    group of that span reaches into.
    """
    table = cluster.tiers()
    island = table.tiers[0].cards
    straddles = (span > 1) & (island % span != 0) & (span % island != 0)
    reach = np.where(straddles, np.gcd(island, span), island)
    inner = size // np.maximum(outer, 1)
    inner = np.minimum(inner, np.maximum(reach // tensor, 1))
    per_island = np.minimum(size, inner * np.minimum(np.maximum(reach // stride, 1), np.maximum(outer, 1)))
    return Group(size, per_island, table.holding(span))
