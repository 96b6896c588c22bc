"""`launch.sh`: the line that starts a run on the plan's machines."""

from __future__ import annotations

from ..plans.plan import Plan
from .label import label
from .shape import Shape, shape

FILE = "launch.sh"
HOSTFILE = "hostfile"
ALLOCATOR = "expandable_segments:True"
"""Lets PyTorch's allocator grow its segments, which gathers of changing size would fragment."""

_SCRIPT = '"${TRAIN_SCRIPT:-train.py}"'
_OWN_SCRIPT = "TRAIN_SCRIPT is your script, train.py by default"
_MEGATRON_SCRIPT = "TRAIN_SCRIPT is the path of Megatron-LM's pretrain_gpt.py"
_ONE_CONNECTION = 'export CUDA_DEVICE_MAX_CONNECTIONS="${CUDA_DEVICE_MAX_CONNECTIONS:-1}"'
"""Megatron-LM wants kernels of a card in one queue, so that communication starts before its compute."""
_RENDEZVOUS = '--rdzv-backend=c10d --rdzv-endpoint="$MASTER_ADDR:${MASTER_PORT:-29500}"'
_MAIN = '--main_process_ip "$MASTER_ADDR" --main_process_port "${MASTER_PORT:-29500}"'
_MEANING = {
    "MASTER_ADDR": "the name of the first machine",
    "NODE_RANK": "the number of this machine, from 0",
}


def deepspeed(plan: Plan) -> dict[str, str]:
    """`launch.sh` with the deepspeed launcher, and a hostfile where there are several machines."""
    nodes, cards = shape(plan)
    tail = [_SCRIPT, '--deepspeed "$here/ds_config.json"']
    if nodes == 1:
        return {FILE: _script(plan, "Run it on the machine.", (), [f"deepspeed --num_gpus {cards}", *tail])}
    note = "Run it on the first machine, which reaches the others by ssh; put their names into hostfile."
    lines = [
        f'deepspeed --hostfile "${{HOSTFILE:-$here/{HOSTFILE}}}"',
        f"--num_nodes {nodes} --num_gpus {cards}",
        '--master_port "${MASTER_PORT:-29500}"',
    ]
    hosts = "".join(f"node-{index} slots={cards}\n" for index in range(nodes))
    return {FILE: _script(plan, note, (), [*lines, *tail]), HOSTFILE: hosts}


def fsdp(plan: Plan) -> dict[str, str]:
    """`launch.sh` with torchrun."""
    needed, command = _torchrun(plan)
    return {FILE: _script(plan, _note(shape(plan)), needed, [*command, _SCRIPT])}


def megatron(plan: Plan) -> dict[str, str]:
    """`launch.sh` with torchrun and the arguments of `megatron_args.sh`."""
    needed, command = _torchrun(plan)
    command += ['"${TRAIN_SCRIPT:-pretrain_gpt.py}"', '"${MEGATRON_ARGS[@]}"']
    setup = ('source "$here/megatron_args.sh"', _ONE_CONNECTION)
    return {FILE: _script(plan, _note(shape(plan)), needed, command, setup, _MEGATRON_SCRIPT)}


def accelerate(plan: Plan) -> dict[str, str]:
    """`launch.sh` with Accelerate's launcher."""
    size = shape(plan)
    lines = [
        'accelerate launch --config_file "$here/accelerate_fsdp2.yaml"',
        f"--num_machines {size.nodes} --num_processes {size.nodes * size.cards}",
    ]
    if size.nodes == 1:
        return {FILE: _script(plan, _note(size), (), [*lines, _SCRIPT])}
    lines += ['--machine_rank "$NODE_RANK"', _MAIN]
    return {FILE: _script(plan, _note(size), ("MASTER_ADDR", "NODE_RANK"), [*lines, _SCRIPT])}


def _torchrun(plan: Plan) -> tuple[tuple[str, ...], list[str]]:
    """(variables that must be set, lines of torchrun before the script)."""
    size = shape(plan)
    first = f"torchrun --nnodes={size.nodes} --nproc-per-node={size.cards}"
    if size.nodes == 1:
        return (), [first, "--standalone"]
    run = f'--rdzv-id="${{RUN_ID:-shardwise-{plan.inputs_hash}}}"'
    return ("MASTER_ADDR",), [first, _RENDEZVOUS, run]


def _note(size: Shape) -> str:
    return "Run it on the machine." if size.nodes == 1 else f"Run it on each of the {size.nodes} machines."


def _script(
    plan: Plan,
    note: str,
    needed: tuple[str, ...],
    command: list[str],
    setup: tuple[str, ...] = (),
    script: str = _OWN_SCRIPT,
) -> str:
    """A bash script: checks of its variables, the settings, one command over several lines."""
    size, request = shape(plan), plan.request
    machine = f"{size.nodes} x {size.cards} {label(request.cluster.node.gpu.name)}"
    return "\n".join(
        [
            "#!/usr/bin/env bash",
            f"# {label(request.model.name)} on {machine}. {note}",
            f"# {script}; further arguments are handed to it.",
            "set -euo pipefail",
            *(f': "${{{name}:?set {name} to {_MEANING[name]}}}"' for name in needed),
            'here="$(cd "$(dirname "$0")" && pwd)"',
            'export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"',
            f'export PYTORCH_CUDA_ALLOC_CONF="${{PYTORCH_CUDA_ALLOC_CONF:-{ALLOCATOR}}}"',
            *setup,
            " \\\n  ".join([*command, '"$@"']),
            "",
        ]
    )
