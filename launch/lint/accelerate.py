"""Rules on an Accelerate YAML."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from ..bundle import Bundle
from ..documents import Document
from .finding import Finding, at
from .keys import facts, wrong_keys

SIMILAR = 0.9
"""How alike the name of a class and a known one are where it is a slip (difflib's ratio)."""


def findings(bundle: Bundle, document: Document) -> Iterator[Finding]:
    """All rules of this client."""
    yield from wrong_keys(document, facts("accelerate")["keys"])
    yield from _processes(document)
    if document.get("distributed_type") == "FSDP":
        yield from _versions(document)
        yield from layer_class(document, "fsdp_config.fsdp_transformer_layer_cls_to_wrap")
        yield from _loading(document)
    if document.get("distributed_type") == "DEEPSPEED":
        yield from _deepspeed(document)


def layer_class(document: Document, path: str) -> Iterator[Finding]:
    """Classes of layers that no model has, but nearly."""
    named = document.get(path)
    known = facts("layers")["names"]
    for name in str(named).split(",") if isinstance(named, str) else ():
        bare = name.strip()
        same = [each for each in known if each.lower() == bare.lower()]
        close = same or get_close_matches(bare, known, n=1, cutoff=SIMILAR)
        if bare not in known and close:
            message = f"no model of transformers has layers of class {bare[:60]}"
            yield at(document, path, "unknown-layer-class", message, f"did you mean {close[0]}?")


def _processes(document: Document) -> Iterator[Finding]:
    machines, total = document.get("num_machines"), document.get("num_processes")
    if not isinstance(machines, int) or not isinstance(total, int) or machines < 1:
        return
    if total % machines:
        message = f"{total} processes do not fill {machines} machines evenly"
        mend = f"num_processes: {-(-total // machines) * machines}"
        yield at(document, "num_processes", "uneven-machines", message, mend)
    mesh = document.get("parallelism_config")
    if isinstance(mesh, dict) and document.get("distributed_type") == "FSDP":
        size = 1
        for axis in ("dp_replicate", "dp_shard", "tp", "cp", "sp"):
            part = mesh.get(f"parallelism_config_{axis}_size", 1)
            size *= part if isinstance(part, int) else 1
        if size != total:
            message = f"the mesh has {size} ranks, num_processes is {total}"
            yield at(document, "parallelism_config", "mesh-size", message, f"sizes that multiply to {total}")


def _versions(document: Document) -> Iterator[Finding]:
    first = facts("accelerate")["fsdp1"]
    second = str(document.get("fsdp_config.fsdp_version") or 1) == "2"
    for key in first if second else ():
        if document.get(f"fsdp_config.{key}") is not None:
            message = f"{key} does nothing under fsdp_version 2"
            mend = "fsdp_reshard_after_forward: true" if key == "fsdp_sharding_strategy" else "take it away"
            yield at(document, f"fsdp_config.{key}", "no-effect", message, mend)
    reshard = document.get("fsdp_config.fsdp_reshard_after_forward")
    if not second and isinstance(reshard, bool):
        message = "fsdp_reshard_after_forward true or false is a word of fsdp_version 2, not of 1"
        path = "fsdp_config.fsdp_reshard_after_forward"
        yield at(document, path, "no-effect", message, "fsdp_version: 2")


def _loading(document: Document) -> Iterator[Finding]:
    for key in ("fsdp_cpu_ram_efficient_loading", "fsdp_sync_module_states"):
        path = f"fsdp_config.{key}"
        if document.get(path) in (False, "false"):
            message = f"{key} is off: every rank of a machine loads the whole model into host memory"
            mend = "fsdp_cpu_ram_efficient_loading: true"
            yield at(document, path, "loads-on-every-rank", message, mend)


def _deepspeed(document: Document) -> Iterator[Finding]:
    if document.get("parallelism_config") is not None:
        message = "parallelism_config beside DeepSpeed: accelerate launch refuses to start"
        mend = "PARALLELISM_CONFIG_SP_SIZE and its like, beside ACCELERATE_USE_PARALLELISM_CONFIG=true"
        yield at(document, "parallelism_config", "mesh-without-fsdp2", message, mend)
    block = document.get("deepspeed_config")
    if not isinstance(block, dict):
        return
    file = block.get("deepspeed_config_file")
    stage = block.get("zero_stage", 2)
    for name, least in (("offload_param", 3), ("offload_optimizer", 1)):
        device = block.get(f"{name}_device")
        path = f"deepspeed_config.{name}_device"
        if file is None and device not in (None, "none") and isinstance(stage, int) and stage < least:
            message = f"{name} does nothing below ZeRO stage {least}; the stage is {stage}"
            yield at(document, path, "no-effect", message, f"zero_stage: {least}, or {name}_device: none")
        if device == "nvme" and not block.get(f"{name}_nvme_path"):
            message = f"{name} goes to nvme without a path"
            mend = f'{name}_nvme_path: "/local_nvme"'
            yield at(document, path, "offload-without-path", message, mend)
    for key in block if file is not None else ():
        if key in ("zero_stage", "offload_optimizer_device", "offload_param_device", "gradient_clipping",
                   "gradient_accumulation_steps", "zero3_save_16bit_model"):  # fmt: skip
            message = f"{key} stands beside deepspeed_config_file, which holds it"
            path = f"deepspeed_config.{key}"
            yield at(document, path, "beside-the-file", message, "state it in the DeepSpeed file alone")
