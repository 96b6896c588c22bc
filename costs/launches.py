"""What the host launches for a layer's forward: operations of the layer, of adapters and of a 4-bit base."""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np

from ..inputs.data import data
from ..inputs.listed import Entries, Listed
from ..inputs.record import dataclass
from ..models.adapters import adapted
from ..models.mixers import Attention, Mixing
from ..models.transformer import Block
from .columns import Floats, distinct
from .law import law
from .layout import Layout
from .products import mixer_products
from .stacks import of_stacks, stack_has


@dataclass(frozen=True, kw_only=True)
class Launches(Listed):
    """Operations of one forward that the host launches one by one."""

    products: Literal["each", "packed"]
    """Whether queries, keys and values, and gate and up, are products of their own."""
    residual: float
    """Sums with the residual of a layer."""
    norm: dict[str, float]
    """One normalisation, by its kind (`Block.norm`)."""
    rotated: float
    """Rotation of queries and keys."""
    expanded: float
    """Keys and values written out to all heads."""
    gated: float
    """Activation and gate."""
    plain: float
    """The same of a feed-forward without a gate."""
    source: str


@cache
def launch_sets() -> Entries[Launches]:
    """What is launched, by the set of kernels: those of `elementwise.moved_sets`."""
    told = data(__package__, "catalogue", "launches.json")
    return Entries(told, lambda name, entry: Launches.listed(**entry))


def layer_launches(layout: Layout, block: Block) -> Floats:
    """Operations of a layer's forward under each row's stack, (n,).

    Of routed experts none: the host's part of them is `experts.floor_seconds`' own.
    """
    own, saved = of_stacks("moved_set"), of_stacks("activation_set")
    codes = layout.strategies.software_stack
    found = np.zeros(len(codes))
    for code in distinct(codes).tolist():
        known = launch_sets()[own[code] or saved[code]]
        found = np.where(codes == code, _operations(layout, block, known), found)
    products = stack_has(layout, "writes_scores", True)
    cores = np.where(products, law("unfused_core_launches"), 1.0) * len(block.mixers)
    total: Floats = found + cores + _of_adapters(layout, block)
    return total


def _operations(layout: Layout, block: Block, known: Launches) -> float:
    """All of a layer but its attention cores and adapters; a 4-bit product needs its weights first."""
    forward, hidden = block.feed_forward, layout.transformer.hidden_size
    products = sum(len(mixer_products(mixer, hidden)) for mixer in block.mixers)
    products += 2 if forward.shared_width or not forward.experts else 0
    if known.products == "each":
        products += sum(mixer.key_value_matrices for mixer in block.mixers if mixer.kv_rank is None)
        products += forward.matrices - 2
    packed = layout.training.way.kind == "qlora"
    found = products * (1.0 + packed * law("dequantise_launches"))
    found += block.norms * known.norm[block.norm] + known.residual
    found += sum(_mixed(mixer, block, known) for mixer in block.mixers)
    return found + (known.gated if forward.gated else known.plain)


def _mixed(mixer: Mixing, block: Block, known: Launches) -> float:
    """What is launched for queries and keys."""
    if not isinstance(mixer, Attention):
        return known.rotated
    normed = 2.0 * known.norm[block.norm] if mixer.qk_norm != "none" else 0.0
    return known.rotated + normed + (known.expanded if mixer.kv_heads < mixer.heads else 0.0)


def _of_adapters(layout: Layout, block: Block) -> Floats:
    """Operations of a layer's adapters: two products, scaling, sum with the base's output; casts of peft."""
    packed = law("peft_packed_launches") * (layout.training.way.kind == "qlora")
    casts = np.where(stack_has(layout, "adapter_code", "peft"), law("peft_launches") + packed, 0.0)
    found = np.zeros(len(layout.strategies))
    for copies in adapted_matrices(layout, block):
        found = found + (law("adapter_launches") + casts) * copies
    return found


def adapted_matrices(layout: Layout, block: Block) -> list[Floats]:
    """How many copies of each adapted matrix of a layer a rank has, (n,) each."""
    if not layout.training.way.adapts:
        return []
    one, local = np.ones(len(layout.strategies)), 1.0 / layout.strategies.expert_parallel
    found = adapted(block, layout.transformer.hidden_size, layout.training.lora_targets)
    return [matrix.copies * (local if matrix.routed else one) for matrix in found]
