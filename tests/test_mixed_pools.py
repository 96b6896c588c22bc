"""Pools of different cards: plans equal brute force, slow pools are left out where that is faster."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np
import pytest
from oracle.transformers import dense

from shardwise import NoPlan, Plan, Request, Training, plan
from shardwise.costs import price, price_mixed
from shardwise.hardware import Cluster, Node, Pool
from shardwise.hardware.mixed import all_alike, pool_names
from shardwise.models import Stage, Strategy
from shardwise.solver.mixed import MixedSearch

CARDS = ("dgx-h100", "dgx-a100-80gb", "dgx-a100-40gb", "gb200-nvl72")


def small(name: str, cards: int, usable_bytes: int) -> Node:
    """A machine of few cards with little memory, so that memory limits what a stage holds."""
    node = Cluster.preset(name).node
    card = node.gpu.model_copy(update={"memory_usable_bytes": usable_bytes})
    fields = {key: getattr(node, key) for key in Node.model_fields}
    island = {"gpus": cards, "island_size": cards, "domain_size": cards, "nics": 1}
    return Node.model_validate({**fields, **island, "gpu": card})


def instance(seed: int) -> Request:
    """Two small pools, a tiny model, one backend, few layouts."""
    draw = random.Random(seed)
    names = draw.sample(CARDS, 2)
    cards = draw.choice([1, 2])
    pools = [small(name, cards, draw.choice([8, 10, 11, 12, 14, 18]) * 2**29) for name in names]
    counts = [draw.choice([1, 2]) for _ in pools]
    cluster = Cluster(
        name="lab", node=pools[0], nodes=counts[0], others=(Pool(node=pools[1], nodes=counts[1]),)
    )
    return Request(
        model=dense(draw, draw.choice([4, 5, 6])),
        cluster=cluster,
        training=Training(global_batch_size=draw.choice([4, 8]), sequence_length=512),
        choose={
            "backend": "megatron",
            "software_stack": "megatron-2023",
            "recompute": draw.choice([["none"], ["full"], ["none", "full"]]),
            "context_parallel": 1,
            "zero_stage": draw.choice([0, 1]),
            "micro_batch_size": draw.choice([1, 2]),
            "virtual_pipeline": 1,
        },
    )


def splits(layers: int, stages: int) -> Iterator[tuple[int, ...]]:
    """Layers of each stage, at least one."""
    for cuts in itertools.combinations(range(1, layers), stages - 1):
        edges = (0, *cuts, layers)
        yield tuple(b - a for a, b in zip(edges, edges[1:], strict=False))


def stage_lists(request: Request, row: Strategy) -> Iterator[tuple[Stage, ...]]:
    """Every split and recompute that Megatron can be told: as many full layers on every stage."""
    words = request.choose.recompute or ()
    for split in splits(request.model.layers, row.pipeline_parallel):
        numbers = [0] if "none" in words else []
        if "full" in words:
            numbers += range(1, max(split) + 1) if "none" in words else [max(split)]
        for number in numbers:
            yield tuple(Stage(layers=n, recompute_full_layers=min(n, number)) for n in split)


def brute(request: Request) -> int | None:
    """The least step over all rows, splits, recompute and assignments, from the uniform ledgers alone."""
    search = MixedSearch(request)
    rows = search._strategies() if search.requests else None
    best: int | None = None
    parts = [all_alike(request.cluster, index) for index in range(2)]
    limits = [
        int((1 - request.limits.memory_margin) * p.node.gpu.memory_usable_bytes) // 1024 for p in parts if p
    ]
    for index in range(len(rows) if rows is not None else 0):
        assert rows is not None
        knobs = rows.row(index)
        plain = Strategy(**knobs, stages=(Stage(layers=1),) * int(knobs["pipeline_parallel"]))
        found = [plain.model_copy(update={"stages": stages}) for stages in stage_lists(request, plain)]
        ledgers = [price(request.model, request.training, part, found) for part in parts if part]
        width = plain.world // plain.pipeline_parallel
        first = request.cluster.pools[0].gpus // width
        passes = plain.gradient_accumulation_steps
        for one, other in zip(*ledgers, strict=True):
            p = plain.pipeline_parallel
            for mine in itertools.combinations(range(p), first):
                entries = [(one if i in mine else other).stages[i] for i in range(p)]
                bounds = [limits[0] if i in mine else limits[1] for i in range(p)]
                if any(e.total_kib > limit for e, limit in zip(entries, bounds, strict=True)):
                    continue
                edges = [
                    max(x.stages[i].chunk_ns.get("pipeline_comm", 0) for x in (one, other)) for i in range(p)
                ]
                chunks = [
                    sum(e.chunk_ns.values()) - e.chunk_ns.get("pipeline_comm", 0) + edge
                    for e, edge in zip(entries, edges, strict=True)
                ]
                tail = max(sum(e.tail_ns.values()) for e in entries)
                step = (passes - 1) * max(chunks) + sum(chunks) + tail
                best = min(best or step, step)
    return best


def agree(seeds: range) -> tuple[int, int]:
    """Instances with a plan and without; every one equal to brute force."""
    counts = [0, 0]
    for seed in seeds:
        request = instance(seed)
        found = MixedSearch(request).run().best
        least = brute(request)
        assert (found.step_ns if found else None) == least, seed
        counts[found is None] += 1
    return counts[0], counts[1]


def test_mixed_plans_equal_brute_force() -> None:
    """Splits, recompute and pools of every stage: the search finds the least step, or that none fits."""
    held, none = agree(range(14))

    assert held >= 3 and none >= 1


@pytest.mark.slow
def test_eighty_mixed_plans_equal_brute_force() -> None:
    """The same over eighty instances."""
    held, _ = agree(range(14, 94))

    assert held >= 50


def mixed(first: str, second: str, nodes: int = 1) -> Request:
    other = Pool(node=Cluster.preset(second).node, nodes=nodes)
    cluster = Cluster(name="lab", node=Cluster.preset(first).node, nodes=nodes, others=(other,))
    return Request(
        model="llama-3.2-1b",
        cluster=cluster,
        training=Training(global_batch_size=128, sequence_length=4096),
        choose={"backend": "megatron", "software_stack": "megatron-2023", "context_parallel": 1},
    )


def test_faster_cards_hold_more_layers() -> None:
    """H100 and A100: every stage names its pool, the faster pool holds more layers, the reasons are told."""
    found = plan(mixed("dgx-h100", "dgx-a100-80gb"))

    assert isinstance(found, Plan)
    layers = {name: 0 for name in ("dgx-h100", "dgx-a100-80gb")}
    for stage in found.strategy.stages:
        layers[str(stage.device)] += stage.layers
    assert layers["dgx-h100"] > layers["dgx-a100-80gb"] > 0
    (told,) = [notice for notice in found.warnings if notice.code == "pools"]
    assert "dgx-h100 alone" in told.hint


def test_a_much_slower_pool_is_left_out() -> None:
    """V100 cards beside B200: using them would slow the step, so they are left out, and it is said."""
    found = plan(mixed("dgx-b200", "p3dn.24xlarge"))

    assert isinstance(found, Plan)
    assert found.strategy.world == 8
    assert any("p3dn.24xlarge left out" in notice.message for notice in found.warnings)


def test_other_choices_of_pools_stand_beside_the_plan() -> None:
    """Each pool alone, all of them, and even stages: none is faster, and each is a strategy of its pools."""
    used, left = plan(mixed("dgx-h100", "dgx-a100-80gb")), plan(mixed("dgx-b200", "p3dn.24xlarge"))

    assert isinstance(used, Plan) and isinstance(left, Plan)
    assert {"dgx-h100 alone", "dgx-a100-80gb alone", "even"} >= {o.name for o in used.alternatives}
    assert {"dgx-h100 alone", "dgx-a100-80gb alone"} <= {other.name for other in used.alternatives}
    assert [other.name for other in left.alternatives] == ["p3dn.24xlarge alone"]
    for found in (used, left):
        assert all(other.loss_percent >= 0 for other in found.alternatives)
    assert left.ladder and left.ladder[-1].step_seconds == left.time.step_seconds


def test_the_order_of_pools_does_not_matter() -> None:
    """The same two pools the other way round: the same step."""
    steps = [plan(mixed(*pair)) for pair in (("dgx-h100", "dgx-a100-80gb"), ("dgx-a100-80gb", "dgx-h100"))]

    assert all(isinstance(found, Plan) for found in steps)
    assert len({found.time.step_seconds for found in steps if isinstance(found, Plan)}) == 1


def test_equal_pools_cost_what_one_pool_costs() -> None:
    """Two pools of one kind: the ledger of stages named by pool equals that of the plain cluster."""
    node = Cluster.preset("dgx-h100").node
    twin = Node.model_validate({**{k: getattr(node, k) for k in Node.model_fields}, "name": "twin"})
    cluster = Cluster(name="lab", node=node, nodes=1, others=(Pool(node=twin, nodes=1),))
    request = mixed("dgx-h100", "dgx-a100-80gb")
    found = plan(request.model_copy(update={"cluster": Cluster.preset("dgx-h100", nodes=2)}))
    assert isinstance(found, Plan)
    strategy = found.strategy.model_copy(update={"pipeline_parallel": 1, "stages": found.strategy.stages[:1]})
    names = pool_names(cluster)
    two = strategy.model_copy(
        update={
            "data_parallel": 8,
            "tensor_parallel": 1,
            "pipeline_parallel": 2,
            "virtual_pipeline": 1,
            "shard_group_size": 1,
            "zero_stage": 0,
            "gradient_accumulation_steps": 32 // 8 // strategy.micro_batch_size,
            "rank_order": "tp-cp-dp-pp",
            "sequence_parallel": False,
            "stages": (Stage(layers=8, device=names[0]), Stage(layers=8, device=names[1])),
        }
    )
    bare = two.model_copy(update={"stages": (Stage(layers=8), Stage(layers=8))})
    one = price(request.model, request.training, Cluster.preset("dgx-h100", nodes=2), [bare])[0]
    both = price_mixed(request.model, request.training, cluster, [two])[0]

    assert both.terms_ns == one.terms_ns
    assert np.array_equal([s.total_kib for s in both.stages], [s.total_kib for s in one.stages])


def test_none_fits_is_proved() -> None:
    """Cards too small for any stage on either pool: no plan, and cures."""
    request = instance(0)
    tiny = [small(name, 1, 2**27) for name in ("dgx-h100", "dgx-a100-80gb")]
    cluster = Cluster(name="lab", node=tiny[0], nodes=1, others=(Pool(node=tiny[1], nodes=1),))

    assert isinstance(plan(request.model_copy(update={"cluster": cluster})), NoPlan)


def test_seventy_billion_on_two_pools_of_sixteen_nodes_is_proved_with_few_leaves() -> None:
    """16 H100 and 16 A100 nodes: proved, faster than the H100 alone, within a budget of leaves."""
    other = Pool(node=Cluster.preset("dgx-a100-80gb").node, nodes=16)
    cluster = Cluster(name="lab", node=Cluster.preset("dgx-h100").node, nodes=16, others=(other,))
    training = Training(global_batch_size=512, sequence_length=4096)
    found = plan(Request(model="llama-3.1-70b", cluster=cluster, training=training))

    assert isinstance(found, Plan)
    assert found.status == "optimal" and found.proof.gap == 0
    assert found.proof.leaves_solved <= 40
    assert {stage.device for stage in found.strategy.stages} == {"dgx-h100", "dgx-a100-80gb"}


def test_mfu_over_pools_is_of_the_peak_of_all_their_cards() -> None:
    """H100 beside A100: model FLOP/s of a card over the mean of the two peaks, not over the first's alone."""
    pools = [small(name, 1, 80 * 2**30) for name in CARDS[:2]]
    answers = []
    for first, second in (pools, pools[::-1]):
        cluster = Cluster(name="lab", node=first, others=(Pool(node=second, nodes=1),))
        job = Training(global_batch_size=4, sequence_length=512)
        found = plan(
            Request(
                model=dense(random.Random(1), 4),
                cluster=cluster,
                training=job,
                choose={"pipeline_parallel": 2},
            )
        )
        assert isinstance(found, Plan)
        answers.append(found.time)

    for time in answers:
        assert time.mfu == pytest.approx(time.model_tflops_per_gpu / ((989.4 + 312) / 2), rel=1e-2)
