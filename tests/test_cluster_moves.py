"""What must not change with names and order, and what more or less network does to plans."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardwise import Plan, Request, Training, plan
from shardwise.costs.columns import Strategies
from shardwise.costs.layout import Layout
from shardwise.hardware import Cluster, Node
from shardwise.models import Stage, Strategy


def job(cluster: Cluster) -> Request:
    """A small job with few choices on `cluster`."""
    return Request(
        model="llama-3.2-1b",
        cluster=cluster,
        training=Training(global_batch_size=16, sequence_length=1024),
        choose={"backend": "megatron", "software_stack": "megatron-2023", "context_parallel": 1},
    )


def step(cluster: Cluster) -> float:
    """Seconds of the best step on `cluster`."""
    found = plan(job(cluster))
    assert isinstance(found, Plan)
    return found.time.step_seconds


def changed(cluster: Cluster, **fields: float) -> Cluster:
    """The cluster with fields of its machine changed."""
    node = {name: getattr(cluster.node, name) for name in Node.model_fields}
    return cluster.model_copy(update={"node": Node.model_validate({**node, **fields})})


def scattered(free: tuple[tuple[int, ...], ...], ratio: float = 4.0) -> Cluster:
    node = Cluster.preset("dgx-a100-80gb").node
    return Cluster(name="lab", node=node, nodes=sum(map(len, free)), free=free, oversubscription=ratio)


@pytest.mark.parametrize("seed", range(4))
def test_order_and_names_of_machines_change_nothing(seed: int) -> None:
    """The same free cards with machines and leaves in another order, under another name."""
    draw = random.Random(seed)
    free = [[draw.randint(1, 6) for _ in range(draw.randint(1, 2))] for _ in range(2)]
    other = [draw.sample(leaf, len(leaf)) for leaf in draw.sample(free, len(free))]
    one = scattered(tuple(map(tuple, free)))
    two = scattered(tuple(map(tuple, other))).model_copy(update={"name": "elsewhere"})

    assert step(one) == step(two)


@pytest.mark.parametrize("cards", [3, 4, 6])
def test_splitting_a_leaf_of_free_cards_never_speeds(cards: int) -> None:
    """The same machines under two leaves in place of one."""
    assert step(scattered(((cards, 4),))) <= step(scattered(((cards,), (4,))))


@pytest.mark.parametrize("ratio", [1.0, 4.0])
def test_smaller_leaves_never_speed_a_plan(ratio: float) -> None:
    """Four machines under one leaf, two leaves, four leaves."""
    whole = Cluster.preset("dgx-a100-80gb", nodes=4, oversubscription=ratio)
    steps = [step(whole.model_copy(update={"leaf_nodes": size})) for size in (4, 2, 1)]

    assert steps == sorted(steps)


@pytest.mark.parametrize("field", ["nic_bytes_per_s", "network_bus_bytes_per_s", "pcie_bus_bytes_per_s"])
@pytest.mark.parametrize("preset", ["dgx-a100-80gb", "NC96ads_A100_v4"])
def test_more_bandwidth_never_slows_a_plan(preset: str, field: str) -> None:
    """Rates of network cards and measured buses, twice and four times as high."""
    cluster = Cluster.preset(preset, nodes=2)
    base = {"nic_bytes_per_s": cluster.node.nic_bytes_per_s, "network_bus_bytes_per_s": 5e9}.get(field, 10e9)
    steps = [step(changed(cluster, **{field: base * factor})) for factor in (1, 2, 4)]

    assert steps == sorted(steps, reverse=True)


def test_less_oversubscription_never_slows_a_plan() -> None:
    """A spine of a half and an eighth of the leaves' bandwidth."""
    whole = Cluster.preset("dgx-a100-80gb", nodes=4).model_copy(update={"leaf_nodes": 2})
    steps = [step(whole.model_copy(update={"oversubscription": ratio})) for ratio in (1.0, 2.0, 8.0)]

    assert steps == sorted(steps)


def test_a_degraded_link_never_speeds_a_plan() -> None:
    """Islands with three quarters and a half of their NVLinks."""
    cluster = Cluster.preset("dgx-a100-80gb", nodes=2)
    steps = [step(changed(cluster, link_share=share)) for share in (1.0, 0.75, 0.5)]

    assert steps == sorted(steps)


def laid(cluster: Cluster, tensor: int, data: int) -> Layout:
    """The layout of `tensor` x `data` ranks on `cluster`."""
    strategy = Strategy(
        backend="megatron", software_stack="megatron-2023", tensor_parallel=tensor, data_parallel=data,
        micro_batch_size=1, gradient_accumulation_steps=1, precision="bf16", stages=(Stage(layers=16),),
    )  # fmt: skip
    request = job(cluster)
    return Layout(request.model, request.training, cluster, Strategies.of([strategy]))


@pytest.mark.parametrize(
    ("tensor", "tier"),
    [(4, "island"), (8, "island"), (24, "island"), (72, "island"), (16, "leaf"), (48, "leaf")],
)
def test_a_group_across_two_racks_counts_at_the_tier_between_them(tensor: int, tier: str) -> None:
    """Of 16 neighbours in racks of 72 one group in nine lies in two: the slowest decides for all."""
    cluster = Cluster.preset("gb200-nvl72", nodes=36)
    group = laid(cluster, tensor, 144 // tensor).tensor_group

    assert cluster.tiers().tiers[int(group.level[0])].name == tier


@settings(deadline=None)
@given(span=st.integers(1, 512), nodes=st.integers(1, 64), leaf=st.integers(1, 16))
def test_a_tier_holds_every_group_of_a_span(span: int, nodes: int, leaf: int) -> None:
    """Group by group: each lies within one part of the tier, and the tier below has one that does not."""
    cluster = Cluster.preset("dgx-h100", nodes=nodes).model_copy(update={"leaf_nodes": leaf})
    tiers, world = cluster.tiers(), cluster.gpus
    if span > world or world % span:
        return
    first = np.arange(0, world, span)

    def holds(cards: int) -> bool:
        return bool(np.all(first // cards == (first + span - 1) // cards))

    level = int(tiers.holding(span))
    assert holds(int(tiers.cards[level]))
    assert not any(holds(int(cards)) for cards in tiers.cards[:level])
