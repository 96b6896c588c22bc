"""What a rank holds or moves of a layer, of the embedding and of the head."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..inputs.record import dataclass
from .columns import Bools, Floats
from .layout import Layout
from .portion import Portion
from .terms import Note, Term, kib


def divided(parameters: ArrayLike, sharded: ArrayLike, ranks: ArrayLike) -> Floats:
    """Parameters on a rank: N / n where this state is sharded over n ranks, else N.

    >>> float(divided(30e9, True, 8))
    3750000000.0
    """
    return np.asarray(parameters, dtype=np.float64) / np.where(sharded, ranks, 1)


@dataclass(frozen=True)
class Held:
    """What a rank has of a layer, by kind, of the embedding and of the head: parameters, then bytes.

    `expert` is the part of `layer` that belongs to routed experts.
    """

    layer: Floats
    expert: Floats
    first: Floats
    last: Floats

    @classmethod
    def whole(cls, portion: Portion) -> Held:
        """The parameters of a portion, unsharded."""
        return cls(portion.layer, portion.expert, portion.first, portion.last)

    @classmethod
    def of(cls, layout: Layout, portion: Portion, sharded: Bools) -> Held:
        """Parameters after sharding over `shard` (dense) or `expert_shard` cards, where `sharded`."""
        wide = sharded[:, None]
        dense = divided(portion.dense, wide, layout.shard[:, None])
        expert = divided(portion.expert, wide, layout.expert_shard[:, None])
        first = divided(portion.first, sharded, layout.shard)
        return cls(dense + expert, expert, first, divided(portion.last, sharded, layout.shard))

    def scaled(self, each: Floats) -> Held:
        """`each` times as much in each row."""
        wide = each[:, None]
        return Held(self.layer * wide, self.expert * wide, self.first * each, self.last * each)

    def beside(self, other: Held) -> Held:
        """Both together."""
        return Held(
            self.layer + other.layer,
            self.expert + other.expert,
            self.first + other.first,
            self.last + other.last,
        )

    @property
    def dense(self) -> Floats:
        """The part of `layer` that is no routed expert's."""
        return self.layer - self.expert

    def term(self, name: str, note: Note, each: Floats, offloaded: Bools) -> Term:
        """`each` bytes a parameter; where `offloaded`, the root's share is gone and layers' may go."""
        root = np.where(offloaded, 0.0, each)
        layer = self.layer * each[:, None]
        return Term(
            name,
            "stage",
            note,
            kib(
                layer=layer,
                offloaded=-np.where(offloaded[:, None], layer, 0.0),
                first=self.first * root,
                last=self.last * root,
            ),
        )
