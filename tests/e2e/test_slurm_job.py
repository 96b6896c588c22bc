"""The emitted `job.sbatch`, run by a real Slurm on two machines with made-up cards, to its end."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.slurm import Slurm, why_not
from plans_by_hand import fsdp, plan

from shardwise.hardware import Cluster
from shardwise.launch import emit
from shardwise.plans import Plan

pytestmark = pytest.mark.e2e

CARDS, CORES, MEMORY = 2, 8, 8 * 2**30
TOPOLOGY = "SwitchName=leaf1 Nodes=n[1-2]\n"
TRAIN = """
import json, os, sys
import torch, torch.distributed as dist
import fsdp_plan

mesh = fsdp_plan.make_mesh()
total = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(total)
told = {name: os.environ.get(name) for name in ("NODE_RANK", "LOCAL_RANK", "CUDA_VISIBLE_DEVICES",
                                               "PYTORCH_CUDA_ALLOC_CONF", "SLURMD_NODENAME")}
told |= {"total": int(total), "shape": list(mesh.shape), "arguments": sys.argv[1:]}
open(f"rank{dist.get_rank()}.json", "w").write(json.dumps(told))
dist.destroy_process_group()
"""


def small() -> Plan:
    """Four ranks on two machines of two cards and eight cores."""
    cluster = Cluster.preset("dgx-h100", nodes=2)
    size = {"gpus": CARDS, "island_size": CARDS, "domain_size": CARDS}
    node = cluster.node.model_copy(update={**size, "cpu_cores": CARDS, "host_memory_bytes": MEMORY})
    return plan(fsdp(3, 4, shard_group_size=2), cluster=cluster.model_copy(update={"node": node}))


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    """Two machines of two cards under one switch, of the plan's memory."""
    reason = why_not() or ("" if shutil.which("torchrun") else "torchrun is not on the path")
    if reason:
        pytest.skip(reason)
    folder: Path = tmp_path_factory.mktemp("job_slurm")
    with Slurm(folder, nodes=2, cards=CARDS, topology=TOPOLOGY, memory_mib=MEMORY // 2**20) as slurm:
        yield slurm


def written(folder: Path) -> Path:
    """The folder of the plan, with a script that tells what each rank sees."""
    for name, text in emit(small(), "slurm").items():
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "train.py").write_text(TRAIN, encoding="utf-8")
    return folder


def test_slurm_takes_the_job(running: Slurm, tmp_path: Path) -> None:
    """`sbatch --test-only` accepts the directives as they are, and refuses a card too many."""
    folder = written(tmp_path)
    good = running.run("sbatch", "--test-only", str(folder / "job.sbatch"))
    wrong = (folder / "job.sbatch").read_text().replace("gpu:2", "gpu:3")
    (folder / "wrong.sbatch").write_text(wrong)

    assert good.returncode == 0, good.stderr
    assert running.run("sbatch", "--test-only", str(folder / "wrong.sbatch")).returncode != 0


def test_the_job_runs_on_two_machines_to_its_end(running: Slurm, tmp_path: Path) -> None:
    """Four ranks meet, numbered machine by machine in Slurm's order; each sees its machine's cards."""
    folder = written(tmp_path)
    line = ["sbatch", "--parsable", "--wait", "job.sbatch", "--seed", "7"]
    done = subprocess.run(
        line, cwd=folder, env={**running.environment, "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    printed = "".join(path.read_text(errors="replace") for path in folder.glob("*.out"))

    assert done.returncode == 0, printed[-3000:]
    told = [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(4)]
    assert [(each["SLURMD_NODENAME"], each["NODE_RANK"], each["LOCAL_RANK"]) for each in told] == [
        ("n1", "0", "0"), ("n1", "0", "1"), ("n2", "1", "0"), ("n2", "1", "1"),
    ]  # fmt: skip
    for each in told:
        assert each["total"] == 1 + 2 + 3 + 4
        assert each["shape"] == [2, 2]
        assert each["CUDA_VISIBLE_DEVICES"] == "0,1"
        assert each["PYTORCH_CUDA_ALLOC_CONF"] == "expandable_segments:True"
        assert each["arguments"] == ["--seed", "7"]
