"""Sends between pipeline stages: what each rank hands on, and what of it shows."""

from __future__ import annotations

from typing import Any

import pytest

from shardwise import Cluster, Training, Transformer
from shardwise.costs import price
from shardwise.costs.ledger import Ledger
from shardwise.models import Strategy
from shardwise.models.stack import stacks
from shardwise.models.strategy import Stage

LAYERS = 32
STACK = "megatron-2022"


def ledger(tensor: int, sequence: bool, stack: str = STACK) -> Ledger:
    """Two stages of Llama 3.1 8B on two DGX H100, one machine each."""
    knobs: dict[str, Any] = {"tensor_parallel": tensor, "data_parallel": 8 // tensor}
    strategy = Strategy(
        backend="megatron", software_stack=stack, gradient_dtype="fp32", loss_kernel="megatron",
        pipeline_parallel=2, sequence_parallel=sequence, rank_order="tp-cp-dp-pp",
        gradient_accumulation_steps=4, stages=(Stage(layers=LAYERS // 2),) * 2, **knobs,
    )  # fmt: skip
    training = Training(global_batch_size=strategy.data_parallel * 4, sequence_length=4096)
    cluster = Cluster.preset("dgx-h100", nodes=2)
    return price(Transformer.preset("llama-3.1-8b"), training, cluster, [strategy])[0]


def sent(tensor: int, sequence: bool) -> int:
    """Bytes a card sends to the other stage each step."""
    return sum(ledger(tensor, sequence).traffic_bytes["pipeline"].values())


@pytest.mark.parametrize("sequence", [True, False])
def test_each_rank_of_a_tensor_group_sends_its_share(sequence: bool) -> None:
    """2 T h / t a boundary and micro-batch, with and without sequence parallel."""
    whole = 4 * 2 * 2 * 4096 * 4096
    assert sent(4, sequence) == whole // 4
    assert sent(8, sequence) == whole // 8


def test_without_sequence_parallel_the_shares_are_gathered() -> None:
    """The gather inside the machine costs time, but less than sending the whole over the network did."""
    split, gathered, alone = (ledger(8, True), ledger(8, False), ledger(1, False))
    times = [one.stages[0].chunk_ns["pipeline_comm"] for one in (split, gathered, alone)]
    assert times[0] < times[1] < times[2]


def test_a_stack_hides_sends_by_its_share() -> None:
    """A blocking stack shows all of a send, one that overlaps its share of it."""
    name = "megatron-bridge-2025"
    blocking, hiding = (
        ledger(8, True, stack=stack).stages[0].chunk_ns["pipeline_comm"] for stack in (STACK, name)
    )
    assert stacks()[STACK].pipeline_exposed == 1.0
    assert hiding == pytest.approx(stacks()[name].pipeline_exposed * blocking, rel=1e-4)


def staged(nodes: int, stages: int, stack: str = STACK, tensor: int = 4) -> Ledger:
    """Four layers a stage, tensor ranks of `tensor`, as many data ranks as cards are left."""
    strategy = Strategy(
        backend="megatron", software_stack=stack, gradient_dtype="fp32", loss_kernel="megatron",
        tensor_parallel=tensor, pipeline_parallel=stages, rank_order="tp-cp-dp-pp",
        data_parallel=8 * nodes // tensor // stages, gradient_accumulation_steps=8,
        stages=(Stage(layers=LAYERS // stages),) * stages,
    )  # fmt: skip
    training = Training(global_batch_size=strategy.data_parallel * 8, sequence_length=4096)
    cluster = Cluster.preset("dgx-h100", nodes=nodes)
    return price(Transformer.preset("llama-3.1-8b"), training, cluster, [strategy])[0]


def test_of_the_stages_of_a_machine_each_has_one_boundary_that_leaves_it() -> None:
    """Two stages a machine: one send inside, one beyond; one stage a machine: both beyond."""
    inside, beyond, mixed = (
        staged(nodes, stages).stages[0].chunk_ns["pipeline_comm"]
        for nodes, stages in ((1, 2), (2, 2), (2, 4))
    )
    assert inside < beyond
    assert 2 * mixed == pytest.approx(inside + beyond, abs=4)


@pytest.mark.parametrize(("right", "left"), [(5, 5), (5, 1), (1, 5)])
def test_a_blocking_send_shows_once_at_each_boundary(right: int, left: int) -> None:
    """In an event simulation of sends that block, a stage's period is its passes and one send each way."""
    forward, backward, stages = 20, 40, 6
    links = [right if stage % 2 else left for stage in range(stages - 1)]
    short, long = (makespan(links, forward, backward, batches) for batches in (24, 48))
    assert (long - short) / 24 == forward + backward + right + left


def makespan(links: list[int], forward: int, backward: int, batches: int) -> int:
    """Time of plain 1F1B whose stage i sends over `links[i]`: a sender works on when the send has ended."""
    stages = len(links) + 1
    orders = [
        ["F"] * min(stages - 1 - i, batches) + ["F", "B"] * max(batches - stages + 1 + i, 0)
        for i in range(stages)
    ]
    orders = [order + ["B"] * (2 * batches - len(order)) for order in orders]
    ends: dict[tuple[int, str, int], int] = {}

    def ready(stage: int, kind: str, batch: int) -> int | None:
        """When the input of a pass has come to its stage."""
        other = stage - 1 if kind == "F" else stage + 1
        if kind == "B" and stage == stages - 1:
            return ends.get((stage, "F", batch))
        if not 0 <= other < stages:
            return 0
        made = ends.get((other, kind, batch))
        return None if made is None else made + links[min(stage, other)]

    free, done = [0] * stages, [0] * stages
    counts = [{"F": 0, "B": 0} for _ in range(stages)]
    while any(done[i] < len(orders[i]) for i in range(stages)):
        for i in range(stages):
            while done[i] < len(orders[i]):
                kind = orders[i][done[i]]
                batch = counts[i][kind]
                come = ready(i, kind, batch)
                if come is None:
                    break
                start = max(free[i], come)
                span = forward if kind == "F" else backward
                ends[i, kind, batch] = start + span
                free[i] = start + span + (links[i] if kind == "F" and i < stages - 1 else 0)
                free[i] += links[i - 1] if kind == "B" and i else 0
                counts[i][kind] += 1
                done[i] += 1
    return max(free)


def test_a_host_that_waits_for_exchanges_keeps_the_device_waiting() -> None:
    """Once a chunk and micro-batch where there are stages at all; elsewhere nothing is told of it."""
    piped, alone = staged(1, 2), staged(1, 1)
    wait = stacks()[STACK].exchange_wait_seconds
    assert wait > 0
    assert piped.stages[0].chunk_ns["host_overhead"] == round(1e9 * wait)
    assert "host_overhead" not in alone.stages[0].chunk_ns
    assert "host_overhead" not in staged(1, 2, "megatron-bridge-2025").stages[0].chunk_ns
