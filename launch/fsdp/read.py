"""Reading the constants of our `fsdp_plan.py` back to choices; the module is not imported."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from ...inputs import InputError
from ...models.training import Training
from ..documents import Document
from .decisions import DTYPES, ROTATIONS
from .schema import FsdpPlan

OPTIONAL = (
    "offload_activations",
    "trained_parameters",
    "trained_dtype",
    "context_parallel",
    "context_rotation",
    "sync_each_batch",
)
"""Decisions that are constants only where a plan takes them."""

WORDS = {dtype: word for word, dtype in DTYPES.items()}
KINDS: dict[str, str] = {rotation: kind for kind, rotation in ROTATIONS.items()}


def plan_of(file: Document) -> FsdpPlan:
    """The constants, checked by their schema."""
    try:
        found = {name: file.values.get(name.upper()) for name in FsdpPlan.model_fields}
        absent = {name for name, value in found.items() if value is None and name in OPTIONAL}
        return FsdpPlan.model_validate({name: found[name] for name in found.keys() - absent})
    except ValidationError as error:
        first = error.errors()[0]
        key = str(first["loc"][0]).upper() if first["loc"] else "WORLD_SIZE"
        raise file.wrong(key, first["msg"].removeprefix("Value error, ")) from None


def job_fields(file: Document, training: Training) -> dict[str, Any]:
    """Fields of the job that the constants state otherwise than `training`."""
    said = bool(plan_of(file).offload_activations)
    return {"training.offload_activations": said} if said != training.offload_activations else {}


def _names() -> list[str]:
    return [name.upper() for name in FsdpPlan.model_fields]


def fields(file: Document, layers: int) -> dict[str, Any]:
    """Choices of `file` by their name in `Strategy`, for a model of `layers`."""
    found = plan_of(file)
    if found.layers != layers:
        raise InputError("LAYERS", found.layers, file.where("LAYERS"), f"the model has {layers} layers")
    group, replicas = found.axes["dp_shard"], found.axes.get("dp_replicate", 1)
    tensor, context = found.axes.get("tp", 1), found.context_parallel or 1
    place = "cpu" if found.offload_root else "none"
    stage = {
        "layers": found.layers,
        "recompute_full_layers": found.recompute_full_layers,
        "recompute_selective_layers": found.recompute_selective_layers,
        "offloaded_layers": found.offloaded_layers,
    }
    return {
        "backend": "fsdp",
        "software_stack": "fsdp-compile-2024" if found.compiled_layers else "fsdp-hf-2023",
        "data_parallel": group * replicas // context,
        "context_parallel": context,
        "context_parallel_kind": KINDS[found.context_rotation] if found.context_rotation else "none",
        "tensor_parallel": tensor,
        "zero_stage": 3 if found.reshard_after_forward else 2,
        "shard_group_size": group,
        "reshard_after_forward": found.reshard_after_forward,
        "sequence_parallel": found.sequence_parallel,
        "micro_batch_size": found.micro_batch_size,
        "gradient_accumulation_steps": found.gradient_accumulation_steps,
        "precision": WORDS[found.compute_dtype],
        "gradient_dtype": WORDS[found.reduce_dtype],
        "loss_kernel": "compiled" if found.compiled_loss else "eager",
        "offload_optimizer": place,
        "offload_params": place,
        "stages": [stage],
    }
