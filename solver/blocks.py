"""Fragments: how many whole and split stages each leaf holds, so that the busiest uplink is least busy.

Stages are alike, so only counts matter: u whole stages and w blocks of split stages in each leaf, s split
stages in all. A block is so many free cards of one machine; a stage is d blocks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .engine import cp_model, new_solver

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

    Proved by CP-SAT in two solves, load first.
    """
    if stages * blocks > sum(leaf.blocks for leaf in leaves):
        return None
    whole = _all_whole(leaves, stages, blocks)
    if whole is not None:
        return Spread(whole, (0,) * len(leaves), 0, 0)
    return _solved(leaves, stages, blocks)


def _all_whole(leaves: Sequence[Leaf], stages: int, blocks: int) -> tuple[int, ...] | None:
    """Whole stages a leaf, filled from the leaf that holds most; None where some stage must be split."""
    found, left = [0] * len(leaves), stages
    for index in sorted(range(len(leaves)), key=lambda i: -leaves[i].blocks):
        found[index] = min(leaves[index].blocks // blocks, left)
        left -= found[index]
    return tuple(found) if left == 0 else None


def _solved(leaves: Sequence[Leaf], stages: int, blocks: int) -> Spread:
    api = cp_model()
    model = api.CpModel()
    whole = [model.new_int_var(0, min(leaf.blocks // blocks, stages), "u") for leaf in leaves]
    split = [model.new_int_var(0, leaf.blocks, "w") for leaf in leaves]
    number = model.new_int_var(1, stages, "s")
    load = model.new_int_var(0, max(load_of(leaf.blocks, leaf) for leaf in leaves), "load")
    model.add(sum(whole) + number == stages)
    model.add(sum(split) == blocks * number)
    for leaf, u, w in zip(leaves, whole, split, strict=True):
        model.add(blocks * u + w <= leaf.blocks)
        model.add(leaf.uplink * load >= SCALE * w)
    _alike(model, leaves, whole, split)
    solver = new_solver(None)
    for goal in (load, number):
        model.minimize(goal)
        status = solver.solve(model)
        if status != api.OPTIMAL:
            raise AssertionError("a spread of free blocks is always found and proved")
        model.add(goal == solver.value(goal))
    return Spread(
        tuple(int(solver.value(u)) for u in whole),
        tuple(int(solver.value(w)) for w in split),
        int(solver.value(number)),
        int(solver.value(load)),
    )


def _alike(model: object, leaves: Sequence[Leaf], whole: Sequence[object], split: Sequence[object]) -> None:
    """Equal leaves are filled in order: copies of one layout are not looked at twice."""
    last: dict[Leaf, int] = {}
    for index, leaf in enumerate(leaves):
        if leaf in last:
            model.add(split[last[leaf]] >= split[index])  # type: ignore[attr-defined, operator]
        last[leaf] = index
