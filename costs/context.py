"""Context parallel: bytes, seconds and buffers of each way in which ranks that share a sequence exchange it.

Of a layer, T tokens a rank, widths q, k, v, o of queries, keys, values and output, c ranks, t tensor ranks:

- ring: keys and values go round in c - 1 hops beside attention; backward they and their gradients;
- all_gather: they are gathered whole, backward again, and their gradients reduced and scattered; torch
  gathers beside attention to a rank's own keys, and passes the gradients round;
- ulysses: an all-to-all hands each rank all tokens of some heads, q, k, v before and o after attention, and
  their gradients back; attention then runs over the whole sequence;
- ulysses+ring: the all-to-all among neighbours, a ring over the c / u groups of them.
"""

from __future__ import annotations

import numpy as np

from ..models.transformer import Block
from .collectives import point_to_point, seconds
from .columns import Bools, Floats, Ints
from .group import Group
from .layout import Layout
from .once import once
from .terms import Note, Term, ceil, kib, ns

ACTIVATION_BYTES = 2
"""Bytes of a 16-bit activation or its gradient on the wire."""

_TIME = Note(
    "ring max(comm / c, comm - attention) x 3; all-gather 2 AG + RS; ulysses 2 x 4 all-to-all",
    "Megatron Core cp_comm_type; arXiv 2310.01889; 2407.21783 section 3.3.2; 2309.14509",
    "P",
    "s",
)
_SENT = Note(
    "3 x 2 (k + v) T (c-1) / t a layer: ring or all-gather",
    "Megatron Core context parallel docs; Transformer Engine context_parallel.py",
    "D",
)
_HEADS = Note("2 x 2 (q + k + v + o) T (u-1)/u / t a layer: all-to-all", "arXiv 2309.14509 section 3.2", "D")
_BUFFERS = Note(
    "ring 2 x 2 (k + v) T / t; all-gather 2 x 2 (k + v) T c / t; ulysses 2 (q + k + v + o) T / t",
    "Transformer Engine context_parallel.py: double buffers; gathered and their gradients; sent and received",
    "D",
)


def kinds(layout: Layout, *words: str) -> Bools:
    """Mask of rows whose context ranks exchange in one of these ways."""
    found = np.zeros(len(layout.strategies), dtype=np.bool_)
    for word in words:
        found |= layout.strategies.is_("context_parallel_kind", word)
    return found


@once
def ring_ranks(layout: Layout) -> Ints:
    """Ranks over which a sequence stays cut during attention: c / u, 1 under Ulysses."""
    s = layout.strategies
    found: Ints = s.context_parallel // s.ulysses_group_size
    return found


@once
def heads_group(layout: Layout) -> Group:
    """The neighbouring context ranks that exchange heads for tokens."""
    return layout.group(layout.strategies.ulysses_group_size, layout.tensor)


@once
def ring_group(layout: Layout) -> Group:
    """The context ranks that pass keys and values on, or gather them."""
    return layout.group(ring_ranks(layout), layout.tensor * layout.strategies.ulysses_group_size)


def value_width(block: Block) -> int:
    """Width of all value heads, elements a token."""
    mixer = block.attention
    return mixer.output_width if mixer.kv_rank else mixer.kv_width


def _bytes(layout: Layout, width: int) -> Floats:
    """Bytes of the part of a width that a rank's own tokens have: 2 T width / t."""
    return ACTIVATION_BYTES * width * layout.tokens / layout.tensor


def key_value_bytes(layout: Layout, block: Block) -> Floats:
    """Keys and values of a rank's own tokens: 2 (k + v) T / t.

    An all-to-all of heads leaves their size as it is: u times the tokens, 1/u of the heads.
    """
    return _bytes(layout, block.attention.kv_width + value_width(block))


def passed_bytes(layout: Layout, block: Block) -> Floats:
    """Keys and values one rank sends in one pass: 2 (k + v) T (r-1) / t, in a ring or an all-gather."""
    return key_value_bytes(layout, block) * (ring_ranks(layout) - 1)


def exchanged_bytes(layout: Layout, block: Block) -> tuple[Floats, ...]:
    """Whole payloads of the four all-to-alls of one pass: queries, keys, values, output."""
    mixer = block.attention
    widths = (mixer.query_width, mixer.kv_width, value_width(block), mixer.output_width)
    rows = np.where(layout.strategies.ulysses_group_size > 1, 1.0, 0.0)
    return tuple(rows * _bytes(layout, width) for width in widths)


def context_term(layout: Layout, attention: Floats) -> Term:
    """What shows of the exchange beside `attention`, the seconds of its forward, (n, kinds)."""
    if not (layout.strategies.context_parallel > 1).any():
        return Term("context_comm", "chunk", _TIME, ns(layer=np.zeros_like(attention)))
    parts = [_shown(layout, block, attention[:, kind]) for kind, block in enumerate(layout.blocks)]
    layer, again = (np.stack(part, axis=1) for part in zip(*parts, strict=True))
    return Term("context_comm", "chunk", _TIME, ns(layer=layer, full=again * layout.run_again))


def _shown(layout: Layout, block: Block, attention: Floats) -> tuple[Floats, Floats]:
    """(forward and backward, forward again) seconds that show of a layer's exchange.

    A hop of a ring hides behind attention to the keys at hand, but for the last; an all-gather and an
    all-to-all end before attention begins.
    """
    ranks, group = ring_ranks(layout).astype(np.float64), ring_group(layout)
    sent = point_to_point(layout, passed_bytes(layout, block), group)
    hop = np.maximum(sent / ranks, sent - attention)
    heads = heads_group(layout)
    exchange = sum(
        (seconds(layout, "all_to_all", part, heads) for part in exchanged_bytes(layout, block)),
        np.zeros(len(ranks)),
    )
    gathers = kinds(layout, "all_gather")
    whole = np.where(gathers, key_value_bytes(layout, block) * ranks, 0.0)
    gather = seconds(layout, "all_gather", whole, group)
    scatter = seconds(layout, "reduce_scatter", whole, group)
    if (torch := layout.strategies.is_("backend", "fsdp") & gathers).any():
        gather = np.where(torch, np.maximum(gather - attention / ranks, 0.0), gather)
        scatter = np.where(torch, hop, scatter)
    layer = np.where(gathers, 2.0 * gather + scatter, 3.0 * hop) + 2.0 * exchange
    return layer, np.where(gathers, gather, hop) + exchange


def context_buffers(layout: Layout) -> Term:
    """What attention over context ranks holds beside its own tensors, in the backward of a layer."""
    ranks, scale = ring_ranks(layout), layout.element_bytes / ACTIVATION_BYTES
    size = np.zeros(len(ranks))
    for block in layout.blocks:
        copies = np.where(ranks > 1, np.where(kinds(layout, "all_gather"), 2.0 * ranks, 2.0), 0.0)
        held = copies * key_value_bytes(layout, block)
        size = np.maximum(size, held + sum(exchanged_bytes(layout, block)))
    return Term("context_buffers", "stage", _BUFFERS, kib(fixed=scale * size))


def context_traffic(layout: Layout) -> dict[str, tuple[list[Term], Group]]:
    """Bytes a card sends of each part of the exchange, with the group of ranks that it goes over."""
    passed = np.stack([passed_bytes(layout, block) for block in layout.blocks], axis=1)
    group = heads_group(layout)
    heads = np.stack(
        [group.ring_share * sum(exchanged_bytes(layout, block)) for block in layout.blocks], axis=1
    )
    ring = {"layer": ceil(3.0 * passed), "full": ceil(passed * layout.run_again)}
    given = {"layer": ceil(2.0 * heads), "full": ceil(heads * layout.run_again)}
    return {
        "context": ([Term("context", "chunk", _SENT, ring)], ring_group(layout)),
        "context_heads": ([Term("context_heads", "chunk", _HEADS, given)], group),
    }
