"""DeepSpeed's own reading of 200 random plans in a pretended world of the plan's size; nothing is started."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from random_plans import random_plans

from shardwise.launch import emit
from shardwise.plans import Plan

pytestmark = pytest.mark.clients


class World:
    """Stands in for `torch.distributed` and the model-parallel unit: without them DeepSpeed takes 1 rank."""

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks

    def get_rank(self) -> int:
        """The first rank."""
        return 0

    def get_world_size(self) -> int:
        """All ranks."""
        return self.ranks

    get_data_parallel_world_size = get_world_size


@pytest.fixture(scope="module")
def plans() -> list[Plan]:
    """The same 200 plans each time."""
    return list(random_plans("deepspeed", 200, seed=2))


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """`DeepSpeedConfig` of a dictionary in a world of some ranks."""
    from deepspeed.runtime import config

    def read(values: dict[str, Any], ranks: int) -> Any:
        monkeypatch.setattr(config, "dist", World(ranks))
        return config.DeepSpeedConfig(values, mpu=World(ranks))

    yield read


def test_the_client_reads_what_the_plan_says(plans: list[Plan], reader: Any) -> None:
    """Batch sizes, stage, types, buckets and offload of every plan, as DeepSpeed understands its file."""
    for plan in plans:
        strategy, buckets = plan.strategy, plan.buckets
        written = json.loads(emit(plan, "deepspeed")["ds_config.json"])
        read = reader(written, strategy.data_parallel)
        zero = read.zero_config

        assert read.train_batch_size == plan.request.training.global_batch_size
        assert read.train_micro_batch_size_per_gpu == strategy.micro_batch_size
        assert read.gradient_accumulation_steps == strategy.gradient_accumulation_steps
        assert written.get("sequence_parallel_size", 1) == strategy.context_parallel
        assert zero.stage == strategy.zero_stage
        assert bool(read.bfloat16_config.enabled) == (strategy.precision == "bf16")
        assert bool(read.float16_config.enabled) == (strategy.precision == "fp16")
        assert read.grad_accum_dtype == ("fp32" if strategy.gradient_dtype == "fp32" else None)
        assert (zero.offload_optimizer is not None) == (strategy.offload_optimizer == "cpu")
        assert (zero.offload_param is not None) == (strategy.offload_params == "cpu")
        if strategy.zero_stage:
            assert zero.reduce_bucket_size == buckets.reduce_bucket_elements
        if strategy.zero_stage == 3:
            assert zero.prefetch_bucket_size == buckets.prefetch_bucket_elements
            assert zero.max_live_parameters == buckets.max_live_parameters


def test_another_world_is_refused(plans: list[Plan], reader: Any) -> None:
    """The pretended world is read: one rank more, and the batch sizes no longer multiply."""
    for plan in plans[:20]:
        written = json.loads(emit(plan, "deepspeed")["ds_config.json"])
        with pytest.raises(AssertionError, match="train_batch_size"):
            reader(written, plan.strategy.data_parallel + 1)
