"""The layouts a row may mean: one where all columns are given, a few where some are blank.

Rules: data_parallel is cards / (tp pp cp). Blank `micro_batch_seqs`, `vpp` and
`recompute` have several readings (`choices`), of which the fastest that fits is the row (`runs`).
Blank `global_batch_seqs` is one micro-batch a rank. Blank `sp` is 1 from 2023
on where tp > 1. Blank `zero_stage` is 3 (DeepSpeed, FSDP; on one card, which has nothing to gather, 2 under
DeepSpeed and 0 else) or, under Megatron, 1 from 2023 on and 0 before.
Blank `grad_accum_dtype` is the framework's default and blank `hsdp_replicas` 1; neither makes a row imputed.
An FSDP framework with zero_stage 0 is plain data parallel, as is one called DDP where it is blank; a Megatron
framework with zero_stage 2 or 3 (Megatron-FSDP) is priced under `fsdp`, in a pipeline as stage 1. How context
ranks exchange keys and values is as `exchanges` reads it. Degrees
printed without the expert ranks, or with the context ranks, are known by their product.
"""

from __future__ import annotations

import re
from typing import Any

from ..hardware import Cluster
from ..inputs import InputError, shorten
from ..inputs.record import dataclass
from ..models import Strategy, Training, Transformer
from ..models.schedule import misfit
from ..models.stack import stack
from ..models.strategy import BackendName
from .arithmetic import arithmetic_of
from .choices import choices_of, schedule_named
from .exchanges import exchange_named
from .record import Record
from .refusal import Refused
from .software import Software, stated_zero_stage
from .stages import Held, held_layers, stages_of
from .ways import RowWay, way_of_row


@dataclass(frozen=True)
class Candidate:
    """One reading of a row."""

    training: Training
    strategy: Strategy


@dataclass(frozen=True)
class Layouts:
    """All readings of a row, the columns that rules filled and what was taken in place of something else."""

    candidates: tuple[Candidate, ...]
    imputed: tuple[str, ...]
    stand_ins: tuple[str, ...]


@dataclass(frozen=True)
class _Degrees:
    data: int
    tensor: int
    pipeline: int
    context: int
    expert: int


def layouts_of(record: Record, software: Software, transformer: Transformer, cluster: Cluster) -> Layouts:
    """The readings of a row; `Refused` where its numbers contradict each other."""
    degrees = _degrees(record, cluster)
    zero, imputed = _zero_stage(record, software.backend)
    name, zero, notes = _backend(software.backend, zero, degrees.pipeline)
    kind, more = arithmetic_of(record, name, cluster.node.gpu, software.gradients)
    way = way_of_row(record, software)
    fixed = {
        "backend": name,
        "software_stack": software.stack,
        "loss_kernel": software.loss_kernel,
        "zero_stage": zero,
        **kind,
        **_sharding(record, degrees, name, zero),
        **_offload(record, name, zero),
        **_tensor(record, degrees),
        **_exchange(record, degrees.context),
        **_overlap(record, name, software.stack),
    }
    found = []
    layers = transformer.layers - transformer.mtp_layers
    choices = choices_of(record, software.recipe, layers, degrees.pipeline, degrees.data)
    for micro, chunks, recompute in choices:
        if degrees.pipeline * chunks < layers + degrees.pipeline:
            held = held_layers(transformer, degrees.pipeline, chunks, software.stage_layers)
            found += _candidate(record, held, degrees, way, fixed, micro, chunks, recompute)
    if not found:
        raise Refused("batch", "no micro-batch and interleaving divide the global batch and the layers")
    return Layouts(
        tuple(found),
        (*imputed, *way.imputed, *_blanks(record, software.own_recipe, degrees)),
        (*notes, *more, *way.stand_ins, *_kernels(record, software)),
    )


def _degrees(record: Record, cluster: Cluster) -> _Degrees:
    tensor, pipeline = record.integer("tp") or 1, record.integer("pp") or 1
    context, expert = record.integer("cp") or 1, record.integer("ep") or 1
    data, rest = divmod(cluster.gpus, tensor * pipeline * context)
    stated = record.integer("dp") or data
    if rest or stated not in (data, data * context, data / expert, data * context / expert):
        raise Refused("degrees", f"tp pp cp dp do not multiply to {cluster.gpus} cards")
    if (record.integer("experts") or 0) <= 1:
        expert = 1
    if (data * context * tensor) % expert:
        raise Refused("degrees", f"ep = {expert} does not divide dp cp tp")
    return _Degrees(data, tensor, pipeline, context, expert)


def _zero_stage(record: Record, name: BackendName) -> tuple[int, list[str]]:
    stated = stated_zero_stage(record)
    if stated is not None:
        return stated, []
    if re.search(r"\bddp\b", record.text("framework").lower()):
        return 0, ["zero_stage"]
    if name == "megatron":
        return (1 if record.year >= 2023 else 0), ["zero_stage"]
    alone = 2 if name == "deepspeed" else 0
    return (alone if record.integer("gpus") == 1 else 3), ["zero_stage"]


def _backend(name: BackendName, zero: int, stages: int) -> tuple[BackendName, int, list[str]]:
    """The backend and stage that are priced: pipelines shard no gradients, which each micro-batch adds to."""
    if name == "megatron" and zero > 1 and stages > 1:
        return name, 1, [f"zero_stage {zero} in a pipeline -> 1"]
    if name == "megatron" and zero > 1:
        return "fsdp", zero, ["backend megatron-fsdp -> fsdp"]
    return name, zero, []


def _sharding(record: Record, degrees: _Degrees, name: BackendName, zero: int) -> dict[str, object]:
    ranks = degrees.data * degrees.context
    replicas = record.integer("hsdp_replicas") or 1
    if ranks % replicas:
        raise Refused("degrees", f"hsdp_replicas = {replicas} does not divide dp cp")
    return {
        "shard_group_size": ranks // replicas if zero else 1,
        "reshard_after_forward": zero == 3,
        "data_parallel": degrees.data,
        "tensor_parallel": degrees.tensor,
        "pipeline_parallel": degrees.pipeline,
        "context_parallel": degrees.context,
        "expert_parallel": degrees.expert,
    }


def _offload(record: Record, name: BackendName, zero: int) -> dict[str, object]:
    """Parameters alone go to the host under DeepSpeed; FSDP takes their gradients and states along."""
    word = record.word("offload") or "none"
    if word not in ("none", "optimizer", "params", "optimizer+params"):
        raise Refused("unreadable", f"offload = {shorten(word)} is not known")
    along = word == "params" and not (name == "deepspeed" and zero == 3)
    return {
        "offload_optimizer": "cpu" if zero and ("optimizer" in word or along) else "none",
        "offload_params": "cpu" if "params" in word and zero == 3 else "none",
    }


def _tensor(record: Record, degrees: _Degrees) -> dict[str, object]:
    split = record.flag("sp")
    if split is None:
        split = record.year >= 2023
    return {"sequence_parallel": split and degrees.tensor > 1}


def _exchange(record: Record, context: int) -> dict[str, object]:
    kind = exchange_named(record) if context > 1 else None
    return {} if kind is None else {"context_parallel_kind": kind}


def _overlap(record: Record, name: BackendName, software: str) -> dict[str, object]:
    """Gradients are reduced beside the backward where a Megatron row or the runs of its stack say so."""
    if name != "megatron":
        return {}
    said = record.flag("overlap_grad_reduce")
    return {"overlap_gradient_reduce": stack(software).data_overlapped if said is None else said}


def _kernels(record: Record, software: Software) -> list[str]:
    fused = not stack(software.stack).writes_scores
    return ["attention unfused -> fused"] if fused and record.flag("flash_attention") is False else []


def _blanks(record: Record, published: bool, degrees: _Degrees) -> list[str]:
    """Blank columns that a rule fills and that change the price.

    The interleaving of a row's own recipe is no rule.
    """
    found = [c for c in ("micro_batch_seqs", "global_batch_seqs", "recompute") if not record.said(c)]
    found += ["vpp"] if degrees.pipeline > 1 and not record.said("vpp") and not published else []
    found += ["sp"] if degrees.tensor > 1 and not record.said("sp") else []
    return found + ([] if record.said("precision") else ["precision"])


def _candidate(
    record: Record,
    held: Held,
    degrees: _Degrees,
    way: RowWay,
    fixed: dict[str, object],
    micro: int,
    chunks: int,
    recompute: str,
) -> list[Candidate]:
    """The one reading, or none where the numbers do not divide."""
    batch = record.integer("global_batch_seqs") or degrees.data * micro
    steps, rest = divmod(batch, degrees.data * micro)
    if rest or not steps:
        return []
    if chunks > 1 and not record.said("vpp") and steps % degrees.pipeline:
        return []
    stages = stages_of(
        record,
        recompute,
        stack(str(fixed["software_stack"])),
        held,
        "cpu" in (fixed["offload_optimizer"], fixed["offload_params"]),
        way.fields.get("recompute_modules", ()),
    )
    length = record.needed("seq_len")
    named = schedule_named(record) if degrees.pipeline > 1 else None
    if named is not None and (reason := misfit(named.name, degrees.pipeline, chunks, steps)):
        raise Refused("degrees", reason)
    try:
        training = Training(global_batch_size=batch, sequence_length=length, **way.fields)
        choices: dict[str, Any] = {
            **fixed,
            "virtual_pipeline": chunks,
            "pipeline_schedule": named.name if named is not None else None,
            "micro_batch_size": micro,
            "gradient_accumulation_steps": steps,
            "stages": stages,
        }
        strategy = Strategy(**choices)
    except InputError as error:
        raise Refused("degrees", error.message) from None
    return [Candidate(training, strategy)]
