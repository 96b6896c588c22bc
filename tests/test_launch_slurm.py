"""`job.sbatch`: machines, memory and hours of a plan."""

from __future__ import annotations

import re

import pytest
from plans_by_hand import deepspeed, fsdp, megatron, plan

from shardwise.hardware import Cluster
from shardwise.launch import emit
from shardwise.launch.slurm.job import clock, seconds_asked
from shardwise.models import Strategy
from shardwise.plans import Plan


def options(made: Plan) -> dict[str, str]:
    """Options of the job by name."""
    text = emit(made, "slurm")["job.sbatch"]
    return dict(re.findall(r"^#SBATCH --([a-z-]+)=?(\S*)$", text, re.MULTILINE))


def with_tokens(made: Plan, tokens: int, step: float) -> Plan:
    """The plan for that many tokens, at `step` seconds a step."""
    training = made.request.training.model_copy(update={"total_tokens": tokens})
    request = made.request.model_copy(update={"training": training})
    time = made.time.model_copy(update={"step_seconds": step})
    return made.model_copy(update={"request": request, "time": time})


def test_it_asks_for_what_the_plan_uses() -> None:
    """Whole machines, their cores, the host memory with a factor and each rank's own."""
    found = options(plan(fsdp(3, 16)))

    assert (found["nodes"], found["gres"], found["ntasks-per-node"]) == ("2", "gpu:8", "1")
    assert found["cpus-per-task"] == str(Cluster.preset("dgx-h100").node.cpu_cores)
    assert found["mem"] == f"{int(1.2 + 8 * 4)}G"
    assert found["switches"] == "1"
    assert "requeue" in found


def test_a_part_of_a_machine_gets_its_share_of_the_cores() -> None:
    """Four of eight cards: half of the cores, no switch to ask for."""
    found = options(plan(fsdp(3, 4)))

    assert found["gres"] == "gpu:4"
    assert found["cpus-per-task"] == str(Cluster.preset("dgx-h100").node.cpu_cores // 2)
    assert "switches" not in found


def test_the_time_is_that_of_all_tokens_with_a_factor() -> None:
    """1,000 steps of 60 s are 1,000 minutes: a fifth more and half an hour for the start."""
    made = plan(fsdp(3, 16))
    made = with_tokens(made, 1000 * made.request.training.tokens, 60.0)

    assert seconds_asked(made) == 60 * (1000 * 1.2 + 30)
    assert options(made)["time"] == "0-20:30:00"


@pytest.mark.parametrize(("seconds", "text"), [(60, "0-00:01:00"), (86_400, "1-00:00:00")])
def test_the_clock_reads_as_slurm_reads_it(seconds: int, text: str) -> None:
    """Days-hours:minutes:seconds."""
    assert clock(seconds) == text


@pytest.mark.parametrize(
    ("strategy", "file"),
    [
        (deepspeed(3, 16), "ds_config.json"),
        (fsdp(3, 16), "fsdp_plan.py"),
        (megatron(1, 16), "megatron_args.sh"),
    ],
)
def test_the_backend_s_own_files_lie_beside(strategy: Strategy, file: str) -> None:
    """The job runs launch.sh on each machine, with torchrun and the machine's number under each backend."""
    files = emit(plan(strategy), "slurm")

    assert file in files
    assert "torchrun --nnodes=2 --nproc-per-node=8" in files["launch.sh"]
    assert '--node-rank="${NODE_RANK:-0}"' in files["launch.sh"]
    assert 'NODE_RANK="$SLURM_NODEID"' in files["job.sbatch"]
