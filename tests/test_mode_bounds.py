"""Bounds of the modes of a row on several pools: below every plan, and what they say is reached is."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np
import pytest

from shardwise.costs.columns import Ints
from shardwise.solver import mixed_modes
from shardwise.solver.frontier import pooled
from shardwise.solver.lower import NEVER
from shardwise.solver.mixed_floors import mode_bounds
from shardwise.solver.mixed_leaf import MixedLeaf
from shardwise.solver.mixed_modes import SUM_NEVER, ModeCosts
from shardwise.solver.options import Mode, RowOptions

FAR = 2**40


def table(draw: random.Random, pools: int, layers: int) -> Ints:
    """Options of a stage: on each pool some numbers of layers, each once, with any chunk and tail.

    The longest of its chunks is the only one, and no end is longer.
    """
    held = [(pool, n) for pool in range(pools) for n in range(1, layers) if draw.random() < 0.7]
    held = held or [(draw.randrange(pools), 1)]
    drawn = [(n * draw.randint(3, 9), n * draw.randint(0, 12), draw.randint(0, 9)) for _, n in held]
    rows = [
        (0, n, 0, 0, 0, chunk, tail, 0, spare, chunk, 0, pool)
        for (pool, n), (chunk, tail, spare) in zip(held, drawn, strict=True)
    ]
    return np.array(rows, dtype=np.int64)


def drawn(seed: int, pools: int = 2) -> tuple[RowOptions, tuple[int, ...]]:
    """A row of a few modes and stages, and the stages of each pool."""
    draw = random.Random(seed)
    stages, layers = draw.randint(pools, 4), draw.randint(5, 8)
    modes = draw.randint(1, 3)
    tables = tuple(tuple(table(draw, pools, layers - 2) for _ in range(stages)) for _ in range(modes))
    cuts = sorted(draw.sample(range(1, stages), pools - 1))
    shares = tuple(b - a for a, b in zip((0, *cuts), (*cuts, stages), strict=True))
    named = tuple(Mode("full", number) for number in range(modes))
    return RowOptions(named, tables, draw.randint(1, 6), layers, False, 1, 1, 2**60), shares


def plans(options: RowOptions, mode: int, shares: tuple[int, ...]) -> Iterator[tuple[list[int], list[int]]]:
    """(chunks, tails) of every choice of options that holds all layers and fills every pool's share."""
    for chosen in itertools.product(*(stage.tolist() for stage in options.tables[mode])):
        placed = tuple(sum(option[-1] == pool for option in chosen) for pool in range(len(shares)))
        if placed == shares and sum(option[1] for option in chosen) == options.layers:
            yield [option[5] for option in chosen], [option[6] for option in chosen]


def least(options: RowOptions, mode: int, shares: tuple[int, ...]) -> int:
    """The least step of a mode over all plans, `NEVER` without one."""
    steps = (
        (options.passes - 1) * max(chunks) + sum(chunks) + max(tails)
        for chunks, tails in plans(options, mode, shares)
    )
    return min(steps, default=NEVER)


@pytest.mark.parametrize("seed", range(60))
def test_bounds_enclose_the_least_step_of_every_mode(seed: int) -> None:
    """Two pools: lower <= least <= upper for each mode, and no plan within a limit is cut by it."""
    options, shares = drawn(seed)
    steps = [least(options, mode, shares) for mode in range(len(options.modes))]
    for limit in (FAR, *(step - shift for step in steps if step < NEVER for shift in (0, 1))):
        bounds = mode_bounds(options, shares, limit)
        for mode, step in enumerate(steps):
            if step <= limit:
                assert bounds.lower[mode] <= step <= bounds.upper[mode]
            assert bounds.upper[mode] >= step
        kept, _ = bounds.within(options, limit)
        assert {m for m, step in zip(options.modes, steps, strict=True) if step <= limit} <= set(kept.modes)


@pytest.mark.parametrize("seed", range(60))
def test_frontiers_cut_no_plan(seed: int) -> None:
    """Every plan within the limit is on or above the breakpoints and the floor of its mode."""
    options, shares = drawn(seed)
    limit = max((s for m in range(len(options.modes)) if (s := least(options, m, shares)) < NEVER), default=0)
    bounds = mode_bounds(options, shares, limit)
    for mode, front in enumerate(bounds.fronts):
        for chunks, tails in plans(options, mode, shares):
            step = (options.passes - 1) * max(chunks) + sum(chunks) + max(tails)
            if step > limit:
                continue
            assert step >= front.least(options.passes)
            for points in (front.points, pooled(bounds.fronts)):
                assert max(chunks) >= points[0].tau_ns and max(tails) >= points[-1].theta_ns
                for point, slower in itertools.pairwise(points):
                    assert max(tails) >= point.theta_ns or max(chunks) >= slower.tau_ns


@pytest.mark.parametrize("seed", range(40))
def test_least_sums_equal_brute_force(seed: int) -> None:
    """Each pool with its share of the stages: under limits of chunk and tail the sum is the least."""
    options, shares = drawn(seed, pools=2 + seed % 2)
    draw = random.Random(-seed)
    modes = len(options.modes)
    tau, theta = draw.randint(5, 40), draw.randint(10, 60)
    found = ModeCosts.of(options, shares).least_sum(np.full(modes, tau), np.full(modes, theta))
    for mode in range(modes):
        sums = [
            sum(chunks)
            for chunks, tails in plans(options, mode, shares)
            if max(chunks) <= tau and max(tails) <= theta
        ]
        assert min(found[mode], SUM_NEVER) == min(sums, default=SUM_NEVER)


@pytest.mark.parametrize("seed", range(30))
def test_three_pools_are_bounded_too(seed: int) -> None:
    """Three pools: the bounds enclose the least step of every mode, as with two."""
    options, shares = drawn(seed, pools=3)
    bounds = mode_bounds(options, shares, FAR)
    for mode in range(len(options.modes)):
        assert bounds.lower[mode] <= least(options, mode, shares) <= bounds.upper[mode]


@pytest.mark.parametrize("seed", range(30))
def test_many_states_are_bounded_from_below(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where states are too many to count the bound is below every plan still, none is said to be reached."""
    monkeypatch.setattr(mixed_modes, "MOST_STATES", 1)
    options, shares = drawn(seed, pools=2 + seed % 2)
    bounds = mode_bounds(options, shares, FAR)
    for mode in range(len(options.modes)):
        assert bounds.lower[mode] <= least(options, mode, shares)
    assert (bounds.upper == NEVER).all()


@pytest.mark.parametrize("seed", range(30))
def test_the_leaf_finds_the_least_step(seed: int) -> None:
    """With floors and breakpoints the leaf's answer is that of brute force, over two pools and three."""
    options, shares = drawn(seed, pools=2 + seed % 2)
    step = min(least(options, mode, shares) for mode in range(len(options.modes)))
    bounds = mode_bounds(options, shares, FAR)
    near, fronts = bounds.within(options, FAR)
    found = MixedLeaf(near, FAR, fronts, shares=shares).fastest(None) if near.modes else None
    plan = found.plan if found else None

    assert (plan.step_ns if plan else NEVER) == step
