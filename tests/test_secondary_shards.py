"""hpZ of ZeRO++: a second copy of the weights, in memory, in time, by law, and where it pays."""

from __future__ import annotations

from typing import Any

import pytest

from shardwise import Cluster, Ledger, Plan, Request, Training, plan, price
from shardwise.models import Stage, Strategy
from shardwise.solver.legal import breaches
from shardwise.solver.space import rows

PARAMETERS = 8_030_261_248
"""Of Llama-3.1 8B."""


def request(nodes: int = 4, batch: int = 64, network: float | None = None, **choose: Any) -> Request:
    """Llama-3.1 8B on machines of eight H100, whose network may be slowed."""
    cluster = Cluster.preset("dgx-h100", nodes=nodes)
    if network is not None:
        node = cluster.node.model_copy(update={"nic_bytes_per_s": network, "nics": 1})
        cluster = cluster.model_copy(update={"node": node})
    return Request(
        model="llama-3.1-8b",
        cluster=cluster,
        training=Training(global_batch_size=batch, sequence_length=4096),
        choose={"backend": "deepspeed", **choose},
    )


def third(ranks: int, second: int, **changes: Any) -> Strategy:
    """DeepSpeed ZeRO-3 over all ranks, every layer recomputed."""
    values: dict[str, Any] = {
        "backend": "deepspeed", "software_stack": "deepspeed-2024", "data_parallel": ranks, "zero_stage": 3,
        "shard_group_size": ranks, "secondary_shard_group_size": second, "reshard_after_forward": True,
        "loss_kernel": "hf-eager", "stages": (Stage(layers=32, recompute_full_layers=32),),
    }  # fmt: skip
    return Strategy(**{**values, **changes})


def priced(second: int, steps: int = 2, nodes: int = 4) -> Ledger:
    """A step of `steps` micro-batches over a slow network."""
    asked = request(nodes, 8 * nodes * steps, network=3e9)
    return price(asked, third(8 * nodes, second, gradient_accumulation_steps=steps))


@pytest.mark.parametrize("second", [2, 4, 8])
def test_the_second_copy_is_two_bytes_over_the_group_at_every_moment(second: int) -> None:
    """2 N / g from the first forward pass to the step, on top of the shard over all ranks."""
    plain, found = priced(1).stages[0].moments_kib, priced(second).stages[0].moments_kib

    for moment, terms in found.items():
        assert terms["secondary_weights"] * 1024 == pytest.approx(2 * PARAMETERS / second, rel=1e-4)
        assert terms["weights"] == plain[moment]["weights"]
        assert not plain[moment].get("secondary_weights")


def test_all_gathers_of_a_step_but_the_first_stay_inside_the_group() -> None:
    """DeepSpeed drops the copy at the step: of 2 m gathers one goes over all ranks, and every reduction.

    Embedding and head are gathered once a micro-batch.
    """
    for steps in (1, 2, 4):
        ranks, second, layers = 32, 8, 32 * 218_112_000 * 2
        asked = request(4, ranks * steps)
        strategy = third(ranks, second, gradient_accumulation_steps=steps)
        traffic = price(asked, strategy).traffic_bytes
        found = {axis: sum(tiers.values()) for axis, tiers in traffic.items()}

        ends = 2 * (2 * 128_256 * 4096 + 4096)
        outside = (1 + steps) * (layers + ends) * (ranks - 1) / ranks
        inside = (2 * steps - 1) * layers + (steps - 1) * ends
        assert found["data"] == pytest.approx(outside, rel=1e-3)
        assert found["secondary"] == pytest.approx(inside * (second - 1) / second, rel=1e-3)


def test_on_a_slow_network_it_saves_time_the_more_the_more_micro_batches() -> None:
    """A gather of each pair is saved with one micro-batch; with many nearly both."""
    gains = [priced(1, steps).step_ns / priced(8, steps).step_ns for steps in (1, 4, 16)]

    assert 1.2 < gains[0] < gains[1] < gains[2]


def test_the_search_takes_it_where_the_network_is_slow() -> None:
    """Ethernet of 3 GB/s between machines: the plan keeps a second copy, and is faster by it."""
    best, without = (
        plan(request(network=3e9, zero_stage=3, **choice))
        for choice in ({}, {"secondary_shard_group_size": 1})
    )

    assert isinstance(best, Plan) and isinstance(without, Plan)
    assert best.strategy.secondary_shard_group_size > 1
    assert best.time.step_seconds < 0.9 * without.time.step_seconds


def test_the_search_leaves_it_on_one_machine_of_one_island() -> None:
    """All gathers are on the fast links already, where a copy over all would only cost memory."""
    asked = request(nodes=1, zero_stage=3)
    found = plan(asked)

    assert isinstance(found, Plan)
    assert found.strategy.secondary_shard_group_size == 1
    assert set(rows(asked).secondary_shard_group_size.tolist()) == {1}


def test_groups_that_fill_no_island_are_offered_to_those_who_choose_it() -> None:
    """The cards of an island are free, other divisors of the ranks on request; all ranks are no part."""
    free = set(rows(request()).secondary_shard_group_size.tolist())
    chosen = set(rows(request(secondary_shard_group_size=[2, 3, 16, 32])).secondary_shard_group_size.tolist())

    assert free == {1, 8}
    assert chosen == {2, 16}


ILLEGAL = {
    "another stage": third(32, 8, zero_stage=2, reshard_after_forward=False),
    "no divisor": third(32, 5),
    "another backend": third(
        32, 8, backend="fsdp", software_stack="fsdp-compile-2024", loss_kernel="eager", gradient_dtype="fp32"
    ),
    "weights on the host": third(
        32, 8, offload_optimizer="cpu", offload_params="cpu",
        stages=(Stage(layers=32, recompute_full_layers=32, offloaded_layers=32),),
    ),
}  # fmt: skip


@pytest.mark.parametrize("strategy", ILLEGAL.values(), ids=ILLEGAL.keys())
def test_what_deepspeed_has_no_second_copy_for_is_refused_by_name(strategy: Strategy) -> None:
    """Stage 3 of DeepSpeed alone, a divisor of the ranks, weights on the card; else it is legal."""
    asked = request(4, 32)
    fields = {breach.rule for breach in breaches(asked.changed({"choose.backend": None}), strategy)}

    assert fields == {"secondary_shard_group_size"}
    legal = strategy.model_copy(update={"secondary_shard_group_size": 1})
    assert not breaches(asked.changed({"choose.backend": None}), legal)


def test_adapters_have_no_second_copy() -> None:
    """DeepSpeed never drops the copy of frozen weights: that is not priced, so not offered."""
    asked = request(secondary_shard_group_size=None).changed({"training.trainable": "lora(16)"})

    assert set(rows(asked).secondary_shard_group_size.tolist()) == {1}
