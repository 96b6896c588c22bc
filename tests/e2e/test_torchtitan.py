"""The emitted arguments of torchtitan in torchtitan's own parser; nothing is trained."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
from random_plans import random_plans

from shardwise.launch import emit
from shardwise.launch.fsdp.limits import compiled, replicas_of
from shardwise.launch.lint.keys import facts
from shardwise.plans import Plan

pytestmark = pytest.mark.e2e
config = pytest.importorskip("torchtitan.config", reason="torchtitan is not installed: the extra e2e")

EXPAND = 'source torchtitan_args.sh; printf "%s\\n" "${TORCHTITAN_ARGS[@]}"'
KINDS = {"none": "NoneType", "full": "FullAC.Config", "selective": "SelectiveAC.Config"}


def words(plan: Plan, folder: Path) -> list[str]:
    """The words that bash hands to torchtitan."""
    for name, text in emit(plan, "torchtitan").items():
        (folder / name).write_text(text, encoding="utf-8")
    done = subprocess.run(["bash", "-c", EXPAND], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def split(given: list[str]) -> list[str]:
    """Words as the shell splits them: ours hold no spaces."""
    return [word for line in given for word in line.split()]


@pytest.mark.parametrize("index", range(5))
def test_the_parser_reads_what_the_plan_says(index: int, tmp_path: Path) -> None:
    """Twelve random plans a time: degrees, batch, types, compilation and recomputation arrive."""
    for plan in list(random_plans("torchtitan", 12, seed=index)):
        strategy, training = plan.strategy, plan.request.training
        found: Any = config.ConfigManager().parse_args(split(words(plan, tmp_path)))
        axes, sizes = found.parallelism, found.training

        assert axes.tensor_parallel_degree == strategy.tensor_parallel
        assert axes.context_parallel_degree == strategy.context_parallel
        assert axes.data_parallel_shard_degree == strategy.shard_group_size // strategy.context_parallel
        assert axes.data_parallel_replicate_degree == replicas_of(strategy)
        assert axes.fsdp_reshard_after_forward == ("always" if strategy.zero_stage == 3 else "never")
        assert (sizes.local_batch_size, sizes.global_batch_size) == (
            strategy.micro_batch_size,
            training.global_batch_size,
        )
        assert sizes.seq_len == training.sequence_length
        assert sizes.enable_cpu_offload == (strategy.offload_params == "cpu")
        assert sizes.mixed_precision_param == {"bf16": "bfloat16", "fp32": "float32"}[strategy.precision]
        assert found.compile.enable == compiled(strategy)
        assert type(found.activation_checkpoint).__qualname__ == KINDS[strategy.recompute]


def test_its_mesh_holds_the_ranks_of_a_sequence(tmp_path: Path) -> None:
    """The sizes it makes of the options fill the world, shards over data and context ranks together."""
    from torchtitan.distributed.parallel_dims import ParallelDims

    plans = [plan for plan in random_plans("torchtitan", 40) if plan.strategy.context_parallel > 1]
    assert plans
    for plan in plans:
        found: Any = config.ConfigManager().parse_args(split(words(plan, tmp_path)))
        sizes = ParallelDims.from_config(found.parallelism, world_size=plan.strategy.world)

        assert sizes.cp_enabled and sizes.cp == plan.strategy.context_parallel
        assert sizes.dp_shard * sizes.cp == plan.strategy.shard_group_size


def test_a_slip_is_refused(tmp_path: Path) -> None:
    """The parser that reads our files knows its options: one letter less, and it ends."""
    plan = next(random_plans("torchtitan", 1))
    given = split(words(plan, tmp_path))
    slip = [word.replace("tensor_parallel_degree", "tensor_parallel_degre") for word in given]

    with pytest.raises(SystemExit):
        config.ConfigManager().parse_args(slip)


def test_our_table_of_its_options_is_its_own() -> None:
    """Every option of the sections that `lint` looks into stands in its table."""
    from dataclasses import fields

    sections = facts("torchtitan")["sections"]
    for kind, name in (
        (config.TrainingConfig, "training"),
        (config.ParallelismConfig, "parallelism"),
        (config.CompileConfig, "compile"),
    ):
        assert {field.name for field in fields(kind)} <= set(sections[name])
