"""What of a layer's forward selective recompute runs again: seconds, FLOPs, collectives, exchanges of tokens.

A software stack has a share of each (`Again`); of modules that a job names (`recomputed`) work is counted.
"""

from __future__ import annotations

import numpy as np

from ..inputs.record import dataclass
from ..models.modules import latent
from ..models.stack import stacks
from ..models.transformer import Block
from .columns import Floats
from .layout import Layout
from .once import once
from .products import mixer_products
from .saved_sets import saved_sets
from .stacks import by_stack


@once
def again(layout: Layout, share: str) -> Floats:
    """A share (a field of `Again`) of each row's selective set, (n,)."""
    return by_stack(
        layout, lambda name: float(getattr(saved_sets()[stacks()[name].selective_set].again, share))
    )


@dataclass(frozen=True)
class Forward:
    """The parts of a layer's forward in seconds or in FLOPs, (n,)."""

    attended: Floats
    """Products of the mixer."""
    beside: Floats
    """Adapters, and 4-bit weights made 16-bit."""
    fed: Floats
    """Products of the feed-forward."""
    shared: Floats
    """Those of them that shared experts are."""
    core: Floats
    memory: Floats
    """Element-wise work."""
    named: Floats
    """Of it that of the modules which the job names."""

    def again(self, layout: Layout, block: Block) -> Floats:
        """What selective recompute runs of it in the backward."""
        if layout.training.recompute_modules:
            return self._modules(layout, block)
        part = again(layout, "products") * (self.attended + self.beside)
        part = part + again(layout, "feed_forward") * self.fed
        return part + again(layout, "core") * self.core + again(layout, "memory") * self.memory

    def _modules(self, layout: Layout, block: Block) -> Floats:
        named = layout.training.recompute_modules
        found = self.named
        if "core_attn" in named:
            found = found + self.core
        if "mla_up_proj" in named and latent(block):
            found = found + self.attended * _made_from_latents(layout, block)
        whole = "moe" if block.feed_forward.experts else "mlp"
        if whole in named:
            found = found + self.fed
        elif "shared_experts" in named:
            found = found + self.shared
        return found


def _made_from_latents(layout: Layout, block: Block) -> float:
    """Share of the mixer's weights that make queries, keys and values from their latents."""
    hidden = layout.transformer.hidden_size
    every = [product for mixer in block.mixers for product in mixer_products(mixer, hidden)]
    made = [
        product for mixer in block.mixers if mixer.kv_rank for product in mixer_products(mixer, hidden)[1:-1]
    ]
    return sum(p.n * p.k for p in made) / sum(p.n * p.k for p in every)


def pairs_again(layout: Layout, block: Block, pairs: Floats) -> Floats:
    """Of the tensor-parallel pairs of a layer's forward those that its backward runs again, (n,)."""
    named = layout.training.recompute_modules
    if not named:
        return again(layout, "tensor") * pairs
    fed = {"moe", "shared_experts"} if block.feed_forward.experts else {"mlp"}
    return np.clip(pairs - 1.0, 0.0, 1.0) * bool(fed & set(named))


def exchange_again(layout: Layout) -> Floats:
    """Share of a forward's exchange of tokens with experts that the backward runs again, (n,)."""
    named = layout.training.recompute_modules
    return np.full(len(layout.strategies), float("moe" in named)) if named else again(layout, "expert")
