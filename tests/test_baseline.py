"""`emit --baseline`: the same work a card on the fewest machines, and how to compare."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from plans_by_hand import fsdp, megatron, plan

from shardwise.cli import main
from shardwise.hardware import Cluster
from shardwise.inputs import InputError
from shardwise.launch.baseline import HEAVY, baseline, heaviest
from shardwise.models import Stage, Strategy, Transformer
from shardwise.plans import Plan

LLAMA = Transformer.preset("llama-3.1-8b")
WHOLE = (Stage(layers=32, recompute_full_layers=32),)


def large(strategy: Strategy) -> Plan:
    """A plan of the 8B model for as many machines as the strategy fills."""
    return plan(strategy, model=LLAMA, cluster=Cluster.of_gpus("dgx-h100", strategy.world), sequence=2048)


def test_it_keeps_the_work_of_a_card() -> None:
    """One machine instead of four: a quarter of the data-parallel ranks and of the batch, all else alike."""
    made = large(fsdp(3, 32, micro_batch_size=2, gradient_accumulation_steps=2, stages=WHOLE))
    small = baseline(made)

    assert small.request.cluster.nodes == 1
    assert small.strategy.data_parallel == small.strategy.shard_group_size == 8
    assert small.request.training.global_batch_size == 8 * 2 * 2
    same = {"data_parallel", "shard_group_size"}
    assert small.strategy.model_dump(exclude=same) == made.strategy.model_dump(exclude=same)
    assert small.time.step_seconds != made.time.step_seconds


def test_a_model_over_two_machines_keeps_both() -> None:
    """Eight-way tensor parallel in two stages fills sixteen cards: that is the least."""
    halves = tuple(Stage(layers=16) for _ in range(2))
    made = large(megatron(1, 4, tensor_parallel=8, sequence_parallel=True, stages=halves))
    small = baseline(made)

    assert (small.request.cluster.nodes, small.strategy.data_parallel) == (2, 1)


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        (fsdp(3, 8, stages=WHOLE), "nothing smaller"),
        (fsdp(3, 64, micro_batch_size=16, stages=(Stage(layers=32),)), "more cards"),
    ],
)
def test_what_cannot_be_compared_is_told(strategy: Strategy, words: str) -> None:
    """A plan on one machine; a plan that needs its many cards for memory."""
    with pytest.raises(InputError, match=words):
        baseline(large(strategy))


@pytest.mark.parametrize(("shown", "told"), [(0.29, False), (0.31, True)])
def test_heavy_communication_is_named(shown: float, told: bool) -> None:
    """From 30 % of the step on: the axis, its seconds, the link it is placed on."""
    made = large(fsdp(3, 32, stages=WHOLE))
    terms = {"compute": 1.0 - shown, "data_comm_exposed": shown * 0.75, "tensor_comm": shown * 0.25}
    time = made.time.model_copy(update={"step_seconds": 1.0, "terms_seconds": terms})
    made = made.model_copy(update={"time": time, "placement": {"data_parallel": "leaf"}})
    said = heaviest(made)

    assert HEAVY == 0.3
    assert (said is not None) == told
    if said:
        assert "31 %" in said and "data_parallel over leaf" in said


def test_the_folder_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The command writes one machine's files, the expectation, and a script that asks for a log."""
    request = ["llama-3.1-8b", "--cluster", "dgx-h100", "--nodes", "4", "--global-batch-size", "256",
               "--sequence-length", "4096", "--set", "backend=fsdp"]  # fmt: skip
    saved, run = tmp_path / "plan.json", tmp_path / "run"
    assert main(["plan", *request, "-o", str(saved), "-q"]) == 0
    assert main(["emit", str(saved), "--to", "fsdp", "--baseline", "-o", str(run), "-q"]) == 0
    capsys.readouterr()
    small = json.loads((run / "plan.json").read_text(encoding="utf-8"))

    assert small["request"]["cluster"]["nodes"] == 1
    assert "--nnodes=1 --nproc-per-node=8" in (run / "launch.sh").read_text(encoding="utf-8")
    assert "Scaling efficiency" in (run / "baseline.md").read_text(encoding="utf-8")
    assert "baseline.md" in (run / "README.md").read_text(encoding="utf-8")
    assert subprocess.run(["bash", "-n", str(run / "compare.sh")]).returncode == 0
    bare = subprocess.run(["bash", str(run / "compare.sh")], capture_output=True, text=True)
    assert bare.returncode != 0 and "name the log" in bare.stderr
