"""The launch scripts in the real launchers: every line is parsed by its client, one is really started."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from clients.ranks import environment
from plans_by_hand import deepspeed, fsdp, megatron, plan, stage

from shardwise.launch import emit
from shardwise.models import Strategy

pytestmark = pytest.mark.clients

SETTINGS = {"MASTER_ADDR": "node-0", "NODE_RANK": "1"}
TRAIN = """
import json, torch, torch.distributed as dist, transformers
import fsdp_plan as plan

mesh = plan.make_mesh()
torch.manual_seed(0)
config = transformers.LlamaConfig(
    hidden_size=64, intermediate_size=128, num_hidden_layers=4, num_attention_heads=4,
    num_key_value_heads=2, vocab_size=256,
)
model = plan.apply(transformers.LlamaForCausalLM(config).float(), mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
rank, count = plan.data_rank(mesh)
torch.manual_seed(rank)
tokens = torch.randint(0, 256, (plan.MICRO_BATCH_SIZE, plan.SEQUENCE_LENGTH + 1))
losses = [plan.step(model, optimizer, [(tokens[:, :-1], tokens[:, 1:])], 1.0).item() for _ in range(3)]
graphs = torch._dynamo.utils.counters["stats"]["unique_graphs"]
open(f"told{rank}.json", "w").write(json.dumps({"graphs": graphs, "losses": losses}))
dist.destroy_process_group()
"""


def folder_of(strategy: Strategy, target: str, folder: Path) -> Path:
    """An emitted folder on disk."""
    for name, text in emit(plan(strategy), target).items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def arguments(folder: Path, launcher: str) -> list[str]:
    """What `launch.sh` hands to `launcher`, told by a stand-in of that name."""
    tools = folder / "bin"
    tools.mkdir()
    (tools / launcher).write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n", encoding="utf-8")
    (tools / launcher).chmod(0o755)
    path = os.pathsep.join([str(tools), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", str(folder / "launch.sh"), "--epochs", "1"],
        env={**os.environ, **SETTINGS, "PATH": path},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return done.stdout.splitlines()


def test_torchrun_reads_its_line(tmp_path: Path) -> None:
    """Two machines of eight ranks meet at MASTER_ADDR."""
    from torch.distributed.run import parse_args

    read = parse_args(arguments(folder_of(fsdp(3, 16), "fsdp", tmp_path), "torchrun"))

    assert (read.nnodes, read.nproc_per_node, read.rdzv_backend) == ("2", "8", "c10d")
    assert read.rdzv_endpoint == "node-0:29500"
    assert read.training_script == "train.py"
    assert read.training_script_args == ["--epochs", "1"]


def test_torchrun_reads_the_line_for_megatron(tmp_path: Path) -> None:
    """One machine of eight ranks; all arguments of the file go to the script, then those behind it."""
    from torch.distributed.run import parse_args

    read = parse_args(arguments(folder_of(megatron(1, 8), "megatron", tmp_path), "torchrun"))
    given = read.training_script_args

    assert (read.nnodes, read.nproc_per_node, read.standalone) == ("1", "8", True)
    assert read.training_script == "pretrain_gpt.py"
    assert given[: given.index("--num-layers") + 2] == ["--num-layers", "4"]
    assert given[-2:] == ["--epochs", "1"]


def test_accelerate_reads_its_line(tmp_path: Path) -> None:
    """Two machines, sixteen processes, this one is the second."""
    from accelerate.commands.launch import launch_command_parser

    strategy = fsdp(3, 16, gradient_dtype="bf16")
    given = arguments(folder_of(strategy, "accelerate", tmp_path), "accelerate")
    read = launch_command_parser().parse_args(given[1:])

    assert given[0] == "launch"
    assert (read.num_machines, read.num_processes, read.machine_rank) == (2, 16, 1)
    assert (read.main_process_ip, read.main_process_port) == ("node-0", 29500)
    assert read.config_file == str(tmp_path / "accelerate_fsdp2.yaml")
    assert (read.training_script, read.training_script_args) == ("train.py", ["--epochs", "1"])


def test_deepspeed_reads_its_line_and_hostfile(tmp_path: Path) -> None:
    """Two machines of eight slots; the script gets the configuration's path."""
    from deepspeed.launcher.runner import fetch_hostfile, parse_args

    read = parse_args(arguments(folder_of(deepspeed(3, 16), "deepspeed", tmp_path), "deepspeed"))

    assert (read.num_nodes, read.num_gpus) == (2, 8)
    assert dict(fetch_hostfile(read.hostfile)) == {"node-0": 8, "node-1": 8}
    assert read.user_script == "train.py"
    assert read.user_args == ["--deepspeed", str(tmp_path / "ds_config.json"), "--epochs", "1"]


def test_the_trainer_agrees_with_the_flags_of_the_readme(tmp_path: Path) -> None:
    """Hugging Face's comparison of file and arguments finds no difference; with other arguments it does."""
    from transformers import HfArgumentParser, TrainingArguments
    from transformers.integrations.deepspeed import HfTrainerDeepSpeedConfig

    strategy = deepspeed(1, 1, micro_batch_size=2, gradient_accumulation_steps=3, shard_group_size=1)
    folder = folder_of(strategy, "deepspeed", tmp_path)
    told = (folder / "README.md").read_text(encoding="utf-8").split("these agree: `")[1].split("`")[0]

    def mismatches(flags: str) -> list[str]:
        given = [*flags.split(), "--output_dir", str(tmp_path / "out"), "--use_cpu"]
        (read,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses(given)
        config = HfTrainerDeepSpeedConfig(str(folder / "ds_config.json"))
        config.trainer_config_process(read)
        return list(config.mismatches)

    assert mismatches(told) == []
    assert len(mismatches(told.replace("batch_size 2", "batch_size 4"))) == 2
    assert len(mismatches(told.replace("--bf16", ""))) == 1


def test_the_fsdp_folder_starts(tmp_path: Path) -> None:
    """`bash launch.sh` on two ranks: compiled layers, partial recomputation, falling losses."""
    strategy = fsdp(
        3,
        2,
        software_stack="fsdp-compile-2024",
        stages=stage(recompute_selective_layers=4),
    )
    folder = folder_of(strategy, "fsdp", tmp_path)
    (folder / "train.py").write_text(TRAIN, encoding="utf-8")
    done = subprocess.run(
        ["bash", str(folder / "launch.sh")],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=300,
    )

    assert done.returncode == 0, done.stderr[-4000:]
    for rank in range(2):
        told = json.loads((folder / f"told{rank}.json").read_text(encoding="utf-8"))

        assert told["graphs"] == 1
        assert told["losses"] == sorted(told["losses"], reverse=True)
        assert 5.3 < told["losses"][0] < 5.8
