"""Reading a `ds_config.json`, or its Hugging Face dialect with `auto`, back to choices."""

from __future__ import annotations

from typing import Any

from ...inputs import InputError
from ..autos import autos, by_deepspeed_alone
from ..bundle import Bundle, whole
from ..documents import Document
from ..lint.keys import facts
from ..mesh import ULYSSES, ranks_of
from ..trainer import Trainer

UNPRICED: dict[str, tuple[object, str]] = {
    "zero_optimization.mics_shard_size": (None, "MiCS is gone from DeepSpeed"),
    "tensor_parallel.autotp_size": (1, "AutoTP is not priced; it needs equal data on each rank of a group"),
    "zero_optimization.offload_optimizer.ratio": (1.0, "offload of a part of the states is not priced"),
    "zero_optimization.zero_quantized_weights": (False, "gathers of quantized weights are not priced"),
    "zero_optimization.zero_quantized_gradients": (False, "quantized gradients are not priced"),
}
"""Keys whose other values the ledger has no price for, with the one it has."""

KEYS = {
    "zero_stage": "stage",
    "secondary_shard_group_size": "zero_hpz_partition_size",
    "overlap_gradient_reduce": "overlap_comm",
    "offload_optimizer": "offload_optimizer",
    "offload_params": "offload_param",
    "gradient_dtype": "grad_accum_dtype",
    "micro_batch_size": "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
}
"""Fields of a strategy by the last word of the key that states them."""


def fields(bundle: Bundle, file: Document, cards: int) -> dict[str, Any]:
    """Choices of `file` by their name in `Strategy`; what it leaves open is left out."""
    for path, (priced, reason) in UNPRICED.items():
        if file.get(path) not in (None, priced):
            raise file.wrong(path, reason, () if priced is None else (str(priced).lower(),))
    _refuse_unfilled(bundle, file)
    trainer = Trainer(bundle)
    stage = _stage(file)
    precision = _precision(file, trainer)
    found: dict[str, Any] = {"backend": "deepspeed", "zero_stage": stage, "precision": precision}
    world = bundle.world() or cards
    context = _context(bundle, file, world)
    found |= {"context_parallel": context, **_batch(file, trainer, world // context)}
    gradients = file.get("data_types.grad_accum_dtype")
    found["gradient_dtype"] = gradients or precision
    if gradients not in (None, "fp32", "fp16", "bf16"):
        raise file.wrong("data_types.grad_accum_dtype", "is no type of gradients", ("fp32", "bf16"))
    found["secondary_shard_group_size"] = _secondary(file) if stage == 3 else 1
    found["reshard_after_forward"] = stage == 3
    found["overlap_gradient_reduce"] = bool(stage) and _overlaps(file, stage)
    found["offload_optimizer"] = _place(file, "offload_optimizer")
    found["offload_params"] = _place(file, "offload_param")
    found["recompute"] = "full" if _recomputes(file, trainer) else "none"
    found["loss_kernel"] = "chunked" if trainer.switch("use_liger_kernel") else "eager"
    return found


def _refuse_unfilled(bundle: Bundle, file: Document) -> None:
    """Refuses an auto that stops the run: of a key no trainer knows, or at the top of a file without one."""
    filled, alone = facts("deepspeed")["auto"], by_deepspeed_alone(bundle, file)
    for path in autos(file):
        if not alone and path not in filled:
            reason = (
                "is auto, which neither the trainer nor Accelerate fills in for this key: both stop at it"
            )
            raise file.wrong(path, reason)
        if alone and "." not in path:
            reason = "is filled in from the trainer's arguments: give their file or launch script too"
            raise file.wrong(path, reason, ("1",))


def _context(bundle: Bundle, file: Document, world: int) -> int:
    """Ranks that share a sequence: by the file, or by what Accelerate reads for the trainer."""
    path = "sequence_parallel_size"
    if file.get(path) is None:
        return ranks_of(bundle, ULYSSES, world)
    ranks = whole(file.get(path), path, file.where(path))
    if ranks < 1 or world % ranks:
        raise file.wrong(path, f"does not divide {world} ranks", ("1",))
    return ranks


def _stage(file: Document) -> int:
    block = file.get("zero_optimization")
    if block is not None and not isinstance(block, dict):
        raise file.wrong("zero_optimization", "must be a table with a stage")
    stage = file.get("zero_optimization.stage")
    if stage is not None and (not isinstance(stage, int) or isinstance(stage, bool) or not 0 <= stage <= 3):
        raise file.wrong(
            "zero_optimization.stage", "must be a whole number from 0 to 3", ("0", "1", "2", "3")
        )
    return stage or 0


def _precision(file: Document, trainer: Trainer) -> str:
    chosen = []
    for word in ("bf16", "fp16"):
        enabled = file.get(f"{word}.enabled")
        if enabled == "auto":
            enabled = trainer.switch(word)
        if not isinstance(enabled, bool | None):
            raise file.wrong(f"{word}.enabled", "must be true or false", ("true", "false"))
        chosen += [word] * bool(enabled)
    if len(chosen) > 1:
        raise file.wrong("fp16.enabled", "bf16 and fp16 exclude each other", ("false",))
    return chosen[0] if chosen else "fp32"


def _batch(file: Document, trainer: Trainer, world: int) -> dict[str, int]:
    """Micro-batch, accumulation and data parallel from the numbers given, of which two make the third."""
    names = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
    total, micro, steps = (_count(file, name) for name in names)
    if file.get(names[1]) == "auto":
        micro = trainer.micro_batch(file.where(names[1]))
    if file.get(names[2]) == "auto":
        steps = trainer.number("gradient_accumulation_steps") or 1
    if micro is None and total is None:
        raise file.wrong("train_micro_batch_size_per_gpu", "no batch size is given", ("1",))
    if micro is None or (steps is None and total is not None):
        assert total is not None
        known = micro or steps or 1
        rest, left = divmod(total, known * world)
        if left or not rest:
            reason = f"is no multiple of {known} on each of {world} ranks"
            raise file.wrong("train_batch_size", reason)
        micro, steps = (micro, rest) if micro else (rest, known)
    steps = steps or 1
    if total is None:
        return {"micro_batch_size": micro, "gradient_accumulation_steps": steps, "data_parallel": world}
    ranks, left = divmod(total, micro * steps)
    if left or not ranks:
        reason = f"is no multiple of {micro} a rank times {steps} accumulated"
        raise file.wrong("train_batch_size", reason, (str(micro * steps * world),))
    return {"micro_batch_size": micro, "gradient_accumulation_steps": steps, "data_parallel": ranks}


def _count(file: Document, name: str) -> int | None:
    value = file.get(name)
    if value is None or value == "auto":
        return None
    found = whole(value, name, file.where(name))
    if found < 1:
        raise file.wrong(name, "must be at least 1", ("1",))
    return found


def _secondary(file: Document) -> int:
    """Ranks of the second copy of the weights; 0 and 1 are none."""
    path = "zero_optimization.zero_hpz_partition_size"
    size = file.get(path)
    if size in (None, "auto"):
        return 1
    found = whole(size, path, file.where(path))
    if found < 0:
        raise file.wrong(path, "must be a number of ranks", ("1",))
    return max(found, 1)


def _overlaps(file: Document, stage: int) -> bool:
    """Whether communication overlaps compute; left out, at stage 3 alone (zero/config.py).

    DeepSpeed leaves an auto out too; where a trainer reads the file it was refused before.
    """
    said = file.get("zero_optimization.overlap_comm")
    if said in (None, "auto"):
        return stage == 3
    if not isinstance(said, bool):
        raise file.wrong("zero_optimization.overlap_comm", "must be true or false", ("true", "false"))
    return said


def _place(file: Document, block: str) -> str:
    path = f"zero_optimization.{block}"
    device = file.get(f"{path}.device")
    if file.get(path) is None or device in (None, "none"):
        return "none"
    if device not in ("cpu", "nvme"):
        reason, legal = "is no device of offload", ["cpu", "nvme"]
        raise InputError(f"{path}.device", device, file.where(f"{path}.device"), reason, legal=legal)
    if device == "nvme" and not file.get(f"{path}.nvme_path"):
        raise file.wrong(f"{path}.nvme_path", "is required where states live on NVMe", ("/local_nvme",))
    return str(device)


def _recomputes(file: Document, trainer: Trainer) -> bool:
    """The trainer's switch where its arguments are there, else the block that we write for it."""
    if trainer.given:
        return trainer.recomputes
    return isinstance(file.get("activation_checkpointing.number_checkpoints"), int)
