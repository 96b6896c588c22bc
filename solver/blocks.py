"""Fragments: how many whole and split stages each leaf holds, so that the busiest uplink is least busy.

Stages are alike, so only counts matter: u whole stages and w blocks of split stages in each leaf, s split
stages in all. A block is so many free cards of one machine; a stage is d blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..inputs.record import dataclass

SCALE = 10**6
"""Parts of one in which loads are counted."""


@dataclass(frozen=True)
class Leaf:
    """One leaf: its free blocks, and of how many the uplink carries the traffic at full rate."""

    blocks: int
    uplink: int


@dataclass(frozen=True)
class Spread:
    """Counts a leaf: whole stages, blocks of split stages; the number of stages that are split.

    `load` is the largest w / uplink in units of 1 / `SCALE`, rounded up: above `SCALE` the uplink slows the
    groups of split stages by it.
    """

    whole: tuple[int, ...]
    split: tuple[int, ...]
    split_stages: int
    load: int


def load_of(blocks: int, leaf: Leaf) -> int:
    """How much of a leaf's uplink `blocks` blocks of split stages take, in units of 1 / `SCALE`.

    >>> load_of(3, Leaf(blocks=8, uplink=2))
    1500000
    """
    return -(-SCALE * blocks // leaf.uplink)


def spread(leaves: Sequence[Leaf], stages: int, blocks: int) -> Spread | None:
    """The least load, then the fewest split stages, of `stages` stages of `blocks` blocks; None if none fit.

    Exact without a search: a leaf that gives up a whole stage of d blocks for blocks of split ones gains at
    most d of these, so leaves hold all the whole stages they can, and the least load is the first under
    which what is left over in them suffices for the others.
    """
    if stages * blocks > sum(leaf.blocks for leaf in leaves):
        return None
    whole = _filled([leaf.blocks // blocks for leaf in leaves], stages)
    missing = stages - sum(whole)
    if not missing:
        return Spread(tuple(whole), (0,) * len(leaves), 0, 0)
    over = [leaf.blocks % blocks for leaf in leaves]
    need = missing * blocks
    load = _least_load(leaves, over, need)
    split = _filled([_under(load, leaf, rest) for leaf, rest in zip(leaves, over, strict=True)], need)
    return Spread(tuple(whole), tuple(split), missing, load)


def _filled(room: Sequence[int], need: int) -> list[int]:
    """`need` things into places of so much room, those of most room first: the fewest places."""
    found = [0] * len(room)
    for index in sorted(range(len(room)), key=lambda i: -room[i]):
        found[index] = min(room[index], need)
        need -= found[index]
    return found


def _under(load: int, leaf: Leaf, rest: int) -> int:
    """Blocks of split stages, of `rest`, that a leaf holds under a load."""
    return min(rest, load * leaf.uplink // SCALE)


def _least_load(leaves: Sequence[Leaf], over: Sequence[int], need: int) -> int:
    """The least load under which the leaves hold `need` of the blocks `over`."""
    low, high = 0, max(load_of(rest, leaf) for leaf, rest in zip(leaves, over, strict=True))
    while low < high:
        middle = (low + high) // 2
        held = sum(_under(middle, leaf, rest) for leaf, rest in zip(leaves, over, strict=True))
        low, high = (low, middle) if held >= need else (middle + 1, high)
    return low
