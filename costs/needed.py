"""Which inputs of weight matrices a backward pass needs, by what of the layer is trained."""

from __future__ import annotations

from typing import NamedTuple

from ..models.adapters import adapted
from ..models.shares import trained_shares
from ..models.training import Training
from ..models.transformer import Block, Transformer


class Needed(NamedTuple):
    """Which inputs of weight matrices the backward needs, since such a matrix or its adapter is trained."""

    mixer: bool = True
    feed_forward: bool = True
    inner: bool = True
    ranks: tuple[int, int] = (0, 0)
    """Columns between the two halves of adapters a token meets: outside and inside routed experts."""

    @classmethod
    def of(cls, training: Training, transformer: Transformer, block: Block) -> Needed:
        """What one kind of layer needs. Autograd saves no input for a frozen matrix."""
        shares = trained_shares(training, transformer)
        found = adapted(block, transformer.hidden_size, training.lora_targets) if training.way.adapts else []
        reads = {matrix.reads for matrix in found}
        fed = bool(shares.experts if block.feed_forward.experts else shares.dense)
        rank = training.way.rank
        return cls(
            mixer=bool(shares.attention) or "attention" in reads,
            feed_forward=fed or "feed_forward" in reads,
            inner=fed or "inner" in reads,
            ranks=(
                sum(rank for matrix in found if not matrix.routed),
                sum(rank * matrix.met for matrix in found if matrix.routed),
            ),
        )


ALL_NEEDED = Needed()
"""Every matrix is trained."""
