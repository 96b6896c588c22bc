"""What is written is read back: equal strategies, whichever client the files are for."""

from __future__ import annotations

from pathlib import Path

import pytest
from random_plans import TARGETS, random_plans

from shardwise.launch import emit
from shardwise.launch.documents import documents
from shardwise.launch.read import read_config


def written(folder: Path, files: dict[str, str]) -> str:
    """The files of a plan in a folder of their own, without the plan."""
    folder.mkdir(parents=True)
    for name, text in files.items():
        if name not in ("plan.json", "README.md"):
            (folder / name).write_text(text, encoding="utf-8")
    return str(folder)


def assert_read_back(target: str, number: int, folder: Path) -> None:
    """`number` random plans are written and read, and the strategies are equal."""
    for index, plan in enumerate(random_plans(target, number)):
        place = written(folder / str(index), emit(plan, target))

        assert read_config(documents([place]), plan.request).strategy == plan.strategy


@pytest.mark.parametrize("target", TARGETS)
def test_emitted_folders_are_read_back(target: str, tmp_path: Path) -> None:
    """Random plans of every target: the folder alone, without plan.json, gives the same strategy."""
    assert_read_back(target, 20, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_a_thousand_folders_are_read_back(target: str, tmp_path: Path) -> None:
    """The same on 1,001 plans, 143 of each target (2 s a target)."""
    assert_read_back(target, 143, tmp_path)


def test_the_random_plans_use_every_choice() -> None:
    """Stages of unequal length, chunks, experts, offload, partial recomputation: none is left undrawn."""
    drawn = [plan.strategy for target in TARGETS for plan in random_plans(target, 60)]

    for field in ("tensor_parallel", "pipeline_parallel", "context_parallel", "context_parallel_kind",
                  "ulysses_group_size", "expert_parallel",
                  "expert_tensor_parallel", "virtual_pipeline", "zero_stage", "shard_group_size",
                  "secondary_shard_group_size",
                  "sequence_parallel", "precision", "gradient_dtype", "loss_kernel", "rank_order",
                  "offload_optimizer", "offload_params", "software_stack"):  # fmt: skip
        assert len({getattr(strategy, field) for strategy in drawn}) > 1, field
    assert any(len({stage.layers for stage in strategy.stages}) > 1 for strategy in drawn)
    stages = [stage for strategy in drawn for stage in strategy.stages]
    assert any(0 < stage.recompute_full_layers < stage.layers for stage in stages)
    assert any(stage.recompute_selective_layers > 0 for stage in stages)
    assert any(0 < stage.offloaded_layers < stage.layers for stage in stages)
