"""Bytes that the network cards of a machine send in a step, its uplinks all together."""

from __future__ import annotations

import numpy as np

from .columns import Floats
from .group import Group
from .host import stage_block
from .layout import Layout
from .terms import Note, Term, ceil
from .traffic import traffic_terms

_UPLINK = Note("bytes a card x groups with a part in the machine, beyond machines", "definition", "D")

WITHIN = ("island", "node")
"""Tiers inside which no network card of a machine is used."""


def uplink_terms(layout: Layout) -> list[Term]:
    """Traffic of groups that reach beyond a machine, bytes of one all of whose cards hold the same stage.

    A ring leaves a machine once, so of the cards of a group there one card's bytes go out; experts'
    tokens and the activations of the last stage on a machine each leave the card that has them.
    """
    found = []
    for axis, (terms, group) in traffic_terms(layout).items():
        share = np.where(_away(layout, group), _senders(layout, axis, group), 0.0)
        found += [_scaled(term, share) for term in terms]
    return found


def _away(layout: Layout, group: Group) -> Floats:
    """1 where a group reaches beyond a machine (or an NVLink domain of several)."""
    outside = np.array([tier.name not in WITHIN for tier in layout.cluster.tiers().tiers])
    found: Floats = outside[group.level].astype(np.float64)
    return found


def _senders(layout: Layout, axis: str, group: Group) -> Floats:
    """Cards of a machine whose bytes of an axis leave it."""
    cards = min(layout.cluster.node.gpus, layout.cluster.gpus)
    if axis == "expert":
        return np.full(len(group.size), float(cards))
    island = layout.cluster.tiers().tiers[0].cards
    together = np.minimum(group.size, group.per_island * max(cards // island, 1))
    if axis == "context_heads":
        return cards * (group.size - together) / np.maximum(group.size - 1, 1)
    if axis == "pipeline":
        return cards / stage_block(layout)[0]
    found: Floats = cards / np.minimum(np.maximum(together, 1), cards)
    return found


def _scaled(term: Term, share: Floats) -> Term:
    pieces = {
        piece: ceil(value * (share[:, None] if value.ndim == 2 else share))
        for piece, value in term.coefficients.items()
    }
    return Term("uplink", term.per, _UPLINK, pieces)
