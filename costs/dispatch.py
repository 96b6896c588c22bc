"""Tokens on their way to experts and back: copies, bytes and seconds, by how a stack exchanges them.

NCCL's all-to-all sends every copy once among expert-parallel ranks; the ranks over which an expert is cut
then gather the copies of each other and scatter the sums on the way back (Megatron Core,
moe/token_dispatcher.py, ``MoEAlltoAllTokenDispatcher``; 16 bits, as the router's probabilities are where
``--moe-router-dtype`` is left out). DeepEP and HybridEP send to all ranks of an expert at once, among expert
and expert-tensor ranks together (``MoEFlexTokenDispatcher``).
"""

from __future__ import annotations

import numpy as np

from ..models.transformer import Block
from .collectives import seconds
from .columns import Bools, Floats, Ints
from .context import ACTIVATION_BYTES
from .experts import folded, routed_ranks
from .group import Group
from .layout import Layout
from .once import once
from .stacks import imbalance, stack_constant, stack_has


def hidden_bytes(layout: Layout) -> Floats:
    """S = 2 T h: hidden states of a micro-batch, whole."""
    return ACTIVATION_BYTES * layout.tokens * layout.transformer.hidden_size


def at_once(layout: Layout) -> Bools:
    """Rows whose stack sends a token to all ranks of its experts in one exchange."""
    return ~stack_has(layout, "exchange", "alltoall")


@once
def exchange_group(layout: Layout) -> Group:
    """The ranks that exchange tokens: those of expert parallel, with those of an expert's cut or without."""
    s, fused = layout.strategies, at_once(layout)
    cut = s.expert_tensor_parallel
    return layout.group(np.where(fused, s.expert_parallel * cut, s.expert_parallel), np.where(fused, 1, cut))


def routed_share(layout: Layout, block: Block) -> Floats:
    """Bytes of a copy of each token that a rank sends to experts: 2 T h / t x imbalance in a folded grid."""
    if not block.feed_forward.experts:
        return np.zeros(len(layout.strategies))
    return hidden_bytes(layout) * routed_ranks(layout) / layout.tensor * imbalance(layout)


def dispatched_bytes(layout: Layout, block: Block, places: Ints) -> Floats:
    """What one rank sends to experts in one exchange, whole payload.

    NCCL's all-to-all sends k copies. DeepEP and HybridEP send one to each place (card, or island) that
    holds experts of the token: of e ranks i (1 - (1 - 1/i)^k) in the mean, i the smaller of e and the
    places, each with as many places as an expert is cut over.
    """
    chosen = block.feed_forward.experts_per_token
    apart = np.minimum(places, layout.strategies.expert_parallel)
    met = apart * (1.0 - (1.0 - 1.0 / apart) ** chosen) * (places / apart)
    return routed_share(layout, block) * np.where(at_once(layout), met, float(chosen))


def gathered_copies(layout: Layout, block: Block) -> Floats:
    """Bytes of the copies that the ranks of an expert's cut gather of each other, whole: e_t k a token."""
    cut = layout.strategies.expert_tensor_parallel
    gathers = folded(layout) & ~at_once(layout) & (cut > 1)
    copies = block.feed_forward.experts_per_token * routed_share(layout, block) * cut
    return np.where(gathers, copies, 0.0)


@once
def exchange_seconds(layout: Layout) -> Floats:
    """Dispatch and combine of a layer, both passes, (n, kinds): the slower between and inside islands."""
    group = exchange_group(layout)
    inner = Group(np.minimum(group.size, group.per_island), group.per_island, np.zeros_like(group.level))
    columns = []
    for block in layout.blocks:
        copies = seconds(layout, "all_to_all", dispatched_bytes(layout, block, group.size), inner)
        away = seconds(layout, "all_to_all", dispatched_bytes(layout, block, group.islands), group)
        columns.append(np.where(group.islands > 1, np.maximum(copies, away), copies))
    return 4.0 * np.stack(columns, axis=1)


@once
def gather_seconds(layout: Layout) -> Floats:
    """Gather and reduce-scatter of copies over the ranks of an expert's cut, both passes, (n, kinds)."""
    group = layout.expert_tensor_group
    columns = []
    for block in layout.blocks:
        copies = gathered_copies(layout, block)
        columns.append(
            seconds(layout, "all_gather", copies, group) + seconds(layout, "reduce_scatter", copies, group)
        )
    return 2.0 * np.stack(columns, axis=1) * slower_away(layout, group)[:, None]


def slower_away(layout: Layout, group: Group) -> Floats:
    """Time of a layer's collectives between islands over that at the full rate of the network cards."""
    away = group.size > group.per_island
    return np.where(away, 1.0 / stack_constant(layout, "gather_share"), 1.0)


@once
def exchanged_bytes(layout: Layout) -> tuple[Floats, Floats]:
    """Bytes a card sends of a layer, both passes, (n, kinds): to experts, and among the ranks of their cut.

    To experts on other islands where there are several: what is sent inside is not counted then.
    """
    group, cut = exchange_group(layout), layout.expert_tensor_group
    places = np.where(group.islands > 1, group.islands, group.size)
    away = np.where(group.islands > 1, 1.0 - 1.0 / group.islands, group.ring_share)
    to = np.stack([dispatched_bytes(layout, block, places) for block in layout.blocks], axis=1)
    among = np.stack([gathered_copies(layout, block) for block in layout.blocks], axis=1)
    return 4.0 * to * away[:, None], 4.0 * among * cut.ring_share[:, None]
