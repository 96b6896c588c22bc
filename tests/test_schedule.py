"""The pipeline formula of the ledger against an event simulation of the schedules it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwise.costs.schedule import step

Work = tuple[str, int, int]
"""("F" or "B", micro-batch, chunk of the stage)."""


def order_1f1b(stage: int, stages: int, batches: int) -> list[Work]:
    """Forwards that fill the pipe behind, then one backward after each forward, then what is left."""
    warm = min(stages - 1 - stage, batches)
    found: list[Work] = [("F", batch, 0) for batch in range(warm)]
    for batch in range(warm, batches):
        found += [("F", batch, 0), ("B", batch - warm, 0)]
    return found + [("B", batch, 0) for batch in range(batches - warm, batches)]


def order_interleaved(stage: int, stages: int, batches: int, chunks: int) -> list[Work]:
    """Megatron-LM's order: groups of `stages` micro-batches through each chunk in turn."""

    def item(index: int, way: str) -> Work:
        group, inside = divmod(index, stages * chunks)
        chunk = inside // stages
        batch = group * stages + inside % stages
        return way, batch, chunk if way == "F" else chunks - 1 - chunk

    total = batches * chunks
    warm = min(2 * (stages - stage - 1) + (chunks - 1) * stages, total)
    found = [item(index, "F") for index in range(warm)]
    for index in range(warm, total):
        found += [item(index, "F"), item(index - warm, "B")]
    return found + [item(index, "B") for index in range(total - warm, total)]


def makespan(orders: Sequence[Sequence[Work]], forward: Sequence[float], backward: Sequence[float]) -> float:
    """Seconds until all stages are done: each works its list in order, as its inputs arrive.

    Chunk c of stage i is link c p + i of the chain; a forward waits for the link before, a backward for
    the link behind.
    """
    stages = len(orders)
    chain = stages * (1 + max(chunk for order in orders for _, _, chunk in order))
    ended: dict[tuple[str, int, int], float] = {}
    place, clock = [0] * stages, [0.0] * stages
    while any(place[i] < len(orders[i]) for i in range(stages)):
        moved = False
        for i in range(stages):
            while place[i] < len(orders[i]):
                way, batch, chunk = orders[i][place[i]]
                link = chunk * stages + i
                if way == "F":
                    needed = ("F", batch, link - 1) if link else None
                else:
                    needed = ("B", batch, link + 1) if link < chain - 1 else ("F", batch, link)
                if needed is not None and needed not in ended:
                    break
                start = max(clock[i], 0.0 if needed is None else ended[needed])
                clock[i] = start + (forward[i] if way == "F" else backward[i])
                ended[way, batch, link] = clock[i]
                place[i] += 1
                moved = True
        assert moved, "the orders wait for each other"
    return max(clock)


def formula(chunk: Sequence[float], passes: int) -> float:
    """The ledger's step for chunk times in seconds, without work once a step."""
    units = np.array([[round(value * 1e9) for value in chunk]], dtype=np.int64)
    found = step(units, np.zeros_like(units), np.ones(units.shape, dtype=np.bool_), np.array([passes]))
    return float(found.total[0]) / 1e9


@pytest.mark.parametrize(("stages", "batches"), [(1, 4), (2, 2), (4, 8), (8, 8), (4, 3), (6, 32)])
def test_equal_stages_under_1f1b_take_exactly_the_formula(stages: int, batches: int) -> None:
    """m + p - 1 chunks of forward and backward, whatever their ratio."""
    orders = [order_1f1b(i, stages, batches) for i in range(stages)]
    simulated = makespan(orders, [1.0] * stages, [2.0] * stages)
    assert simulated == pytest.approx(formula([3.0] * stages, batches))
    assert simulated == pytest.approx(3.0 * (batches + stages - 1))


@pytest.mark.parametrize(("stages", "batches", "chunks"), [(2, 2, 2), (4, 8, 2), (4, 4, 3), (8, 16, 4)])
def test_equal_stages_interleaved_take_exactly_the_formula(stages: int, batches: int, chunks: int) -> None:
    """m v chunks and p - 1 more: the bubble is a v-th of that of whole stages."""
    orders = [order_interleaved(i, stages, batches, chunks) for i in range(stages)]
    simulated = makespan(orders, [1.0] * stages, [2.0] * stages)
    assert simulated == pytest.approx(formula([3.0] * stages, batches * chunks))


shares = st.lists(st.floats(0.5, 2.0), min_size=2, max_size=6)


@settings(max_examples=150, deadline=None)
@given(shares, st.integers(1, 16))
def test_unequal_stages_under_1f1b_take_no_longer_than_the_formula(work: list[float], batches: int) -> None:
    """The formula bounds the schedule from above, and the slowest stage from below."""
    orders = [order_1f1b(i, len(work), batches) for i in range(len(work))]
    simulated = makespan(orders, work, [2.0 * one for one in work])
    told = formula([3.0 * one for one in work], batches)
    assert simulated <= told * (1 + 1e-6)
    assert simulated >= 3.0 * batches * max(work) * (1 - 1e-6)


@settings(max_examples=100, deadline=None)
@given(st.integers(2, 8), st.integers(2, 6), st.floats(0.85, 1.15))
def test_a_slower_last_stage_keeps_the_formula_within_four_percent(
    stages: int, groups: int, last: float
) -> None:
    """Head and loss make the last stage unlike the others: near balance the formula is 0 to 4 % above."""
    work = [1.0] * (stages - 1) + [last]
    orders = [order_1f1b(i, stages, groups * stages) for i in range(stages)]
    simulated = makespan(orders, work, [2.0 * one for one in work])
    told = formula([3.0 * one for one in work], groups * stages)
    assert 1 - 1e-6 <= told / simulated <= 1.04


def test_more_micro_batches_shrink_the_share_of_the_bubble() -> None:
    """(p - 1) / m of the work: halved where m doubles."""
    times = [formula([1.0] * 4, batches) / batches - 1.0 for batches in (4, 8, 16, 32)]
    assert all(after == pytest.approx(before / 2) for before, after in pairwise(times))
