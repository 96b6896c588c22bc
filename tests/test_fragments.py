"""Free cards: layouts equal brute force, and the plan equals the best over every world and shape."""

from __future__ import annotations

import itertools
import random
import re
import time
from collections.abc import Iterator

import pytest

from shardwise import InputError, Plan, Planner, Request, Training, plan
from shardwise.hardware import Cluster
from shardwise.plans import NoPlan
from shardwise.solver.blocks import Leaf, Spread, load_of, spread
from shardwise.solver.engine import cp_model
from shardwise.solver.search import Search
from shardwise.solver.shape import ideal_cluster, shapes
from shardwise.solver.worlds import lengths, work_bounds, worlds


def parts(total: int, bins: int) -> Iterator[tuple[int, ...]]:
    """Ways to put `total` blocks into `bins` leaves."""
    if bins == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in parts(total - first, bins - 1):
            yield (first, *rest)


def brute(leaves: list[Leaf], stages: int, blocks: int) -> tuple[int, int] | None:
    """(load, split stages) over every choice of blocks for every stage: subsets and layouts alike."""
    best: tuple[int, int] | None = None
    for layout in itertools.combinations_with_replacement(list(parts(blocks, len(leaves))), stages):
        if any(sum(stage[i] for stage in layout) > leaf.blocks for i, leaf in enumerate(leaves)):
            continue
        split = [stage for stage in layout if max(stage) < blocks]
        load = max((load_of(sum(s[i] for s in split), leaf) for i, leaf in enumerate(leaves)), default=0)
        best = min(best or (load, len(split)), (load, len(split)))
    return best


def test_two_hundred_spreads_equal_brute_force() -> None:
    """Random leaves, stages and blocks: load and number of split stages are the least there are."""
    draw = random.Random(8)
    for _ in range(200):
        leaves = [Leaf(draw.randint(0, 5), draw.randint(1, 4)) for _ in range(draw.randint(1, 3))]
        stages, blocks = draw.randint(1, 4), draw.randint(1, 3)
        found = spread(leaves, stages, blocks)

        assert (found and (found.load, found.split_stages)) == brute(leaves, stages, blocks)
        if found is not None:
            assert_laid(found, leaves, stages, blocks)


def assert_laid(found: Spread, leaves: list[Leaf], stages: int, blocks: int) -> None:
    """Counts use no more than is free and make up every stage."""
    assert sum(found.whole) + found.split_stages == stages
    assert sum(found.split) == blocks * found.split_stages
    for leaf, u, w in zip(leaves, found.whole, found.split, strict=True):
        assert u * blocks + w <= leaf.blocks


def imports() -> float:
    """CPU seconds of a fresh process that imports cp_model."""
    import subprocess
    import sys

    code = "import time; from ortools.sat.python import cp_model; print(time.process_time())"
    runs = [subprocess.run([sys.executable, "-c", code], capture_output=True, text=True) for _ in range(3)]
    return min(float(run.stdout) for run in runs)


@pytest.mark.parametrize("seed", range(3))
def test_bounds_of_work_hold_for_every_plan(seed: int) -> None:
    """No plan on whole machines is faster than what its work takes; every number of stages has a bound."""
    draw = random.Random(seed)
    request = request_on(((draw.randint(2, 8), 4), (4,)), 1.0, draw.choice([4, 6, 8]))
    bounds = work_bounds(request)
    for cards, _ in worlds(request.cluster):
        assert sorted(bounds.get(cards, {})) == lengths(request, cards)
        ideal = ideal_cluster(request.cluster.node, cards)
        if ideal is not None and cards in bounds:
            one = Search(request.model_copy(update={"cluster": ideal})).run().best
            assert one is None or one.step_ns >= bounds[cards][one.strategy.pipeline_parallel] > 0


def test_sixty_four_leaves_are_proved_within_three_imports() -> None:
    """2,000 free cards over 64 leaves, stages of 8 to 128 blocks: each layout proved in time."""
    draw, blocks = random.Random(64), [0] * 64
    while sum(blocks) < 2000:
        blocks[draw.randrange(64)] += draw.choice([1, 2, 3, 4, 6, 8])
    leaves = [Leaf(count, draw.choice([8, 16, 24, 32])) for count in blocks]
    cp_model()
    limit = 3 * imports()
    for wide in (8, 16, 50, 64, 128):
        start = time.process_time()
        assert spread(leaves, 2000 // wide, wide) is not None
        assert time.process_time() - start < limit


def test_splitting_a_leaf_never_speeds() -> None:
    """The same blocks under one leaf more: the load can only grow."""
    draw = random.Random(5)
    for _ in range(50):
        leaves = [Leaf(draw.randint(2, 6), draw.randint(2, 4)) for _ in range(2)]
        half = draw.randint(1, leaves[0].blocks - 1)
        uplink = draw.randint(1, leaves[0].uplink - 1)
        apart = [Leaf(half, uplink), Leaf(leaves[0].blocks - half, leaves[0].uplink - uplink), leaves[1]]
        stages, blocks = draw.randint(1, 3), draw.randint(1, 4)
        one, more = spread(leaves, stages, blocks), spread(apart, stages, blocks)

        assert (one is None) == (more is None)
        assert one is None or more is None or (one.load, one.split_stages) <= (more.load, more.split_stages)


def request_on(free: tuple[tuple[int, ...], ...], oversubscription: float, batch: int) -> Request:
    node = Cluster.preset("dgx-a100-80gb").node
    cluster = Cluster(
        name="lab", node=node, nodes=sum(map(len, free)), free=free, oversubscription=oversubscription
    )
    training = Training(global_batch_size=batch, sequence_length=1024)
    choose = {"backend": "megatron", "software_stack": "megatron-2023", "context_parallel": 1}
    return Request(model="llama-3.2-1b", cluster=cluster, training=training, choose=choose)


def every_shape(request: Request) -> int | None:
    """The least step of all worlds and shapes, each searched to the end on its own."""
    best: int | None = None
    for cards, size in worlds(request.cluster):
        for shape, stages in shapes(request, cards, size, lengths(request, cards)):
            choose = request.choose.model_copy(
                update={"pipeline_parallel": stages, "rank_order": ("tp-cp-dp-pp",)}
            )
            one = Search(request.model_copy(update={"cluster": shape.virtual, "choose": choose})).run().best
            best = min(best or one.step_ns, one.step_ns) if one else best
    return best


@pytest.mark.parametrize("seed", range(8))
def test_the_plan_is_the_best_of_every_world_and_shape(seed: int) -> None:
    """No pruning loses a faster plan."""
    draw = random.Random(seed)
    free = tuple(
        tuple(draw.randint(1, 4) for _ in range(draw.randint(1, 2))) for _ in range(draw.randint(1, 2))
    )
    request = request_on(free, draw.choice([1.0, 4.0]), draw.choice([4, 8]))
    found = plan(request)

    least = every_shape(request)
    if least is None:
        assert isinstance(found, NoPlan)
    else:
        assert isinstance(found, Plan)
        assert found.time.step_seconds == pytest.approx(least / 1e9)


def test_leaves_wait_until_all_shapes_are_open() -> None:
    """2,000 free cards in pieces: even plans choose the shape, so few rows are solved."""
    draw = random.Random(1)
    free = tuple(tuple(draw.randint(1, 8) for _ in range(7)) for _ in range(64))
    cluster = request_on(free, 1.0, 8).cluster
    training = Training(global_batch_size=2048, sequence_length=4096)
    found = plan(Request(model="llama-3.1-70b", cluster=cluster, training=training))

    assert isinstance(found, Plan) and cluster.gpus > 1900
    assert found.proof.leaves_solved <= 3


def test_a_scattered_allocation_is_told() -> None:
    """8 + 6 + 3 free cards over two leaves: which are used, and what that costs against whole machines."""
    found = plan(request_on(((8, 6), (3,)), 4.0, 16))

    assert isinstance(found, Plan)
    told = {notice.code: notice.message for notice in found.warnings}
    assert "of 17 free cards" in told["allocation"]
    assert "whole machines" in told["fragments"]
    assert found.strategy.world <= 17


def test_what_fragments_cost_is_told_by_its_causes() -> None:
    """The loss against whole machines is that of small blocks and that of paths between leaves."""
    found = plan(request_on(((8, 6), (3,)), 4.0, 16))

    assert isinstance(found, Plan)
    (told,) = [notice.message for notice in found.warnings if notice.code == "fragments"]
    total, blocks, paths, _ = (float(word) for word in re.findall(r"(-?[\d.]+) %", told))
    assert blocks + paths == pytest.approx(total, abs=0.11)
    assert total >= 0 and paths >= 0
    assert "; 16 cards on whole machines would take" in told


def test_what_stands_beside_a_plan_on_free_cards() -> None:
    """Other backends on any of the free cards, the rule of thumb and the ladder on the plan's own blocks."""
    request = request_on(((8, 6), (3,)), 4.0, 16)
    open_choice = request.model_copy(
        update={"choose": request.choose.model_copy(update={"backend": None, "software_stack": None})}
    )
    found = plan(open_choice)

    assert isinstance(found, Plan)
    beside = {other.name: other for other in found.alternatives}
    others = {"deepspeed", "fsdp", "megatron"} - {found.strategy.backend}
    assert {*others, "folk"} == set(beside)
    assert all(other.loss_percent >= 0 and other.strategy.world <= 17 for other in beside.values())
    assert found.ladder[-1].step_seconds == found.time.step_seconds


def test_a_plan_on_free_cards_is_judged_as_it_was_planned() -> None:
    """Its strategy on the same free cards: laid on the same blocks, the same step and memory, no loss."""
    asked = request_on(((8, 6), (3,)), 4.0, 16)
    planner = Planner(asked.cluster)
    found = planner.plan(asked)
    assert isinstance(found, Plan)
    for request in (asked, found.request):
        judged = planner.check(request, found.strategy)

        assert judged.time.step_seconds == found.time.step_seconds
        assert (judged.memory, judged.loss_percent) == (found.memory, 0.0)
    whole = found.strategy.model_copy(update={"data_parallel": 18, "shard_group_size": 1, "zero_stage": 0})
    with pytest.raises(InputError, match="free cards"):
        planner.check(asked, whole)
