"""The leaf: each of its constraints alone, random tables against plain loops, and shared host memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from oracle.brute import Least, brute, faults
from oracle.evaluate import Evaluator
from oracle.placement import line_up, nodes
from oracle.prices import costs_of
from oracle.requests import model

from shardwise.costs.columns import NAMES, WORDS, Strategies
from shardwise.costs.host import stage_block
from shardwise.costs.layout import Layout
from shardwise.hardware import Cluster
from shardwise.models import Attention, Block, FeedForward, Training
from shardwise.models.strategy import RANK_ORDERS
from shardwise.plans import Request
from shardwise.solver.bounds import can_fit, time_bound, within
from shardwise.solver.coefficients import Coefficients
from shardwise.solver.frontier import frontier, row_bound
from shardwise.solver.leaf import Leaf, LeafResult
from shardwise.solver.options import FIELDS, Mode, RowOptions, row_options
from shardwise.solver.search import Search
from shardwise.solver.space import rows

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
            if sum(stage[1] for stage in picked) != options.layers:
                continue
            starts = [sum(stage[1] for stage in picked[:k]) for k in range(len(picked))]
            if options.contiguous and starts != [stage[0] for stage in picked]:
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
    points = frontier(options)

    assert (result.plan.step_ns if result.plan else None) == least
    assert result.proved
    if least is not None:
        bound = row_bound(options, points)
        assert bound is not None and bound <= least == result.bound_ns
        assert solved(options, least).plan is not None
        assert solved(options, least - 1).plan is None


@pytest.mark.parametrize("seed", range(100))
def test_every_assignment_obeys_the_frontier(seed: int) -> None:
    """Any assignment has at least the first bottleneck and the last tail, and at each step one of both."""
    options = random_row(Random(seed))
    points = frontier(options)
    assert all(
        a.theta_ns > b.theta_ns and a.tau_ns < b.tau_ns for a, b in zip(points, points[1:], strict=False)
    )
    for tables in options.tables:
        for picked in product(*(table.tolist() for table in tables)):
            if sum(stage[1] for stage in picked) != options.layers:
                continue
            tail, bottleneck = (max(stage[column] for stage in picked) for column in (6, 5))
            assert bottleneck >= points[0].tau_ns
            assert tail >= points[-1].theta_ns
            for point, slower in zip(points, points[1:], strict=False):
                assert tail >= point.theta_ns or bottleneck >= slower.tau_ns


def test_random_rows_are_of_use() -> None:
    """Some rows have no plan, some have several breakpoints, some are bound by the host."""
    drawn = [random_row(Random(seed)) for seed in range(100)]
    steps = [enumerated(options) for options in drawn]
    free = [enumerated(row(*map(list, _lists(options)), **_kept(options))) for options in drawn]

    assert sum(step is None for step in steps) >= 5
    assert sum(len(frontier(options)) > 1 for options in drawn) >= 30
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


def two_nodes(host_memory_bytes: int | None) -> Request:
    """Four stages on two nodes of two cards; the last layers carry most parameters and little work."""
    attention = Attention(heads=8, kv_heads=4, head_dim=128)
    wide = Block(attention=attention, feed_forward=FeedForward(width=8192))
    routed = Block(attention=attention, feed_forward=FeedForward(width=2048, experts=8, experts_per_token=1))
    node = Cluster.preset("dgx-h100").node
    two = node.model_copy(update={"gpus": 2, "island_size": 2, "domain_size": 2, "nics": 2})
    choose = {
        "backend": "megatron",
        "pipeline_parallel": 4,
        "micro_batch_size": 1,
        "zero_stage": 1,
        "offload_optimizer": "cpu",
    }
    return Request(
        model=model("heavy-end", 1024, 8192, [(wide, 4), (routed, 4)]),
        cluster=Cluster(name="two-nodes", node=two, nodes=2),
        training=Training(global_batch_size=8, sequence_length=2048),
        choose=choose,
        limits={} if host_memory_bytes is None else {"host_memory_bytes": host_memory_bytes},
    )


def loads(request: Request, least: Least) -> list[int]:
    """Host KiB that each stage of a plan offloads."""
    (costs,) = costs_of(request, [least.row])
    evaluator = Evaluator(request, least.row, costs)
    assert least.layout is not None
    return [evaluator.weight(stage, part).host_kib for stage, part in enumerate(least.layout)]


def test_host_memory_of_a_node_decides_the_split(monkeypatch: pytest.MonkeyPatch) -> None:
    """With one KiB less host memory than the fastest split needs, another is best; only the leaf can know.

    No stage alone comes near the limit, so no option and no bound sees it: bounds are the same with and
    without it. A leaf that forgets the host returns a plan that breaks the limit.
    """
    ample = two_nodes(None)
    free = brute(ample).best
    assert free is not None and free.layout is not None
    stages = loads(ample, free)
    fullest = max(stages[0] + stages[1], stages[2] + stages[3])
    tight = two_nodes((fullest - 1) * 1024)
    bound = brute(tight).best
    assert bound is not None and bound.layout is not None and bound.step_ns is not None
    assert free.step_ns is not None and bound.step_ns > free.step_ns
    assert [part.layers for part in bound.layout] != [part.layers for part in free.layout]
    assert max(stages) < fullest - 1

    found = Search(tight).run().best
    assert found is not None
    assert found.step_ns == bound.step_ns
    assert faults(tight, found.strategy, found.step_ns) == []
    _same_bounds(ample, tight, bound.step_ns)
    monkeypatch.setattr(Leaf, "_host", lambda _: None)
    careless = Search(tight).run().best
    assert careless is not None
    assert careless.step_ns == free.step_ns
    assert faults(tight, careless.strategy, careless.step_ns) != []


def _same_bounds(ample: Request, tight: Request, step_ns: int) -> None:
    """Everything before the leaf gives the same for both requests."""
    free, bound = Coefficients(ample, rows(ample)), Coefficients(tight, rows(tight))
    bounds = time_bound(free)
    assert bounds.tolist() == time_bound(bound).tolist()
    assert can_fit(free).tolist() == can_fit(bound).tolist()
    assert within(free, bounds, step_ns).tolist() == within(bound, bounds, step_ns).tolist()
    for index in range(len(bounds)):
        one, other = row_options(free, index, step_ns), row_options(bound, index, step_ns)
        if one is None or other is None:
            assert one is other
            continue
        assert [len(table) for tables in one.tables for table in tables] == [
            len(table) for tables in other.tables for table in tables
        ]
        assert row_bound(one, frontier(one)) == row_bound(other, frontier(other))


def placed(cluster: Cluster, tensor: int, stages: int, data: int, order: str) -> Layout:
    """The layout of one row of which only degrees and the order of ranks matter."""
    columns: dict[str, Sequence[Any]] = {name: [WORDS[name][0] if name in WORDS else 1] for name in NAMES}
    degrees = {"tensor_parallel": tensor, "pipeline_parallel": stages, "data_parallel": data}
    columns |= {name: [value] for name, value in degrees.items()} | {"rank_order": [order]}
    asked = two_nodes(None)
    return Layout(asked.model, asked.training, cluster, Strategies.of_rows(columns))


@pytest.mark.parametrize("node_gpus", [1, 2, 3, 4, 6, 8])
def test_stages_a_node_are_those_of_ranks_laid_out_one_by_one(node_gpus: int) -> None:
    """Stages of a node, cards of each, and whether nodes are alike: as found by placing every rank."""
    base = Cluster.preset("dgx-h100").node
    node = base.model_copy(update=dict.fromkeys(("gpus", "island_size", "domain_size"), node_gpus))
    answers = set()
    for inner, stages, data, order in product((1, 2, 3, 4), (1, 2, 3, 4, 6), (1, 2, 3, 4), RANK_ORDERS):
        count, rest = divmod(inner * stages * data, node_gpus)
        if rest or (order == RANK_ORDERS[1] and 1 in (stages, data)):
            continue
        cluster = Cluster(name="grid", node=node, nodes=count)
        block, cards, aligned = (
            int(part[0]) for part in stage_block(placed(cluster, inner, stages, data, order))
        )
        found = nodes(inner, stages, data, order == RANK_ORDERS[1], node_gpus)
        answers.add(bool(aligned))
        assert line_up(found) == bool(aligned)
        if aligned:
            wanted = [[(first + k, cards) for k in range(block)] for first in range(0, stages, block)]
            assert sorted({tuple(one) for one in wanted}) == sorted(set(found))
    assert answers == ({True} if node_gpus == 1 else {True, False})
