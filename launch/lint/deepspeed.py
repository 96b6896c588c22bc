"""Rules on DeepSpeed's configuration, alone and beside what starts it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...inputs import nearest
from ..autos import autos, by_deepspeed_alone
from ..bundle import Bundle
from ..documents import Document
from .batch import triad
from .finding import Finding, at
from .keys import facts, wrong_keys

LARGE_BUCKET = 500_000_000
"""Elements: DeepSpeed's own default, 1 GB of two-byte numbers."""

BUCKETS = ("reduce_bucket_size", "allgather_bucket_size", "stage3_prefetch_bucket_size")
PIPELINES = ("pipe_parallel_size", "pipeline_parallel_size", "pipeline_model_parallel_size", "pp_size")
NEOX = ("pipe-parallel-size", "model-parallel-size", "pipe_parallel_size", "model_parallel_size")
"""Keys of GPT-NeoX, whose YAML holds DeepSpeed's keys beside its own."""


def findings(bundle: Bundle, document: Document) -> Iterator[Finding]:
    """All rules of this client."""
    known = facts("deepspeed")
    if not any(key in document.values for key in NEOX):
        yield from wrong_keys(document, known["keys"])
    yield from _removed(document, known["removed"])
    yield from triad(bundle, document)
    yield from _auto(bundle, document, known["auto"])
    yield from _precision(document)
    yield from _stages(bundle, document, known)
    yield from _offload(document)
    yield from _buckets(document)
    yield from _optimizer(document, known)
    yield from _hpz(bundle, document)


def stage_of(document: Document) -> int:
    """The ZeRO stage, 0 where none or no number is given."""
    stage = document.get("zero_optimization.stage")
    return stage if isinstance(stage, int) and not isinstance(stage, bool) else 0


def _removed(document: Document, removed: Mapping[str, str]) -> Iterator[Finding]:
    for path, instead in removed.items():
        if document.get(path) is not None:
            message = f"{path} is gone from DeepSpeed, or does nothing"
            yield at(document, path, "removed-key", message, f"take {instead}")


def _auto(bundle: Bundle, document: Document, filled: list[str]) -> Iterator[Finding]:
    outside = by_deepspeed_alone(bundle, document)
    for path in autos(document):
        if path not in filled:
            message = (
                f"{path} is auto, which nobody fills in: the trainer and Accelerate stop at it, "
                "DeepSpeed itself leaves it out"
            )
            yield at(document, path, "auto-unfilled", message, "state a value")
        elif outside:
            message = (
                f"{path} is auto: it is copied from the arguments of the Hugging Face trainer and tunes "
                "nothing; DeepSpeed, which reads this file itself, cannot"
            )
            mend = (
                "state a number, or give the trainer's arguments too; a file for the trainer ends in .hf.json"
            )
            yield at(document, path, "auto-outside-trainer", message, mend)


def _precision(document: Document) -> Iterator[Finding]:
    both = [word for word in ("bf16", "fp16") if document.get(f"{word}.enabled") is True]
    if len(both) == 2:
        message = "bf16 and fp16 are both enabled: DeepSpeed refuses to start"
        yield at(document, "fp16.enabled", "two-precisions", message, "fp16.enabled: false")
    if document.get("fp16.loss_scale") and "fp16" in both:
        message = "a fixed loss scale overflows or loses small gradients without a word"
        yield at(document, "fp16.loss_scale", "fixed-loss-scale", message, "loss_scale: 0, which adapts it")


def _stages(bundle: Bundle, document: Document, known: Mapping[str, Any]) -> Iterator[Finding]:
    """Keys without effect at the stage, and stages that do not go with what else is asked."""
    stage = stage_of(document)
    for path, least in known["from_stage"].items():
        held = document.get(path)
        off = isinstance(held, dict) and held.get("device") == "none"
        if held not in (None, False, 1) and not off and stage < least and "bf16" not in path:
            message = f"{path} does nothing below ZeRO stage {least}; the stage is {stage}"
            yield at(document, path, "no-effect", message, f"stage: {least}, or take the key away")
    for path, most in known["until_stage"].items():
        if document.get(path) not in (None, False) and (stage > most or stage == 0):
            message = f"{path} does something at the stages 1 and 2 only; the stage is {stage}"
            yield at(document, path, "no-effect", message, "take the key away")
    yield from _divided_models(bundle, document, stage)
    if stage == 3 and (document.get("tensor_parallel.autotp_size") or 0) > 1:
        message = "AutoTP goes with the ZeRO stages 0 to 2"
        yield at(document, "tensor_parallel.autotp_size", "tensor-with-zero3", message, "stage: 2")
    full = document.get("zero_optimization.stage3_gather_16bit_weights_on_model_save")
    if full and stage < 3:
        path = "zero_optimization.stage3_gather_16bit_weights_on_model_save"
        message = f"{path} does nothing below ZeRO stage 3; the stage is {stage}"
        yield at(document, path, "no-effect", message, "take the key away")


def _divided_models(bundle: Bundle, document: Document, stage: int) -> Iterator[Finding]:
    """Stages 2 and 3 beside a pipeline, or beside the model parallel of GPT-NeoX."""
    if stage < 2:
        return
    sizes = [bundle.number(name) for name in PIPELINES]
    sizes += [document.get(key) for key in NEOX]
    sizes.append(document.get("pipeline.stages"))
    if any(isinstance(size, int) and size > 1 for size in sizes):
        message = (
            f"ZeRO stage {stage} does not run beside pipeline stages: gradients are reduced once a batch"
        )
        yield at(document, "zero_optimization.stage", "zero-with-pipeline", message, "stage: 1")


def _offload(document: Document) -> Iterator[Finding]:
    for name in ("offload_optimizer", "offload_param"):
        path = f"zero_optimization.{name}"
        block = document.get(path)
        device = block.get("device") if isinstance(block, dict) else None
        if device == "nvme" and not block.get("nvme_path"):
            message = f"{path} goes to nvme without a path: DeepSpeed takes the file, and fails later"
            yield at(document, path, "offload-without-path", message, 'nvme_path: "/local_nvme"')
        if device == "cpu" and block.get("pin_memory") is not True:
            message = f"{path} is not pinned: copies to the cards are then several times slower"
            yield at(document, f"{path}.pin_memory", "offload-unpinned", message, "pin_memory: true")
    optimizer = document.get("zero_optimization.offload_optimizer.device")
    if optimizer == "nvme" and stage_of(document) in (1, 2):
        path = "zero_optimization.offload_optimizer.device"
        message = "states of the optimizer go to nvme at ZeRO stage 3 only"
        yield at(document, path, "no-effect", message, "device: cpu, or stage: 3")


def _buckets(document: Document) -> Iterator[Finding]:
    for name in BUCKETS:
        path = f"zero_optimization.{name}"
        size = document.get(path)
        if isinstance(size, int | float) and not isinstance(size, bool) and size > LARGE_BUCKET:
            message = f"{path} of {size:.3g} elements takes {size * 2 / 2**30:.1f} GiB of a card in 16 bits"
            yield at(document, path, "large-bucket", message, f"{name}: {LARGE_BUCKET}")


def _optimizer(document: Document, known: Mapping[str, Any]) -> Iterator[Finding]:
    for path, words, rule in (
        ("optimizer.type", known["optimizers"], "unknown-optimizer"),
        ("scheduler.type", known["schedulers"], "unknown-scheduler"),
    ):
        named = document.get(path)
        if isinstance(named, str) and named.lower() not in {word.lower() for word in words}:
            message = f"{path} {named[:40]} is none DeepSpeed or torch has"
            mend = f"{', '.join(nearest(named, words))}; or hand DeepSpeed an object instead of a name"
            yield at(document, path, rule, message, mend)


def _hpz(bundle: Bundle, document: Document) -> Iterator[Finding]:
    path = "zero_optimization.zero_hpz_partition_size"
    size, world = document.get(path), bundle.world()
    if not isinstance(size, int) or size < 2:
        return
    if world is not None and world % size:
        message = f"{path} {size} does not divide the {world} ranks"
        yield at(document, path, "hpz-does-not-divide", message, f"{path}: the cards of one machine")
    one_node = bundle.number("nnodes", "num_nodes", "num_machines") == 1
    if one_node if world is None else world <= size:
        message = "a second copy of the weights (hpZ) over all ranks saves no traffic and costs memory"
        yield at(document, path, "hpz-one-node", message, "zero_hpz_partition_size: 1")
