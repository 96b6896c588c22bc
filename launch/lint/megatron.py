"""Rules on Megatron-LM's arguments: slips, numbers that do not divide, words without effect."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from ...inputs import InputError
from ..bundle import Bundle
from ..documents import Document
from .arguments import wrong_values
from .finding import Finding, at
from .keys import facts
from .layout import layout_findings

SIMILAR = 0.9
"""How alike a name and a known one are where it is a slip (difflib's ratio)."""

GO_WITH = (
    ("sequence_parallel", "tensor_model_parallel_size", "needs --tensor-model-parallel-size above 1"),
    ("recompute_method", "recompute_granularity", "needs --recompute-granularity full"),
    ("recompute_num_layers", "recompute_granularity", "needs --recompute-granularity full"),
    ("recompute_modules", "recompute_granularity", "needs --recompute-granularity selective"),
    ("optimizer_offload_fraction", "optimizer_cpu_offload", "needs --optimizer-cpu-offload"),
    ("tp_comm_overlap", "sequence_parallel", "needs --sequence-parallel"),
    ("overlap_param_gather", "use_distributed_optimizer", "needs --use-distributed-optimizer"),
    ("overlap_param_gather", "overlap_grad_reduce", "needs --overlap-grad-reduce"),
    ("expert_model_parallel_size", "num_experts", "needs --num-experts"),
    ("expert_tensor_parallel_size", "num_experts", "needs --num-experts"),
    ("moe_router_topk", "num_experts", "needs --num-experts"),
    ("num_query_groups", "group_query_attention", "needs --group-query-attention"),
    ("fp8_recipe", "fp8_format", "needs --fp8-format"),
    ("moe_grouped_gemm", "num_experts", "needs --num-experts"),
    ("mtp_loss_scaling_factor", "mtp_num_layers", "needs --mtp-num-layers"),
)
"""(argument, another one, what is said): without the other it does nothing, or stops the run late."""


def findings(bundle: Bundle, document: Document) -> Iterator[Finding]:
    """All rules of this client."""
    if document.kind != "script":
        return
    yield from _names(document)
    yield from wrong_values(bundle, document)
    yield from _alone(bundle, document)
    yield from _divided(bundle, document)
    yield from _eight_bits(bundle, document)
    yield from _together(bundle, document)


def _here(document: Document, name: str) -> bool:
    return name in document.values["arguments"]


def _names(document: Document) -> Iterator[Finding]:
    known, removed = facts("megatron")["names"], facts("megatron")["removed"]
    for name in document.values["arguments"]:
        flag, path = f"--{name.replace('_', '-')}", f"arguments.{name}"
        if name in removed:
            yield at(document, path, "removed-key", f"{flag} is gone", f"take {removed[name]}")
        elif name not in known and "." not in name:
            close = get_close_matches(name, known, n=1, cutoff=SIMILAR)
            if close:
                mend = f"did you mean --{close[0].replace('_', '-')}?"
                yield at(document, path, "unknown-key", f"{flag} is no argument", mend)


def _number(bundle: Bundle, name: str, default: int | None = None) -> int | None:
    try:
        found = bundle.number(name)
    except InputError:
        return default
    return default if found is None or found < 1 else found


def _alone(bundle: Bundle, document: Document) -> Iterator[Finding]:
    for name, other, reason in GO_WITH:
        flag = f"--{name.replace('_', '-')}"
        there = bundle.argument(other) is not None
        if name == "sequence_parallel":
            there = (_number(bundle, other, 2 if there else 1) or 1) > 1
        if _here(document, name) and not there:
            message = f"{flag} {reason}"
            mend = reason.removeprefix("needs ") + f", or without {flag}"
            yield at(document, f"arguments.{name}", "no-effect", message, mend)


def _divided(bundle: Bundle, document: Document) -> Iterator[Finding]:
    """Numbers that a degree does not divide, at the line of the degree."""
    tensor, stages = (_number(bundle, f"{n}_model_parallel_size", 1) for n in ("tensor", "pipeline"))
    context, experts = _number(bundle, "context_parallel_size", 1), _number(bundle, "num_experts")
    groups = _number(bundle, "num_query_groups") or _number(bundle, "num_attention_heads")
    pairs = [
        ("tensor_model_parallel_size", tensor, groups, "heads of keys and values"),
        ("tensor_model_parallel_size", tensor, _number(bundle, "num_attention_heads"), "attention heads"),
        ("tensor_model_parallel_size", tensor, _number(bundle, "hidden_size"), "the hidden width"),
        ("expert_model_parallel_size", _number(bundle, "expert_model_parallel_size", 1), experts, "experts"),
        ("context_parallel_size", 2 * (context or 1) if (context or 1) > 1 else 1,
         _number(bundle, "seq_length"), "tokens of a sequence"),
    ]  # fmt: skip
    seen: set[str] = set()
    for name, degree, number, what in pairs:
        if _here(document, name) and degree and number and number % degree and name not in seen:
            seen.add(name)
            legal = [str(d) for d in range(1, degree) if number % d == 0][-3:]
            message = f"{degree} does not divide {number} {what}"
            mend = f"--{name.replace('_', '-')} {' or '.join(reversed(legal)) or 1}"
            yield at(document, f"arguments.{name}", "does-not-divide", message, mend)
    yield from _stages(bundle, document, stages or 1)
    yield from _experts(bundle, document, (tensor or 1), stages or 1)
    yield from _batch(bundle, document, (tensor or 1) * (stages or 1) * (context or 1))


def _stages(bundle: Bundle, document: Document, stages: int) -> Iterator[Finding]:
    layers, modules = _number(bundle, "num_layers"), _number(bundle, "mtp_num_layers", 0) or 0
    yield from layout_findings(bundle, document, stages, layers, modules)
    spelt = any(
        bundle.argument(name) is not None
        for name in (
            "pipeline_model_parallel_layout", "decoder_first_pipeline_num_layers",
            "decoder_last_pipeline_num_layers", "account_for_embedding_in_pipeline_split",
        )
    )  # fmt: skip
    chunks = _number(bundle, "num_virtual_stages_per_pipeline_rank", 1) or 1
    if not layers or spelt or not _here(document, "pipeline_model_parallel_size"):
        return
    if layers % (stages * chunks):
        message = f"{layers} layers make no {stages * chunks} equal chunks"
        mend = "--pipeline-model-parallel-layout, or --decoder-last-pipeline-num-layers"
        yield at(document, "arguments.pipeline_model_parallel_size", "does-not-divide", message, mend)


def _experts(bundle: Bundle, document: Document, tensor: int, stages: int) -> Iterator[Finding]:
    """Ranks of experts that do not divide those of a stage, and their columns (core/parallel_state.py)."""
    over = _number(bundle, "expert_model_parallel_size", 1) or 1
    columns = _number(bundle, "expert_tensor_parallel_size", tensor) or 1
    width, world = _number(bundle, "moe_ffn_hidden_size"), bundle.world()
    name = next((n for n in EXPERT_SIZES if _here(document, n)), None)
    if name is None:
        return
    path = f"arguments.{name}"
    if world is not None and world % (stages * over * columns):
        message = f"{over} x {columns} ranks of experts x {stages} stages do not divide {world} ranks"
        mend = f"sizes of experts that multiply to a divisor of {world // stages}"
        yield at(document, path, "does-not-divide", message, mend)
    if width and width % columns and _here(document, "expert_tensor_parallel_size"):
        message = f"{columns} does not divide {width} columns of an expert"
        path = "arguments.expert_tensor_parallel_size"
        yield at(document, path, "does-not-divide", message, "--expert-tensor-parallel-size 1")


EXPERT_SIZES = ("expert_tensor_parallel_size", "expert_model_parallel_size")


def _batch(bundle: Bundle, document: Document, model: int) -> Iterator[Finding]:
    world, total = bundle.world(), _number(bundle, "global_batch_size")
    micro = _number(bundle, "micro_batch_size", 1) or 1
    if world is None or total is None or not _here(document, "global_batch_size"):
        return
    if world % model:
        message = f"{model} ranks of one model do not divide the {world} that are started"
        yield at(document, "arguments.global_batch_size", "does-not-divide", message, f"{model} x n ranks")
        return
    step = micro * (world // model)
    if total % step:
        message = f"--global-batch-size {total} is no multiple of {micro} x {world // model} ranks"
        mend = f"--global-batch-size {max(1, round(total / step)) * step}"
        yield at(document, "arguments.global_batch_size", "batch-triad", message, mend)


def _eight_bits(bundle: Bundle, document: Document) -> Iterator[Finding]:
    """Widths that are no multiple of what 8-bit products need on each card."""
    if bundle.argument("fp8_format") is None:
        return
    recipe = bundle.argument("fp8_recipe")
    unit = 32 if recipe is not None and recipe.value[:1] == ["mxfp8"] else 16
    tensor = _number(bundle, "tensor_model_parallel_size", 1) or 1
    tokens = (_number(bundle, "seq_length") or 0) * (_number(bundle, "micro_batch_size", 1) or 1)
    widths = {
        "hidden_size": _number(bundle, "hidden_size"),
        "ffn_hidden_size": (_number(bundle, "ffn_hidden_size") or 0) // tensor,
        "moe_ffn_hidden_size": _number(bundle, "moe_ffn_hidden_size"),
        "seq_length": tokens // (_number(bundle, "context_parallel_size", 1) or 1),
    }
    for name, width in widths.items():
        if _here(document, name) and width and width % unit:
            message = f"8-bit products need multiples of {unit}; a card holds {width} of {name}"
            mend = f"a multiple of {unit * (tensor if name == 'ffn_hidden_size' else 1)}, or bf16"
            yield at(document, f"arguments.{name}", "fp8-alignment", message, mend)


def _together(bundle: Bundle, document: Document) -> Iterator[Finding]:
    """Arguments that do not go together."""
    stages = _number(bundle, "pipeline_model_parallel_size", 1) or 1
    tensor = _number(bundle, "tensor_model_parallel_size", 1) or 1
    if _here(document, "use_torch_fsdp2") and stages > 1:
        message = "--use-torch-fsdp2 does not run beside pipeline stages"
        path = "arguments.use_torch_fsdp2"
        yield at(document, path, "zero-with-pipeline", message, "--use-distributed-optimizer")
    if _here(document, "bf16") and _here(document, "fp16"):
        yield at(document, "arguments.fp16", "two-precisions", "either bf16 or fp16", "take --fp16 away")
    alone = bundle.argument("num_experts") is not None and bundle.argument("sequence_parallel") is None
    if _here(document, "tensor_model_parallel_size") and tensor > 1 and alone:
        message = "experts beside tensor parallel need sequence parallel"
        path = "arguments.tensor_model_parallel_size"
        yield at(document, path, "experts-without-sequence", message, "--sequence-parallel")
    said = document.values["arguments"].get("recompute_granularity", [])
    if said[:1] == ["full"] and bundle.argument("recompute_method") is None:
        message = "full recomputation without a method stops the run"
        mend = "--recompute-method uniform --recompute-num-layers 1"
        yield at(document, "arguments.recompute_granularity", "without-method", message, mend)
