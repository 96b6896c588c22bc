"""Few ways: what is found by looking at all of them is what CP-SAT finds, in the same order of ties."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest
from test_leaf import FAR, enumerated, long_row, option, random_row, row

from shardwise.solver.few import few_ways
from shardwise.solver.leaf import Leaf, LeafResult
from shardwise.solver.options import RowOptions
from shardwise.solver.table import END, FIELDS, LONGEST


def rank(found: LeafResult | None) -> tuple[int, int, int] | None:
    """(step, spare memory of the fullest card, layers recomputed or offloaded) of the plan that was found."""
    assert found is not None and found.proved
    if found.plan is None:
        return None
    stages = np.array(found.plan.stages)
    return found.plan.step_ns, int(stages[:, 8].min()), int(stages[:, 2:5].sum())


def drawn(seed: int, **more: Any) -> RowOptions:
    """Random tables, with close times, so that many ways tie, and with mechanisms."""
    draw = Random(seed)
    options = random_row(draw)
    for tables in options.tables:
        for table in tables:
            table[:, 5] -= table[:, 5] % 50
            table[:, 6] -= table[:, 6] % 300
            table[:, 8] -= table[:, 8] % 40
            table[:, 2] = [draw.randint(0, 1) for _ in table]
            table[:, LONGEST] = table[:, 5]
    return replace(options, **more)


@pytest.mark.parametrize("seed", range(150))
def test_few_ways_are_ranked_as_the_leaf_does(seed: int) -> None:
    """Least step, then most headroom, then fewest mechanisms; also at and below the least step."""
    options = drawn(seed)
    found, least = few_ways(options, FAR), enumerated(options)

    assert rank(found) == rank(Leaf(options, FAR).solve(None))
    if least is not None:
        assert rank(few_ways(options, least)) == rank(found)
        assert rank(few_ways(options, least - 1)) is None


@pytest.mark.parametrize("seed", range(60))
def test_rounds_wait_for_longer_ends(seed: int) -> None:
    """Interleaved chunks: a link of an end that is longer than others slows one round in v."""
    draw, options = Random(seed), drawn(seed, chunks=3)
    for tables in options.tables:
        for table in (tables[0], tables[-1]):
            table[:, END] = table[:, 5] + [draw.randint(0, 200) for _ in table]

    assert rank(few_ways(options, FAR)) == rank(Leaf(options, FAR).solve(None))


@pytest.mark.parametrize("seed", range(60))
def test_communication_shows_little(seed: int) -> None:
    """Under a limit on what shows of communication."""
    draw, options = Random(seed), drawn(seed, comm_share=2000)
    tables = tuple(
        tuple(
            np.column_stack([table, [[draw.randint(0, 40), draw.randint(0, 90)] for _ in table]])
            for table in stages
        )
        for stages in options.tables
    )
    options = replace(options, tables=tables)

    assert rank(few_ways(options, FAR)) == rank(Leaf(options, FAR).solve(None))


def test_many_ways_are_left_to_the_solver() -> None:
    """Nothing is answered where there are too many; a limit that leaves few brings the answer back."""
    options = long_row(0)
    assert few_ways(options, FAR) is None

    full = [[option(layers, 10 * layers) for layers in range(1, 21)] for _ in range(4)]
    whole = few_ways(row(full, layers=80), FAR)
    assert whole is not None and whole.plan is not None
    assert [stage[FIELDS.index("layers")] for stage in whole.plan.stages] == [20] * 4
    assert few_ways(row(full, layers=40), FAR) is None
    near = few_ways(row(full, layers=40, passes=100), 10 * (99 * 10 + 40))
    assert near is not None and near.plan is not None and near.plan.step_ns == 10300
