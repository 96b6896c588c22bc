"""Writing torchtitan's options: arguments for 0.3, a TOML file for 0.2."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator

from ...plans.plan import Plan
from ..fsdp.decisions import DTYPES
from ..fsdp.limits import compiled, replicas_of
from ..label import label
from ..releases import read_in
from ..steps import steps_of
from .models import Known, known
from .schema import TitanOptions

FILE = "torchtitan_args.sh"
TOML = "torchtitan_0_2.toml"
WHOLE = "TORCHTITAN_ARGS"


def options(plan: Plan) -> TitanOptions:
    """The options of `plan`, checked by their own schema."""
    strategy, training = plan.strategy, plan.request.training
    context = strategy.context_parallel
    parts = ["model", *["loss"] * (strategy.loss_kernel == "compiled")]
    return TitanOptions.model_validate(
        {
            "training": {
                "local_batch_size": strategy.micro_batch_size,
                "global_batch_size": training.global_batch_size,
                "seq_len": training.sequence_length,
                "steps": steps_of(training),
                "max_norm": 1.0,
                "dtype": "float32",
                "mixed_precision_param": DTYPES[strategy.precision],
                "mixed_precision_reduce": "float32",
                "enable_cpu_offload": strategy.offload_params == "cpu",
            },
            "parallelism": {
                "data_parallel_replicate_degree": replicas_of(strategy),
                "data_parallel_shard_degree": strategy.shard_group_size // context,
                "fsdp_reshard_after_forward": "always" if strategy.reshard_after_forward else "never",
                "tensor_parallel_degree": strategy.tensor_parallel,
                "pipeline_parallel_degree": 1,
                "context_parallel_degree": context,
                "expert_parallel_degree": 1,
            },
            "compile": {"enable": compiled(strategy), "components": parts},
            "activation_checkpoint": strategy.recompute,
        }
    )


def write(plan: Plan) -> dict[str, str]:
    """`torchtitan_args.sh` and its twin for the release before, by name."""
    model, chosen = known(plan.request.model), options(plan)
    assert model is not None
    return {FILE: _arguments(plan, model, chosen), TOML: _toml(plan, model, chosen)}


def _arguments(plan: Plan, model: Known, chosen: TitanOptions) -> str:
    lines = [f"--module {model.module}", f"--config {model.config}", *_flags(chosen)]
    lines.append(f"activation-checkpoint:{chosen.activation_checkpoint}")
    head = [
        f"# Arguments of torchtitan for {label(plan.request.model.name)}; launch.sh reads them.",
        f"# Written by shardwise; names as in {read_in('torchtitan')}.",
        "# shellcheck shell=bash disable=SC2034",
    ]
    return "\n".join([*head, f"{WHOLE}=(", *(f"  {line}" for line in lines), ")", ""])


def _flags(chosen: TitanOptions) -> Iterator[str]:
    for section in ("training", "parallelism", "compile"):
        for name, value in getattr(chosen, section):
            flag = f"--{section}.{name}"
            if isinstance(value, bool):
                yield flag if value else f"--{section}.no_{name}"
            elif isinstance(value, list):
                yield f"{flag} {','.join(value)}"
            else:
                yield f"{flag} {shlex.quote(str(value))}"


def _toml(plan: Plan, model: Known, chosen: TitanOptions) -> str:
    """The same for releases that read a file."""
    head = (
        f"# The same for releases that read a file, --job.config_file; names as in {read_in('torchtitan')}."
    )
    tables: dict[str, dict[str, object]] = {
        "model": {"name": model.module, "flavor": model.flavor},
        **{name: getattr(chosen, name).model_dump() for name in ("training", "parallelism", "compile")},
        "activation_checkpoint": {"mode": chosen.activation_checkpoint, "selective_ac_option": "2"},
    }
    blocks = [
        "\n".join([f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())])
        for name, table in tables.items()
    ]
    return "\n\n".join([head, *blocks]) + "\n"
