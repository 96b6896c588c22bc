"""`launch.sh`: the line that starts a run on the plan's machines."""

from __future__ import annotations

from collections.abc import Iterator

from ..plans.plan import Plan
from .deepspeed.write import NVME_PATH
from .environment import deepspeed_env, settings
from .label import label
from .megatron.constants import edits
from .shape import Shape, shape
from .transformers.variables import variables

FILE = "launch.sh"
HOSTFILE = "hostfile"
DEEPSPEED_ENV = ".deepspeed_env"

_SCRIPT = '"${TRAIN_SCRIPT:-train.py}"'
_OWN_SCRIPT = "TRAIN_SCRIPT is your script, train.py by default"
_MEGATRON_SCRIPT = "TRAIN_SCRIPT is the path of Megatron-LM's pretrain_gpt.py"
_RENDEZVOUS = '--rdzv-endpoint="$MASTER_ADDR:${MASTER_PORT:-29500}"'
_ORDER = '--rdzv-backend="${RDZV_BACKEND:-c10d}" --node-rank="${NODE_RANK:-0}"'
"""torchrun heeds the number of a machine under the backend `static` alone, which job.sbatch chooses."""

_MAIN = '--main_process_ip "$MASTER_ADDR" --main_process_port "${MASTER_PORT:-29500}"'
_SAVING = (
    "SAVING=()",
    'if [ -n "${SAVE_DIR:-}" ]; then',
    '  SAVING=(--save "$SAVE_DIR" --load "$SAVE_DIR" --save-interval "${SAVE_INTERVAL:-500}")',
    "fi",
)
"""Checkpoints of Megatron-LM, written and resumed from where SAVE_DIR names a folder."""

_MEANING = {
    "MASTER_ADDR": "the name of the first machine",
    "NODE_RANK": "the number of this machine, from 0",
}


def deepspeed(plan: Plan) -> dict[str, str]:
    """`launch.sh` with the deepspeed launcher; on several machines a hostfile and their environment."""
    nodes, cards = shape(plan)
    tail = [_SCRIPT, '--deepspeed "$here/ds_config.json"']
    assumed = ("loss_kernel", "software_stack")
    if nodes == 1:
        note = "Run it on the machine."
        first = f"deepspeed --num_gpus {cards}"
        lines, setup = _on_host(plan)
        return {FILE: _script(plan, note, (), [first, *lines, *tail], assumed, setup)}
    note = "Run it on the first machine, which reaches the others by ssh; put their names into hostfile."
    lines = [
        f'deepspeed --hostfile "${{HOSTFILE:-$here/{HOSTFILE}}}"',
        f"--num_nodes {nodes} --num_gpus {cards}",
        '--master_port "${MASTER_PORT:-29500}"',
    ]
    hosts = "".join(f"node-{index} slots={cards}\n" for index in range(nodes))
    bound, setup = _on_host(plan)
    setup = (f'export DS_ENV_FILE="$here/{DEEPSPEED_ENV}"', *setup)
    script = _script(plan, note, (), [*lines, *bound, *tail], assumed, setup)
    return {FILE: script, HOSTFILE: hosts, DEEPSPEED_ENV: deepspeed_env(plan)}


def _on_host(plan: Plan) -> tuple[list[str], tuple[str, ...]]:
    """(lines of the launcher, lines before it) for an optimizer that steps on the host.

    Its cores are shared out to the ranks, where numactl is there to do it: 3,084 ms a step without, 2,383
    with on two A100 with 3B offloaded (DeepSpeed issue 7474). States on NVMe need their folder.
    """
    strategy = plan.strategy
    if strategy.offload_optimizer == "none":
        return [], ()
    setup = ["CORES=()", "command -v numactl >/dev/null && CORES=(--bind_cores_to_rank)"]
    if "nvme" in (strategy.offload_optimizer, strategy.offload_params):
        told = f"states live on NVMe: mount it at {NVME_PATH}, or change nvme_path in ds_config.json"
        setup.append(f'[ -d {NVME_PATH} ] || {{ echo "{told}" >&2; exit 2; }}')
    return ['"${CORES[@]}"'], tuple(setup)


def deepspeed_torchrun(plan: Plan) -> dict[str, str]:
    """`launch.sh` with torchrun for a script that takes `--deepspeed`: no ssh between machines."""
    needed, command = _torchrun(plan)
    command += [_SCRIPT, '--deepspeed "$here/ds_config.json"']
    return {FILE: _script(plan, _note(shape(plan)), needed, command, ("loss_kernel", "software_stack"))}


def transformers(plan: Plan) -> dict[str, str]:
    """`launch.sh` with torchrun and the file of the trainer's arguments."""
    needed, command = _torchrun(plan)
    command += ['"$script" training_arguments.json']
    exports = (f"export {name}={value}" for name, value in variables(plan.strategy).items())
    setup = ('script="$(realpath "${TRAIN_SCRIPT:-train.py}")"', 'cd "$here"', *exports)
    assumed = ("loss_kernel", "software_stack")
    return {FILE: _script(plan, _note(shape(plan)), needed, command, assumed, setup)}


def fsdp(plan: Plan) -> dict[str, str]:
    """`launch.sh` with torchrun."""
    needed, command = _torchrun(plan)
    return {FILE: _script(plan, _note(shape(plan)), needed, [*command, _SCRIPT], ("software_stack",))}


def megatron(plan: Plan) -> dict[str, str]:
    """`launch.sh` with torchrun and the arguments of `megatron_args.sh`."""
    needed, command = _torchrun(plan)
    command += ['"${TRAIN_SCRIPT:-pretrain_gpt.py}"', '"${MEGATRON_ARGS[@]}" "${SAVING[@]}"']
    setup = ('source "$here/megatron_args.sh"', *_SAVING, *_heard(plan))
    note = _note(shape(plan))
    return {FILE: _script(plan, note, needed, command, ("software_stack",), setup, _MEGATRON_SCRIPT)}


def _heard(plan: Plan) -> Iterator[str]:
    """Lines that stop where Megatron-LM would not hear a number of the model."""
    for edit in edits(plan.request.model):
        yield f'code="$(dirname "${{TRAIN_SCRIPT:-pretrain_gpt.py}}")/{edit.file}"'
        yield f"if ! grep -qwF '{edit.line}' \"$code\"; then"
        yield f"  echo \"$code must hold '{edit.line}': {edit.why}\" >&2"
        yield "  exit 1"
        yield "fi"


def torchtitan(plan: Plan) -> dict[str, str]:
    """`launch.sh` with torchrun and the arguments of `torchtitan_args.sh`; the word of a kind stands last."""
    needed, command = _torchrun(plan)
    command += ["-m torchtitan.train"]
    setup = ('source "$here/torchtitan_args.sh"',)
    note, script = _note(shape(plan)), "torchtitan must be installed"
    text = _script(plan, note, needed, command, ("software_stack",), setup, script)
    return {FILE: text.replace('"$@"', '"$@" "${TORCHTITAN_ARGS[@]}"')}


def accelerate(plan: Plan) -> dict[str, str]:
    """`launch.sh` with Accelerate's launcher."""
    size = shape(plan)
    lines = [
        'accelerate launch --config_file "$here/accelerate_fsdp2.yaml"',
        f"--num_machines {size.nodes} --num_processes {size.nodes * size.cards}",
    ]
    assumed = ("micro_batch_size", "gradient_accumulation_steps", "loss_kernel", "software_stack")
    if size.nodes == 1:
        return {FILE: _script(plan, _note(size), (), [*lines, _SCRIPT], assumed)}
    lines += ['--machine_rank "$NODE_RANK"', _MAIN]
    needed = ("MASTER_ADDR", "NODE_RANK")
    return {FILE: _script(plan, _note(size), needed, [*lines, _SCRIPT], assumed)}


def _torchrun(plan: Plan) -> tuple[tuple[str, ...], list[str]]:
    """(variables that must be set, lines of torchrun before the script)."""
    size = shape(plan)
    first = f"torchrun --nnodes={size.nodes} --nproc-per-node={size.cards}"
    if size.nodes == 1:
        return (), [first, "--standalone"]
    run = f'--rdzv-id="${{RUN_ID:-shardwise-{plan.inputs_hash}}}"'
    return ("MASTER_ADDR",), [first, _ORDER, _RENDEZVOUS, run]


def _note(size: Shape) -> str:
    return "Run it on the machine." if size.nodes == 1 else f"Run it on each of the {size.nodes} machines."


def _script(
    plan: Plan,
    note: str,
    needed: tuple[str, ...],
    command: list[str],
    assumed: tuple[str, ...],
    setup: tuple[str, ...] = (),
    script: str = _OWN_SCRIPT,
) -> str:
    """A bash script: checks of its variables, the settings, one command over several lines.

    `assumed` are choices that the client's own file has no key for; a comment states them.
    """
    size, request = shape(plan), plan.request
    machine = f"{size.nodes} x {size.cards} {label(request.cluster.node.gpu.name)}"
    stated = " ".join(f"{name}={getattr(plan.strategy, name)}" for name in assumed)
    return "\n".join(
        [
            "#!/usr/bin/env bash",
            f"# {label(request.model.name)} on {machine}. {note}",
            f"# {script}; further arguments are handed to it.",
            f"# assumes: {stated}",
            "set -euo pipefail",
            *(f': "${{{name}:?set {name} to {_MEANING[name]}}}"' for name in needed),
            'here="$(cd "$(dirname "$0")" && pwd)"',
            'export PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}"',
            *(f'export {name}="${{{name}:-{value}}}"' for name, value in settings(plan).items()),
            *setup,
            " \\\n  ".join([*command, '"$@"']),
            "",
        ]
    )
