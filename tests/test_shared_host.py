"""Host memory that the stages of a node share: it can decide the split, and only the leaf can see it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from oracle.brute import Least, brute, faults
from oracle.evaluate import Evaluator
from oracle.placement import line_up, nodes
from oracle.prices import costs_of
from oracle.transformers import model

from shardwise.costs.columns import NAMES, WORDS, Strategies
from shardwise.costs.host import stage_block
from shardwise.costs.layout import Layout
from shardwise.hardware import Cluster
from shardwise.models import Attention, Block, FeedForward, Training
from shardwise.models.strategy import RANK_ORDERS
from shardwise.plans import MemoryReport, Request, read_strategy
from shardwise.plans.report import memory_report, price
from shardwise.solver import close, few
from shardwise.solver.bounds import can_fit, within
from shardwise.solver.coefficients import Coefficients
from shardwise.solver.leaf import Leaf
from shardwise.solver.lower import time_bound
from shardwise.solver.search import Search
from shardwise.solver.space import rows

Route = Callable[[pytest.MonkeyPatch], None]


def two_nodes(host_memory_bytes: int | None) -> Request:
    """Four stages on two nodes of two cards; the last layers carry most parameters and little work."""
    attention = Attention(heads=8, kv_heads=4, head_dim=128)
    wide = Block(attention=attention, feed_forward=FeedForward(width=8192))
    routed = Block(attention=attention, feed_forward=FeedForward(width=2048, experts=4, experts_per_token=1))
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
        model=model("heavy-end", 1024, 8192, [(wide, 5), (routed, 3)]),
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


def by_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leaves are left to CP-SAT, however few ways they have."""
    monkeypatch.setattr(close, "few_ways", lambda *_: None)


def forgotten_by_the_solver(monkeypatch: pytest.MonkeyPatch) -> None:
    """So, and without the rule of the host."""
    by_the_solver(monkeypatch)
    monkeypatch.setattr(Leaf, "_host", lambda _: None)


def forgotten_of_few(monkeypatch: pytest.MonkeyPatch) -> None:
    """All ways of a leaf are looked at, and kept whatever the host has."""
    monkeypatch.setattr(few, "_kept", lambda _, stages, __: np.ones(len(stages), dtype=bool))


ROUTES = ((lambda _: None, forgotten_of_few), (by_the_solver, forgotten_by_the_solver))


@pytest.mark.parametrize(("route", "forgetful"), ROUTES, ids=("few ways", "solver"))
def test_host_memory_of_a_node_decides_the_split(
    route: Route, forgetful: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With one KiB less host memory than the fastest split needs, another is best; only the leaf can know.

    No stage alone comes near the limit, so no option and no bound sees it: bounds are the same with and
    without it. A leaf that forgets the host returns a plan that breaks the limit.
    """
    route(monkeypatch)
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
    forgetful(monkeypatch)
    careless = Search(tight).run().best
    assert careless is not None
    assert careless.step_ns == free.step_ns
    assert faults(tight, careless.strategy, careless.step_ns) != []


def _same_bounds(ample: Request, tight: Request, step_ns: int) -> None:
    """Bounds and tests of memory do not know the host."""
    free, bound = Coefficients(ample, rows(ample)), Coefficients(tight, rows(tight))
    bounds = time_bound(free)
    assert bounds.tolist() == time_bound(bound).tolist()
    assert can_fit(free).tolist() == can_fit(bound).tolist()
    assert within(free, bounds, step_ns).tolist() == within(bound, bounds, step_ns).tolist()


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


def test_the_nodes_that_cure_a_host_hold_what_they_are_told_to() -> None:
    """Sharded offloaded states: so many nodes hold them, one fewer does not; terms add up to the whole."""

    def judged(nodes: int) -> MemoryReport:
        request = Request(
            model="llama-2-70b",
            cluster=Cluster.preset("dgx-a100-80gb", nodes=nodes),
            training=Training(global_batch_size=8 * nodes, sequence_length=1024),
            limits={"host_memory_bytes": 400 * 2**30},
        )
        data = {"backend": "deepspeed", "zero_stage": 3, "recompute": "full", "offload_optimizer": "cpu"}
        strategy = read_strategy(data, request.model, "test", request.training, request.cluster.gpus)
        return memory_report(request, price(request, [strategy])[0])

    one = judged(1)
    assert one.host_verdict == "does_not_fit" and one.host_nodes_needed is not None
    assert sum(one.host_terms_bytes.values()) == one.host_bytes_per_node
    assert judged(one.host_nodes_needed).host_verdict != "does_not_fit"
    assert judged(one.host_nodes_needed - 1).host_verdict == "does_not_fit"
    assert judged(one.host_nodes_needed).host_nodes_needed is None
