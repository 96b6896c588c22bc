"""The emitted `accelerate_fsdp2.yaml` as Accelerate itself reads it.

On a CPU Accelerate ignores the FSDP section and shards nothing, whatever its exit code says: these
tests prove that the file's keys are known and arrive in the plugin with the plan's values, no more.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from plans_by_hand import fsdp, plan, stage

from shardwise.launch import emit
from shardwise.models import Strategy

pytestmark = pytest.mark.clients

BF16: dict[str, Any] = {"gradient_dtype": "bf16"}
CPU: dict[str, Any] = {"offload_optimizer": "cpu", "offload_params": "cpu"}
PLANS = {
    "zero 2": fsdp(2, 8, **BF16),
    "zero 3 full": fsdp(3, 16, stages=stage(recompute_full_layers=4), **BF16),
    "hybrid": fsdp(3, 16, shard_group_size=8, **BF16),
    "context": fsdp(3, 2, context_parallel=4, context_parallel_kind="ring", **BF16),
    "context hybrid": fsdp(3, 4, context_parallel=4, shard_group_size=8, **BF16),
    "offloaded": fsdp(3, 8, stages=stage(offloaded_layers=4), **CPU, **BF16),
    "compiled": fsdp(3, 8, software_stack="fsdp-compile-2024", **BF16),
    "fp32": fsdp(3, 8, precision="fp32", gradient_dtype="fp32"),
}


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """The environment that `accelerate launch --config_file` makes of a plan, and its parsed arguments."""

    def launch(strategy: Strategy) -> Any:
        from accelerate.commands import launch as client
        from accelerate.utils.launch import prepare_multi_gpu_env

        monkeypatch.setattr("torch.cuda.device_count", lambda: 8)
        path = tmp_path / "accelerate_fsdp2.yaml"
        path.write_text(emit(plan(strategy), "accelerate")[path.name], encoding="utf-8")
        given = ["--config_file", str(path), "--main_process_port", "29500", "train.py"]
        args, *_ = client._validate_launch_command(client.launch_command_parser().parse_args(given))
        made = prepare_multi_gpu_env(args)
        for name, value in made.items():
            monkeypatch.setenv(name, value)
        return args

    return launch


def test_every_key_is_an_option_of_the_launcher(tmp_path: Path) -> None:
    """Accelerate ignores unknown keys inside a section, so each is looked up among its launch options."""
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import launch_command_parser

    options = {action.dest for action in launch_command_parser()._actions}
    for name, strategy in PLANS.items():
        path = tmp_path / f"{name}.yaml"
        path.write_text(emit(plan(strategy), "accelerate")["accelerate_fsdp2.yaml"], encoding="utf-8")
        read = load_config_from_file(str(path))
        keys = {**read.fsdp_config, **read.parallelism_config, **read.dynamo_config}

        assert read.num_processes == strategy.world
        assert read.num_machines == -(-strategy.world // 8)
        assert set(keys) <= options
        assert len(keys) >= 8


def test_an_unknown_key_would_be_found(tmp_path: Path) -> None:
    """The same look-up fails for a misspelt key, which the client itself would accept."""
    from accelerate.commands.config.config_args import load_config_from_file
    from accelerate.commands.launch import launch_command_parser

    text = emit(plan(PLANS["zero 2"]), "accelerate")["accelerate_fsdp2.yaml"]
    path = tmp_path / "misspelt.yaml"
    path.write_text(text.replace("fsdp_reshard_after", "fsdp_reshard_behind"), encoding="utf-8")
    options = {action.dest for action in launch_command_parser()._actions}

    unknown = set(load_config_from_file(str(path)).fsdp_config) - options
    assert unknown == {"fsdp_reshard_behind_forward"}


@pytest.mark.parametrize("name", PLANS)
def test_the_plugin_gets_the_plan(launched: Any, name: str) -> None:
    """Through the launcher's environment into the plugin: resharding, wrapping, recomputing, offload."""
    from accelerate.utils import FullyShardedDataParallelPlugin

    strategy = PLANS[name]
    args = launched(strategy)
    plugin = FullyShardedDataParallelPlugin()

    assert args.use_fsdp is True
    assert plugin.fsdp_version == 2
    assert plugin.reshard_after_forward is (strategy.zero_stage == 3)
    assert plugin.transformer_cls_names_to_wrap == ["LlamaDecoderLayer"]
    assert plugin.activation_checkpointing is (strategy.recompute == "full")
    offload = "CPUOffloadPolicy" if strategy.offload_params == "cpu" else "OffloadPolicy"
    assert type(plugin.cpu_offload).__name__ == offload


def test_bfloat16_is_also_the_type_of_the_reduction(launched: Any) -> None:
    """Why a plan with float32 gradients is refused: the plugin reduces in the compute type."""
    import torch
    from accelerate.utils import FullyShardedDataParallelPlugin

    args = launched(PLANS["zero 3 full"])
    plugin = FullyShardedDataParallelPlugin()
    plugin.set_mixed_precision(args.mixed_precision)

    assert plugin.mixed_precision_policy.param_dtype is torch.bfloat16
    assert plugin.mixed_precision_policy.reduce_dtype is torch.bfloat16


def test_replicas_of_shard_groups_become_a_mesh(launched: Any) -> None:
    """HSDP: two replicas of eight cards."""
    from accelerate.parallelism_config import ParallelismConfig

    args = launched(PLANS["hybrid"])
    mesh = ParallelismConfig()

    assert args.use_parallelism_config is True
    assert (mesh.dp_replicate_size, mesh.dp_shard_size) == (2, 8)
    assert mesh.fsdp_dim_names == ["dp_replicate", "dp_shard_cp"]


def test_ranks_that_share_a_sequence_become_a_mesh(launched: Any) -> None:
    """Two shards of four context ranks that pass keys on; twice as many in two replicas, which gather."""
    from accelerate.parallelism_config import ParallelismConfig

    launched(PLANS["context"])
    mesh = ParallelismConfig()
    assert mesh._get_mesh() == (("dp_shard", "cp"), (2, 4))
    assert mesh.cp_handler.cp_comm_strategy == "alltoall"
    launched(PLANS["context hybrid"])
    mesh = ParallelismConfig()
    assert (mesh.dp_replicate_size, mesh.dp_shard_size, mesh.cp_size, mesh.total_size) == (2, 2, 4, 16)
    assert mesh.cp_handler.cp_comm_strategy == "allgather"


def test_compiled_layers_are_regions(launched: Any) -> None:
    """A compiled software stack compiles layer by layer."""
    from accelerate.utils import TorchDynamoPlugin

    launched(PLANS["compiled"])
    plugin = TorchDynamoPlugin()

    assert plugin.backend.value.lower() == "inductor"
    assert plugin.use_regional_compilation is True
