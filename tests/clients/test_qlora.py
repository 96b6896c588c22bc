"""A 4-bit base with adapters (bitsandbytes, peft) trained by the emitted module on two gloo ranks."""

from __future__ import annotations

from typing import Any

import pytest
from clients.ranks import run_ranks
from plans_by_hand import fsdp, plan

from shardwise.launch import emit

pytestmark = pytest.mark.clients

WORLD, RANK = 2, 4
PLANS = {
    "zero 3": fsdp(3, WORLD, micro_batch_size=2),
    "zero 2 accumulated": fsdp(2, WORLD, gradient_accumulation_steps=2),
}
PACKED = 4 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128) // 4
"""Elements of the linears of four layers as bfloat16 words, each of four 4-bit weights."""
ADAPTERS = 4 * RANK * (64 + 64 + 64 + 32)
"""Queries and values of four layers."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """What both ranks tell of all plans."""
    job = {}
    for name, strategy in PLANS.items():
        made = plan(strategy, trainable=f"qlora({RANK})", lora_targets=["q_proj", "v_proj"])
        job[name] = {
            "module": emit(made, "fsdp")["fsdp_plan.py"],
            "rank": RANK,
            "targets": ["q_proj", "v_proj"],
            "sequences": made.request.training.global_batch_size,
        }
    return run_ranks("worker_qlora.py", job, WORLD, tmp_path_factory.mktemp("qlora"), 300)


@pytest.mark.parametrize("name", PLANS)
def test_losses_equal_those_of_one_process(found: list[Any], name: str) -> None:
    """Three steps of the adapters lower the loss by 0.04, on each rank as on one process."""
    for rank in found:
        losses = rank[name]["losses"]

        assert losses[0] - losses[-1] > 0.04
        assert losses == pytest.approx(rank[name]["plain"], abs=2e-3)


@pytest.mark.parametrize("name", PLANS)
def test_each_rank_holds_its_share_in_four_bits(found: list[Any], name: str) -> None:
    """Packed words and adapters are cut in equal parts."""
    for rank in found:
        assert rank[name]["packed"] == PACKED // WORLD
        assert rank[name]["adapters"] == ADAPTERS // WORLD
