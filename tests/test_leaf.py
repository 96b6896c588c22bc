"""The leaf: each of its constraints alone, and random tables against plain loops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product
from random import Random
from typing import Any

import numpy as np
import pytest

from shardwise.solver.frontier import frontier, row_bound
from shardwise.solver.leaf import Leaf, LeafResult
from shardwise.solver.options import Mode, RowOptions
from shardwise.solver.table import FIELDS

Option = tuple[int, ...]
AMPLE = 2**60
FAR = 2**61


def option(layers: int, chunk: int, **more: int) -> Option:
    """One way to fill a stage, columns as `FIELDS`."""
    values = {"start": 0, "layers": layers, "chunk_ns": chunk, "spare_kib": 100} | more
    assert set(values) <= set(FIELDS)
    return tuple(values.get(name, 0) for name in FIELDS)


def row(*modes: list[list[Option]], layers: int, **more: Any) -> RowOptions:
    """Options of a row: for each mode, for each stage what it may hold."""
    tables = tuple(tuple(np.array(stage, dtype=np.int64) for stage in mode) for mode in modes)
    values: dict[str, Any] = {
        "passes": 1,
        "contiguous": False,
        "node_stages": 1,
        "node_cards": 1,
        "host_capacity_kib": AMPLE,
    }
    names = tuple(Mode("full", number) for number in range(len(modes)))
    return RowOptions(modes=names, tables=tables, layers=layers, **(values | more))


def held(result: LeafResult) -> list[int] | None:
    """Layers of each stage, None where nothing was found."""
    assert result.proved
    return None if result.plan is None else [stage[1] for stage in result.plan.stages]


def solved(options: RowOptions, limit: int = FAR) -> LeafResult:
    """The leaf's result."""
    return Leaf(options, limit).solve(None)


def enumerated(options: RowOptions) -> int | None:
    """The least step of a row by plain loops over its tables."""
    best: int | None = None
    for tables in options.tables:
        for picked in product(*(table.tolist() for table in tables)):
            if not _holds_all(options, picked):
                continue
            blocks = [
                sum(stage[7] for stage in picked[k : k + options.node_stages])
                for k in range(0, len(picked), options.node_stages)
            ]
            if max(blocks) * options.node_cards > options.host_capacity_kib:
                continue
            step = _step(options.passes, picked)
            best = step if best is None or step < best else best
    return best


def _holds_all(options: RowOptions, picked: Sequence[Sequence[int]]) -> bool:
    """Whether the stages hold all layers, each from where the one before ends where they tell their start."""
    starts = [sum(stage[1] for stage in picked[:k]) for k in range(len(picked) + 1)]
    placed = not options.contiguous or starts[:-1] == [stage[0] for stage in picked]
    return placed and starts[-1] == options.layers


def _step(passes: int, picked: tuple[list[int], ...]) -> int:
    chunks = [stage[5] for stage in picked]
    return (passes - 1) * max(chunks) + sum(chunks) + max(stage[6] for stage in picked)


TWO = [[option(1, 10), option(2, 20), option(3, 30)], [option(1, 11), option(2, 22)]]


@pytest.mark.parametrize(("layers", "counts"), [(2, [1, 1]), (4, [3, 1]), (5, [3, 2]), (6, None), (1, None)])
def test_stages_hold_all_layers(layers: int, counts: list[int] | None) -> None:
    """Layers add up exactly, or there is no plan."""
    assert held(solved(row(TWO, layers=layers))) == counts


def test_stages_recompute_in_one_mode() -> None:
    """The best stage of one mode never meets the best stage of another."""
    first = [[option(1, 10)], [option(1, 90)]]
    second = [[option(1, 70)], [option(1, 20)]]
    apart = solved(row(first, second, layers=2)).plan
    joined = solved(row([first[0] + second[0], first[1] + second[1]], layers=2)).plan

    assert apart is not None and joined is not None
    assert (apart.step_ns, apart.mode.number) == (90, 1)
    assert joined.step_ns == 30


@pytest.mark.parametrize(
    ("capacity", "node_stages", "node_cards", "step"),
    [
        (70, 2, 1, 20),
        (69, 2, 1, 60),
        (39, 1, 1, 60),
        (40, 1, 1, 20),
        (140, 2, 2, 20),
        (139, 2, 2, 60),
        (9, 2, 1, None),
    ],
)
def test_stages_of_a_node_share_its_host_memory(
    capacity: int, node_stages: int, node_cards: int, step: int | None
) -> None:
    """What stages of a node offload adds up, times the cards of each; one KiB less and another is taken."""
    quick, slow = {"offloaded": 1, "host_kib": 40}, {"host_kib": 5}
    tables = [
        [option(1, 10, **quick), option(1, 50, **slow)],
        [option(1, 10, host_kib=30), option(1, 50, host_kib=5)],
    ]
    more = {"node_stages": node_stages, "node_cards": node_cards, "host_capacity_kib": capacity}
    plan = solved(row(tables, layers=2, **more)).plan
    assert (plan.step_ns if plan else None) == step


def test_nodes_are_counted_apart() -> None:
    """Four stages, two a node: a node may be full while the other is empty, and each has its own limit."""
    tables = [[option(1, 10, host_kib=size)] for size in (30, 30, 50, 10)]
    assert held(solved(row(tables, layers=4, node_stages=2, host_capacity_kib=60))) == [1, 1, 1, 1]
    assert held(solved(row(tables, layers=4, node_stages=2, host_capacity_kib=59))) is None
    assert held(solved(row(tables, layers=4, node_stages=4, host_capacity_kib=119))) is None


@pytest.mark.parametrize(("limit", "step"), [(FAR, 31), (31, 31), (30, None)])
def test_the_limit_is_kept(limit: int, step: int | None) -> None:
    """A plan at the limit is found; one nanosecond less, and there is proved to be none."""
    result = solved(row(TWO, layers=3), limit)
    assert result.proved
    assert (result.plan.step_ns if result.plan else None) == step


def test_stages_of_two_kinds_join() -> None:
    """Where layers differ, each stage starts where the one before ended; where not, only sums count."""
    tables = [
        [option(1, 10), option(2, 40)],
        [option(1, 5, start=2), option(1, 50, start=1)],
        [option(2, 8, start=2), option(1, 30, start=3)],
    ]
    joined, loose = solved(row(tables, layers=4, contiguous=True)), solved(row(tables, layers=4))
    assert joined.plan is not None and loose.plan is not None
    assert [stage[:2] for stage in joined.plan.stages] == [(0, 1), (1, 1), (2, 2)]
    assert (joined.plan.step_ns, loose.plan.step_ns) == (68, 23)

    gap = [tables[0][:1], tables[1][:1], tables[2][:1]]
    assert held(solved(row(gap, layers=4, contiguous=True))) is None
    assert held(solved(row(gap, layers=4))) == [1, 1, 2]


def test_the_step_counts_the_slowest_chunk_and_the_longest_tail() -> None:
    """(m v - 1) max U + sum U + max tail: few passes favour a small sum, many a small maximum."""
    even, skew = [option(1, 30, tail_ns=5)], [option(1, 10, tail_ns=7)]
    tables = [[*skew, *even], [option(1, 40, tail_ns=1), option(1, 30, tail_ns=9, full=1)]]
    few, many = (solved(row(tables, layers=2, passes=passes)).plan for passes in (1, 10))

    assert few is not None and many is not None
    assert few.step_ns == 10 + 30 + 9
    assert many.step_ns == 9 * 30 + 10 + 30 + 9
    alone = solved(row([skew, [tables[1][0]]], layers=2, passes=10)).plan
    assert alone is not None
    assert alone.step_ns == 9 * 40 + 50 + 7


def test_ties_go_to_headroom_then_to_fewer_mechanisms() -> None:
    """Of equally fast plans: most spare memory on the fullest card, then least recompute and offload."""
    tables = [
        [
            option(1, 10, spare_kib=5),
            option(1, 10, spare_kib=9, full=1),
            option(1, 10, spare_kib=9, offloaded=3),
        ],
        [option(1, 10, spare_kib=8, selective=1), option(1, 10, spare_kib=9, full=1)],
    ]
    plan = solved(row(tables, layers=2)).plan
    assert plan is not None
    assert [stage[2:5] for stage in plan.stages] == [(1, 0, 0), (1, 0, 0)]


def test_numbers_beyond_the_solver_are_refused() -> None:
    """A leaf whose objective might pass 2^62 is not built: it would be wrong, not slow."""
    with pytest.raises(OverflowError):
        Leaf(row([[option(1, 2**60)], [option(1, 2**60)]], layers=2, passes=4), FAR)


def random_row(rng: Random) -> RowOptions:
    """Random tables of two to four stages, with or without depths, modes, tails and host memory.

    With depths, the first stage starts and the last one ends with the stack, as in tables of a model.
    """
    stages, modes = rng.choice((2, 2, 3, 4)), rng.choice((1, 1, 2, 3))
    layers, contiguous = rng.randint(stages, 8), rng.random() < 0.4
    drawn = [
        [_random_stage(rng, stage, stages, layers, contiguous) for stage in range(stages)]
        for _ in range(modes)
    ]
    return row(
        *drawn,
        layers=layers,
        contiguous=contiguous,
        passes=rng.choice((1, 2, 7, 64)),
        node_stages=rng.choice([n for n in (1, 2, stages) if stages % n == 0]),
        node_cards=rng.choice((1, 2)),
        host_capacity_kib=rng.choice((AMPLE, rng.randint(5, 120))),
    )


def _random_stage(rng: Random, stage: int, stages: int, layers: int, contiguous: bool) -> list[Option]:
    most = layers - stages + 1
    found: list[Option] = []
    for length in range(1, most + 1):
        for start in range(stage, layers - (stages - stage) + 1) if contiguous else [0]:
            if contiguous and (start if stage == 0 else stage == stages - 1 and start + length != layers):
                continue
            for _ in range(rng.randint(0 if len(found) else 1, 3)):
                chunk = rng.randint(50, 60) * length + rng.randint(0, 40)
                more = {
                    "tail_ns": rng.randint(0, 900),
                    "host_kib": rng.randint(0, 20) * length,
                    "start": start,
                }
                found.append(option(length, chunk, spare_kib=rng.randint(0, 99), **more))
    return found


@pytest.mark.parametrize("seed", range(100))
def test_a_leaf_equals_plain_loops(seed: int) -> None:
    """On random tables the leaf finds the least step or proves there is none, and its bound is below it."""
    options = random_row(Random(seed))
    least = enumerated(options)
    result = solved(options)

    assert (result.plan.step_ns if result.plan else None) == least
    assert result.proved
    if least is not None:
        bound = row_bound(options, frontier(options))
        assert bound is not None and bound <= least == result.bound_ns
        assert solved(options, least).plan is not None
        assert solved(options, least - 1).plan is None


@pytest.mark.parametrize("seed", range(100))
def test_every_assignment_obeys_the_frontier(seed: int) -> None:
    """Any assignment has at least the first bottleneck and the last tail, and at each step one of both."""
    options = random_row(Random(seed))
    for tables, front in zip(options.tables, frontier(options), strict=True):
        points = front.points
        assert all(a.theta_ns > b.theta_ns and a.tau_ns < b.tau_ns for a, b in pairwise(points))
        for picked in product(*(table.tolist() for table in tables)):
            if not _holds_all(options, picked):
                continue
            tail, bottleneck = (max(stage[column] for stage in picked) for column in (6, 5))
            assert sum(stage[5] for stage in picked) >= front.total_ns
            assert bottleneck >= points[0].tau_ns
            assert tail >= points[-1].theta_ns
            for point, slower in pairwise(points):
                assert tail >= point.theta_ns or bottleneck >= slower.tau_ns


@pytest.mark.parametrize("seed", range(100))
def test_every_breakpoint_is_reached(seed: int) -> None:
    """Of each mode some way has a breakpoint's bottleneck and tail, some way the least sum."""
    options = random_row(Random(seed))
    for tables, front in zip(options.tables, frontier(options), strict=True):
        every = product(*(table.tolist() for table in tables))
        ways = [picked for picked in every if _holds_all(options, picked)]
        ends = [(max(stage[6] for stage in way), max(stage[5] for stage in way)) for way in ways]
        assert {(point.theta_ns, point.tau_ns) for point in front.points} <= set(ends)
        assert bool(front.points) == bool(ways)
        assert not ways or front.total_ns == min(sum(stage[5] for stage in way) for way in ways)


@pytest.mark.parametrize("kept", [slice(1, None), slice(-1)])
def test_a_dropped_breakpoint_is_noticed(kept: slice) -> None:
    """A frontier without its first or last breakpoint cuts off the best plan of some rows."""
    wrong = 0
    for seed in range(100):
        options = random_row(Random(seed))
        fronts = [replace(front, points=front.points[kept] or front.points) for front in frontier(options)]
        plan = Leaf(options, FAR, tuple(fronts)).solve(None).plan
        wrong += (plan.step_ns if plan else None) != enumerated(options)
    assert wrong >= 10


def test_random_rows_are_of_use() -> None:
    """Some rows have no plan, some have several breakpoints, some are bound by the host."""
    drawn = [random_row(Random(seed)) for seed in range(100)]
    steps = [enumerated(options) for options in drawn]
    free = [enumerated(row(*map(list, _lists(options)), **_kept(options))) for options in drawn]

    assert sum(step is None for step in steps) >= 5
    assert sum(any(len(front.points) > 1 for front in frontier(options)) for options in drawn) >= 30
    assert sum(step is not None and step != loose for step, loose in zip(steps, free, strict=True)) >= 5


def _lists(options: RowOptions) -> list[list[list[Option]]]:
    return [[[tuple(entry) for entry in table.tolist()] for table in tables] for tables in options.tables]


def _kept(options: RowOptions) -> dict[str, Any]:
    return {"layers": options.layers, "passes": options.passes, "contiguous": options.contiguous}


def long_row(seed: int) -> RowOptions:
    """Eight stages of two speeds, 32 layers, each layer recomputed at one of two prices or offloaded."""
    rng = Random(seed)
    stages = []
    for _ in range(8):
        slow = rng.choice((100, 100, 137))
        options = [
            option(
                layers,
                1000 * (slow * layers + rng.choice((20, 40)) * (layers - gone)),
                tail_ns=5000 * layers + 30000 * gone,
                offloaded=gone,
            )
            for layers in range(1, 10)
            for gone in range(layers + 1)
        ]
        stages.append(options)
    return row(stages, layers=32, passes=16)


def test_a_leaf_without_the_frontier_cut_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cut changes no answer, but without it the same proof takes several times the work."""
    kept = [solved(long_row(seed)) for seed in range(3)]
    monkeypatch.setattr(Leaf, "_cuts", lambda _: None)
    dropped = [solved(long_row(seed)) for seed in range(3)]

    for one, other in zip(kept, dropped, strict=True):
        assert one.plan is not None and other.plan is not None
        assert one.plan.step_ns == other.plan.step_ns
    work = [sum(result.deterministic_time for result in results) for results in (kept, dropped)]
    assert 3 * work[0] < work[1]
