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
