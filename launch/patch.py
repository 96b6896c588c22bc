"""From somebody's file to the best plan its client can carry: which keys to write otherwise."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..plans.plan import Plan
from .bundle import Client
from .deepspeed.dialect import ULYSSES
from .documents import Document
from .documents.document import document_of
from .emission import emit
from .megatron.schema import MemoryArgs, ParallelArgs, PrecisionArgs, StepArgs

FILES: dict[Client, tuple[str, ...]] = {
    "deepspeed": ("ds_config.json",),
    "accelerate": ("accelerate_fsdp2.yaml",),
    "fsdp": ("fsdp_plan.py",),
    "megatron": ("megatron_args.sh",),
    "torchtitan": ("torchtitan_args.sh", "torchtitan_0_2.toml"),
}
"""The file of each client that holds its choices, by kind of document."""

NO_CHOICES = ("optimizer", "scheduler", "model", "job", "metrics")
"""Tables of a recipe, which a plan does not decide."""

DEFAULTS: dict[Client, dict[str, str]] = {
    "deepspeed": {
        "zero_optimization.contiguous_gradients": "true",
        "zero_optimization.reduce_scatter": "true",
        "zero_optimization.allgather_partitions": "true",
        "zero_optimization.reduce_bucket_size": "500000000",
        "zero_optimization.allgather_bucket_size": "500000000",
        "zero_optimization.sub_group_size": "1000000000",
        "zero_optimization.stage3_prefetch_bucket_size": "50000000",
        "zero_optimization.stage3_param_persistence_threshold": "100000",
        "zero_optimization.stage3_max_live_parameters": "1000000000",
        "zero_optimization.stage3_max_reuse_distance": "1000000000",
        "gradient_clipping": "1.0",
    },
    "accelerate": {
        "compute_environment": "LOCAL_MACHINE",
        "machine_rank": "0",
        "rdzv_backend": "static",
        "same_network": "true",
        "main_training_function": "main",
        "fsdp_config.fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
    },
    "megatron": {
        "arguments.tensor_model_parallel_size": "1",
        "arguments.pipeline_model_parallel_size": "1",
        "arguments.context_parallel_size": "1",
        "arguments.optimizer": "adam",
        "arguments.clip_grad": "1.0",
    },
}
"""What a client does where its file says nothing: such lines need not be added."""


def _told(key: str) -> str:
    """The key as its file spells it."""
    head, dot, flag = key.partition(".")
    if head != "arguments" or not dot:
        return key
    return f"--{flag if '.' in flag else flag.replace('_', '-')}"


_GROUPS = (ParallelArgs, StepArgs, MemoryArgs, PrecisionArgs)
CONSTANTS = ("norm_epsilon", "rotary_base", "use_rope_scaling", "rope_scaling_factor", "rope_type")
"""Numbers of the model that a missing argument silently makes others."""

BESIDE = tuple(frozenset(_told(f"arguments.{name}") for name in group.model_fields) for group in _GROUPS)
"""Flags of Megatron-LM that belong together in a script."""

MEGATRON = {f"arguments.{name}" for group in _GROUPS for name in group.model_fields}
MEGATRON |= {f"arguments.{name}" for name in CONSTANTS}


NOTHING = "nothing"
"""What a file says for a key that is not there."""

ABSENT = (ULYSSES,)
"""Keys that a DeepSpeed file for a trainer, which says `auto`, does without."""

GONE = "take it away"
"""What the best plan says of a key it does without."""


class Change(NamedTuple):
    """A key of a file: what it says, and what the best plan says.

    `key` is spelled as in the file, `path` is its dotted path among the values.
    """

    file: str
    line: int
    key: str
    value: str
    better: str
    path: str


def patch(file: Document, client: Client, plan: Plan) -> list[Change]:
    """Changes that make `file` of `client` say what `plan` says, in order of lines; new keys come last."""
    made = emit(plan, client)
    name = next(name for name in FILES[client] if name.endswith(".toml") == (file.kind == "toml"))
    ours = leaves(document_of(made[name], name), client)
    theirs = leaves(file, client)
    if "auto" in theirs.values():
        ours = {key: value for key, value in ours.items() if key not in ABSENT}
    changes = [*_changed(file, theirs, ours), *_gone(file, theirs, ours, client)]
    usual = DEFAULTS.get(client, {})
    new = [key for key in ours if key not in theirs and ours[key] != usual.get(key)]
    missing = [key for key in new if ours[key] not in ("false", "null")]
    added = [
        Change(file.name, file.line(_parent(key)), _told(key), NOTHING, ours[key], key) for key in missing
    ]
    return sorted(changes, key=lambda change: change.line) + added


def _changed(file: Document, theirs: Mapping[str, str], ours: Mapping[str, str]) -> Iterator[Change]:
    for key, value in theirs.items():
        if key in ours and value not in (ours[key], "auto"):
            yield Change(file.name, _line(file, key), _told(key), value, ours[key], key)


def _gone(
    file: Document, theirs: Mapping[str, str], ours: Mapping[str, str], client: Client
) -> Iterator[Change]:
    """Keys that switch on what the plan does without."""
    for key, value in theirs.items():
        if key in ours or value in ("false", "none", "null") or not _decides(key, client):
            continue
        yield Change(file.name, file.line(key), _told(key), value, GONE, key)


def _decides(key: str, client: Client) -> bool:
    """Whether a key that we leave out decides a choice, beyond tuning one."""
    if client == "megatron":
        return True
    if client == "deepspeed":
        tables = ("fp16", "bf16", "data_types", "tensor_parallel", "activation_checkpointing")
        return "offload_" in key or key.startswith(tables)
    switches = ("parallelism_config", "dynamo_config", "fsdp_config.fsdp_sharding_strategy")
    return client == "accelerate" and key.startswith(switches)


def leaves(file: Document, client: Client) -> dict[str, str]:
    """Values by dotted path as text, of what the client's plans decide."""
    found = dict(_walk(file.values, ""))
    if client == "megatron":
        return {key: value for key, value in found.items() if key in MEGATRON}
    if client == "torchtitan" and file.kind == "script":
        return dict(_options(found))
    return {key: value for key, value in found.items() if key.partition(".")[0] not in NO_CHOICES}


def _options(found: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """torchtitan's options: switches as true or false, the word of recomputation as an option of its own."""
    for key, value in found.items():
        head, dot, name = key.removeprefix("arguments.").rpartition(".")
        if not key.startswith("arguments.") or not dot:
            continue
        value, _, kind = value.partition(WORD)
        if kind:
            yield f"arguments.{WORD[:-1]}", kind
        off = name.startswith("no_") and value.strip() == "true"
        yield f"arguments.{head}.{name.removeprefix('no_')}", "false" if off else value.strip() or "true"


WORD = "activation-checkpoint:"
"""The word behind all arguments that says what is recomputed, with its kind."""


def _walk(table: Mapping[str, Any], path: str) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        inner = f"{path}.{key}" if path else key
        if path == "arguments":
            yield inner, " ".join(value) if value else "true"
        elif isinstance(value, Mapping):
            yield from _walk(value, inner)
        elif isinstance(value, bool) or value is None:
            yield inner, json.dumps(value)
        else:
            yield inner, str(value)


def _line(file: Document, key: str) -> int:
    """The line of a key, of the option that switches it off, or of the last one for the word behind all."""
    if key == f"arguments.{WORD[:-1]}":
        return max(file.lines.values(), default=1)
    head, _, name = key.rpartition(".")
    return file.line(key if key in file.lines else f"{head}.no_{name}")


def _parent(key: str) -> str:
    return os.path.splitext(key)[0] if "." in key else key
