"""Reading an Accelerate YAML (FSDP2, FSDP1 or DeepSpeed) back to choices."""

from __future__ import annotations

import os
from typing import Any

from ...inputs import InputError
from ..bundle import Bundle, whole
from ..deepspeed import read as deepspeed
from ..documents import Document, document
from ..fsdp.read import KINDS
from ..trainer import DEFAULT_MICRO_BATCH, Trainer

STRATEGIES = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "HYBRID_SHARD": 3, "HYBRID_SHARD_ZERO2": 2, "1": 3, "2": 2}
"""ZeRO stage of each `fsdp_sharding_strategy` of FSDP1; NO_SHARD is stage 0, which FSDP plans have not."""

MIXED = {"bf16": "bf16", "fp16": "fp16", "no": "fp32", "fp8": "fp8", False: "fp32", None: "fp32"}


def fields(bundle: Bundle, file: Document, cards: int, per_node: int) -> dict[str, Any]:
    """Choices of `file` by their name in `Strategy`; machines have `per_node` cards."""
    kind = str(file.get("distributed_type")).upper()
    if kind == "DEEPSPEED":
        return _deepspeed(bundle, file, cards)
    if kind != "FSDP":
        raise file.wrong("distributed_type", "only FSDP and DEEPSPEED are priced", ("FSDP", "DEEPSPEED"))
    world = _world(bundle, file, cards)
    stage, group = _sharding(file, world, per_node)
    context, kind = _context(file, world)
    precision = MIXED.get(file.get("mixed_precision"))
    if precision is None:
        raise file.wrong("mixed_precision", "is no precision", ("bf16", "no"))
    place = "cpu" if _switch(file, "fsdp_config.fsdp_offload_params") else "none"
    compiled = str(file.get("dynamo_config.dynamo_backend")).upper() == "INDUCTOR"
    found: dict[str, Any] = {
        "backend": "fsdp",
        "software_stack": "fsdp-compile-2024" if compiled else "fsdp-hf-2023",
        "data_parallel": world // context,
        "context_parallel": context,
        "context_parallel_kind": kind,
        "zero_stage": stage,
        "shard_group_size": group,
        "reshard_after_forward": stage == 3,
        "precision": precision,
        "gradient_dtype": precision,
        "offload_optimizer": place,
        "offload_params": place,
        "recompute": "full" if _switch(file, "fsdp_config.fsdp_activation_checkpointing") else "none",
    }
    return found | _batch(bundle, file)


def _batch(bundle: Bundle, file: Document) -> dict[str, Any]:
    """Sequences a pass, which no key of the YAML holds: from the trainer, or what the folder assumes."""
    trainer = Trainer(bundle)
    found: dict[str, Any] = {}
    steps = trainer.number("gradient_accumulation_steps")
    if steps is None and file.get("gradient_accumulation_steps") is not None:
        where = file.where("gradient_accumulation_steps")
        steps = whole(file.get("gradient_accumulation_steps"), "gradient_accumulation_steps", where)
    if steps is not None:
        found["gradient_accumulation_steps"] = steps
    if trainer.given:
        found["micro_batch_size"] = trainer.number("per_device_train_batch_size") or DEFAULT_MICRO_BATCH
    return found


def _world(bundle: Bundle, file: Document, cards: int) -> int:
    said = file.get("num_processes")
    if bundle.world() is not None:
        return bundle.world() or cards
    return cards if said is None else whole(said, "num_processes", file.where("num_processes"))


def _sharding(file: Document, world: int, per_node: int) -> tuple[int, int]:
    """(ZeRO stage, cards that share one copy)."""
    if str(file.get("fsdp_config.fsdp_version") or 1) == "2":
        reshard = file.get("fsdp_config.fsdp_reshard_after_forward")
        stage = 2 if reshard is False or str(reshard).lower() == "false" else 3
        for axis in ("tp", "sp"):
            path = f"parallelism_config.parallelism_config_{axis}_size"
            if file.get(path) not in (None, 1):
                raise file.wrong(path, "this axis of Accelerate is not priced", ("1",))
        path = "parallelism_config.parallelism_config_dp_replicate_size"
        replicas = whole(file.get(path) or 1, path, file.where(path))
        if replicas < 1 or world % replicas:
            raise file.wrong(path, f"does not divide {world} processes")
        return stage, world // replicas
    path = "fsdp_config.fsdp_sharding_strategy"
    word = str(file.get(path) or "FULL_SHARD").upper()
    if word not in STRATEGIES:
        reason = "is not priced: FSDP plans shard at the stages 2 and 3"
        raise file.wrong(path, reason, ("FULL_SHARD", "SHARD_GRAD_OP"))
    return STRATEGIES[word], min(world, per_node) if "HYBRID" in word else world


def _context(file: Document, world: int) -> tuple[int, str]:
    """(ranks that share a sequence, how they exchange it) of FSDP2."""
    prefix = "parallelism_config.parallelism_config_cp"
    path = f"{prefix}_size"
    context = whole(file.get(path) or 1, path, file.where(path))
    if context < 1 or world % context:
        raise file.wrong(path, f"does not divide {world} processes")
    if context == 1:
        return 1, "none"
    if str(file.get("fsdp_config.fsdp_version") or 1) != "2":
        raise file.wrong(path, "context parallel is in fsdp_version 2 alone", ("1",))
    word = file.get(f"{prefix}_comm_strategy") or "allgather"
    if word not in KINDS:
        raise file.wrong(f"{prefix}_comm_strategy", "is no way to exchange a sequence", tuple(KINDS))
    return context, KINDS[word]


def _switch(file: Document, path: str) -> bool:
    return str(file.get(path)).lower() == "true"


def _deepspeed(bundle: Bundle, file: Document, cards: int) -> dict[str, Any]:
    """Through the file it names, or its own keys as one."""
    if file.get("parallelism_config") is not None:
        reason = (
            "accelerate launch takes it beside FSDP2 alone; Ulysses is asked for by environment variables"
        )
        raise file.wrong("parallelism_config", reason)
    block = file.get("deepspeed_config")
    if not isinstance(block, dict):
        raise file.wrong("deepspeed_config", "must be a table")
    named = block.get("deepspeed_config_file")
    beside = bundle.of("deepspeed")
    if named is not None and beside is None:
        path = os.path.join(os.path.dirname(file.name), str(named))
        beside = document(path)
    if beside is not None:
        return deepspeed.fields(bundle, beside, cards)
    world = _world(bundle, file, cards)
    trainer = Trainer(bundle)
    zero: dict[str, Any] = {"stage": block.get("zero_stage", 2)}
    for ours, theirs in (("offload_optimizer", "offload_optimizer"), ("offload_param", "offload_param")):
        device = block.get(f"{theirs}_device")
        if device not in (None, "none"):
            zero[ours] = {"device": device}
    mixed = MIXED.get(file.get("mixed_precision"), "bf16")
    made: dict[str, Any] = {"zero_optimization": zero}
    if mixed in ("bf16", "fp16"):
        made[mixed] = {"enabled": True}
    steps = block.get("gradient_accumulation_steps", 1)
    made["gradient_accumulation_steps"] = 1 if steps == "auto" else steps
    micro = bundle.assumed().get("micro_batch_size") or trainer.micro_batch(file.where("deepspeed_config"))
    made["train_micro_batch_size_per_gpu"] = int(micro)
    lines = {key: file.line("deepspeed_config") for key in made}
    try:
        return deepspeed.fields(bundle, Document(file.name, "json", made, lines), world)
    except InputError as error:
        raise InputError(
            f"deepspeed_config.{error.field}", error.value, error.origin, error.reason, legal=error.legal
        ) from None
