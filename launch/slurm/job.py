"""Writing `job.sbatch`: the machines, memory and hours of a plan, and one torchrun a machine."""

from __future__ import annotations

import math

from ...plans.plan import Plan
from ..label import label
from ..shape import Shape, shape
from ..steps import steps_of

FILE = "job.sbatch"
SAFETY = 1.2
"""Asked over expected: hours of the run, host memory of the plan."""

START_SECONDS = 1800
"""Loading, compiling and the last checkpoint, beside the steps."""

LOADER_BYTES = 4 * 2**30
"""Host memory of a rank beside the plan's: interpreter, libraries, data loader."""


def write(plan: Plan) -> dict[str, str]:
    """`job.sbatch` by name."""
    size = shape(plan)
    name = label(plan.request.model.name).replace(" ", "_").rpartition("/")[2]
    options = {
        "job-name": name,
        "nodes": str(size.nodes),
        "ntasks-per-node": "1",
        "gres": f"gpu:{size.cards}",
        "cpus-per-task": str(_cores(plan, size)),
        "mem": f"{_memory_gib(plan, size)}G",
        "time": clock(seconds_asked(plan)),
        "distribution": "block",
        **({"switches": "1"} if 1 < size.nodes <= plan.request.cluster.leaf_nodes else {}),
        "open-mode": "append",
        "output": "%x-%j.out",
    }
    lines = [f"#SBATCH --{option}={value}" for option, value in options.items()]
    return {FILE: "\n".join(["#!/usr/bin/env bash", *lines, "#SBATCH --requeue", *_body(plan), ""])}


def seconds_asked(plan: Plan) -> int:
    """Wall seconds to ask for: the expected run with its safety factor, rounded up to the next minute.

    Without a number of tokens in the request: the first steps and the start.
    """
    run = steps_of(plan.request.training) * plan.time.step_seconds
    return 60 * math.ceil((run * SAFETY + START_SECONDS) / 60)


def clock(seconds: int) -> str:
    """Days-hours:minutes:seconds as Slurm reads them.

    >>> clock(266_400)
    '3-02:00:00'
    """
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    return f"{days}-{hour:02}:{minute:02}:{second:02}"


def _cores(plan: Plan, size: Shape) -> int:
    """The share of a machine's cores that its cards used have."""
    node = plan.request.cluster.node
    return max(1, node.cpu_cores * size.cards // node.gpus)


def _memory_gib(plan: Plan, size: Shape) -> int:
    """Host memory of a machine: the plan's with its factor and each rank's own, at most all that is known."""
    asked = plan.memory.host_bytes_per_node * SAFETY + size.cards * LOADER_BYTES
    return max(1, math.floor(min(asked, plan.request.cluster.node.host_memory_bytes or asked) / 2**30))


def _body(plan: Plan) -> list[str]:
    steps, step = steps_of(plan.request.training), plan.time.step_seconds
    return [
        "",
        f"# {steps} steps of {step:.3f} s make {steps * step / 3600:.1f} hours; "
        f"{SAFETY} times that and {START_SECONDS // 60} minutes are asked for.",
        "# Ranks are numbered machine by machine in the order of the node list, as the plan places them.",
        "# A requeued job starts again: let TRAIN_SCRIPT resume from its newest checkpoint.",
        "set -euo pipefail",
        'cd "$SLURM_SUBMIT_DIR"',
        'FIRST="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"',
        'export MASTER_ADDR="${MASTER_ADDR:-$FIRST}"',
        'export MASTER_PORT="${MASTER_PORT:-$((20000 + SLURM_JOB_ID % 20000))}"',
        'export RUN_ID="$SLURM_JOB_ID"',
        "export RDZV_BACKEND=static",
        'srun --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" '
        """bash -c 'NODE_RANK="$SLURM_NODEID" exec bash launch.sh "$@"' launch.sh "$@\"""",
    ]
