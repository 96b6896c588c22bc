"""Reading Megatron-LM's arguments, from a script, a list or a YAML file, back to choices."""

from __future__ import annotations

from math import prod
from typing import Any, get_args

from ...models.modules import LACKED, held_modules
from ...models.training import Module, Training
from ...models.transformer import Transformer
from ..bundle import Bundle, whole
from .asked import Arguments
from .chunks import Chunks, held_chunks
from .recompute import recomputed_modules

UNPRICED = {
    "use_megatron_fsdp": "Megatron FSDP is not priced; --use-distributed-optimizer is",
    "use_torch_fsdp2": "FSDP2 inside Megatron-LM is not priced; --use-distributed-optimizer is",
    "use_custom_fsdp": "Megatron FSDP is not priced; --use-distributed-optimizer is",
    "fp4_format": "4-bit products are not priced under Megatron-LM",
    "cpu_offloading": (
        "moves to the host what whole layers keep, beside no recompute and no pipeline; priced are inputs of "
        "recomputed layers there, under FSDP (training.offload_activations), and --optimizer-cpu-offload"
    ),
    "hybrid_context_parallel": "hybrid context parallel is not priced",
}
"""Switches the ledger has no price for."""

KEYS = {
    "tensor_parallel": "tensor_model_parallel_size",
    "pipeline_parallel": "pipeline_model_parallel_size",
    "virtual_pipeline": "num_virtual_stages_per_pipeline_rank",
    "context_parallel": "context_parallel_size",
    "context_parallel_kind": "cp_comm_type",
    "expert_parallel": "expert_model_parallel_size",
    "expert_tensor_parallel": "expert_tensor_parallel_size",
    "zero_stage": "use_distributed_optimizer",
    "sequence_parallel": "sequence_parallel",
    "overlap_gradient_reduce": "overlap_grad_reduce",
    "overlap_parameter_gather": "overlap_param_gather",
    "overlap_tensor_parallel": "tp_comm_overlap",
    "micro_batch_size": "micro_batch_size",
    "gradient_accumulation_steps": "global_batch_size",
}
"""Fields of a strategy by the argument that states them."""


STOPPED: tuple[Module, ...] = ("moe_act", "mla_up_proj")
"""Modules that Megatron Core refuses where no layer has them (transformer_config.py)."""


def fields(bundle: Bundle, model: Transformer, cards: int) -> dict[str, Any]:
    """Choices by their name in `Strategy`, for `model` on `cards` where no launcher says how many."""
    args = Arguments(bundle)
    for name, reason in UNPRICED.items():
        if args.asked(name):
            raise args.wrong(name, reason)
    _same_model(args, model)
    tensor, context = args.count("tensor_model_parallel_size"), args.count("context_parallel_size")
    stages = args.count("pipeline_model_parallel_size")
    world = bundle.world() or cards
    ranks, left = divmod(world, tensor * context * stages)
    if left or not ranks:
        reason = f"{tensor} x {stages} x {context} ranks do not divide {world}"
        raise args.wrong("tensor_model_parallel_size", reason)
    micro = args.count("micro_batch_size")
    total = args.number("global_batch_size")
    sharded = args.switch("use_distributed_optimizer")
    split = args.switch("sequence_parallel") and tensor > 1
    routed = any(kind.feed_forward.experts for kind in model.kinds)
    held = held_chunks(args, model, stages)
    found: dict[str, Any] = {
        "backend": "megatron",
        "data_parallel": ranks,
        "tensor_parallel": tensor,
        "pipeline_parallel": stages,
        "context_parallel": context,
        **_exchange(args, context),
        "expert_parallel": args.count("expert_model_parallel_size"),
        "expert_tensor_parallel": args.count("expert_tensor_parallel_size", tensor if routed else 1),
        "virtual_pipeline": len(held[0]),
        "zero_stage": int(sharded),
        "shard_group_size": ranks * context if sharded else 1,
        "reshard_after_forward": False,
        **_overlaps(args, sharded, split),
        "sequence_parallel": split,
        "micro_batch_size": micro,
        "rank_order": "tp-cp-pp-dp" if args.switch("use_tp_pp_dp_mapping") and stages > 1 else "tp-cp-dp-pp",
        "stages": _stages(args, held),
        "offload_optimizer": _offload(args),
        **_precision(args),
    }
    if total is not None:
        steps, left = divmod(total, micro * ranks)
        if left or not steps:
            raise args.wrong("global_batch_size", f"is no multiple of {micro} x {ranks} data-parallel ranks")
        found["gradient_accumulation_steps"] = steps
    return found


def _overlaps(args: Arguments, sharded: bool, split: bool) -> dict[str, bool]:
    """Which communication of data and tensor ranks runs beside compute."""
    reduces, gathers = (args.switch(name) for name in ("overlap_grad_reduce", "overlap_param_gather"))
    if gathers and not (sharded and reduces):
        lacking = "--overlap-grad-reduce" if sharded else "--use-distributed-optimizer"
        raise args.wrong("overlap_param_gather", f"needs {lacking}")
    tensor = args.switch("tp_comm_overlap")
    if tensor and not split:
        raise args.wrong("tp_comm_overlap", "needs --sequence-parallel and tensor ranks")
    return {
        "overlap_gradient_reduce": reduces,
        "overlap_parameter_gather": gathers,
        "overlap_tensor_parallel": tensor,
    }


KINDS: dict[str, str] = {
    "p2p": "ring", "all_gather": "all_gather", "allgather": "all_gather", "a2a": "ulysses",
    "a2a+p2p": "ulysses+ring",
}  # fmt: skip
"""Kinds by the words of --cp-comm-type, whose help text spells all_gather in one word."""


def _exchange(args: Arguments, context: int) -> dict[str, Any]:
    """How context ranks exchange a sequence: one word for all layers, and the ranks of two levels."""
    if context == 1:
        return {}
    words = list(dict.fromkeys(args.values("cp_comm_type") or ["p2p"]))
    if len(words) > 1:
        reason = "layers that exchange in different ways are not priced"
        raise args.wrong("cp_comm_type", reason, tuple(KINDS))
    if words[0] not in KINDS:
        raise args.wrong("cp_comm_type", "is no way to exchange a sequence", tuple(KINDS))
    if KINDS[words[0]] != "ulysses+ring":
        return {"context_parallel_kind": KINDS[words[0]]}
    levels = args.given("hierarchical_context_parallel_sizes")
    if levels is None:
        reason = "a2a+p2p needs --hierarchical-context-parallel-sizes"
        raise args.wrong("cp_comm_type", reason, ("p2p", "a2a"))
    said = args.values("hierarchical_context_parallel_sizes")
    sizes = [whole(value, "hierarchical_context_parallel_sizes", levels.where) for value in said]
    if len(sizes) != 2 or prod(sizes) != context:
        reason = f"must be two sizes that multiply to {context}"
        raise args.wrong("hierarchical_context_parallel_sizes", reason)
    if 1 in sizes:
        return {"context_parallel_kind": "ring" if sizes[0] == 1 else "ulysses"}
    return {"context_parallel_kind": "ulysses+ring", "ulysses_group_size": sizes[0]}


def _same_model(args: Arguments, model: Transformer) -> None:
    """Refuses arguments of another model than the request's."""
    first = model.kinds[0].attention
    modules = args.number("mtp_num_layers", 0) or 0
    if modules != model.mtp_layers:
        reason = f"the request trains {model.mtp_layers} modules that predict further tokens: set mtp_layers"
        legal = (f"training.mtp_layers = {modules}",) if modules <= model.predictor_depth else ("nothing",)
        raise args.wrong("mtp_num_layers", reason, legal)
    known = {
        "num_layers": model.layers - model.mtp_layers,
        "hidden_size": model.hidden_size,
        "num_attention_heads": getattr(first, "heads", None),
    }
    for name, expected in known.items():
        said = args.number(name)
        if said is not None and expected is not None and said != expected:
            raise args.wrong(name, f"the model of the request has {expected}", (str(expected),))


def job_fields(bundle: Bundle, model: Transformer, training: Training) -> dict[str, Any]:
    """Fields of the job that the arguments state and `training` leaves to the software.

    Modules that partial recomputation runs again: `core_attn` where none are named. One that no layer has
    changes nothing, unless Megatron-LM stops there.
    """
    args = Arguments(bundle)
    partly = args.word("recompute_granularity") == "selective" or args.switch("recompute_activations")
    said, priced = args.values("recompute_modules") or ["core_attn"], recomputed_modules(model, training)
    if not partly or set(said) == set(priced):
        return {}
    known = get_args(Module)
    if strange := [word for word in said if word not in known]:
        raise args.wrong("recompute_modules", f"{strange[0]} is not priced", known)
    held = held_modules(model)
    if stopped := [word for word in STOPPED if word in said and word not in held]:
        reason = f"{stopped[0]}: no layer has {LACKED[stopped[0]]}, and Megatron-LM stops there"
        raise args.wrong("recompute_modules", reason, held)
    said = [word for word in said if word in held]
    if set(said) == set(priced):
        return {}
    if training.recompute_modules:
        name = "recompute_modules" if args.given("recompute_modules") else "recompute_granularity"
        reason = f"runs {','.join(said)} again, the request {','.join(priced)}"
        raise args.wrong(name, reason, (f"training.recompute_modules={','.join(said)}",))
    return {"training.recompute_modules": said}


def _stages(args: Arguments, held: Chunks) -> list[dict[str, Any]]:
    """Layers of each stage with those recomputed and offloaded."""
    granularity = args.word("recompute_granularity")
    if args.switch("recompute_activations"):
        granularity = "selective"
    if granularity not in (None, "full", "selective"):
        raise args.wrong("recompute_granularity", "is no granularity", ("full", "selective"))
    number = args.count("recompute_num_layers")
    uniform = args.word("recompute_method") == "uniform"
    if granularity == "full" and args.word("recompute_method") not in ("uniform", "block"):
        raise args.wrong("recompute_method", "full recomputation needs a method", ("uniform", "block"))
    offloaded, full = _offload(args) == "cpu", granularity == "full"
    return [
        {
            "layers": sum(sizes),
            "recompute_full_layers": sum(n if uniform else min(number, n) for n in sizes) if full else 0,
            "recompute_selective_layers": sum(sizes) if granularity == "selective" else 0,
            "offloaded_layers": sum(sizes) if offloaded else 0,
            **({"chunk_layers": sizes} if len(set(sizes)) > 1 else {}),
        }
        for sizes in held
    ]


def _offload(args: Arguments) -> str:
    if not args.switch("optimizer_cpu_offload"):
        return "none"
    share = args.word("optimizer_offload_fraction")
    if share is not None and share.rstrip("0") not in ("1.", "1"):
        raise args.wrong("optimizer_offload_fraction", "a part of the states is not priced", ("1.0",))
    return "cpu"


def _precision(args: Arguments) -> dict[str, Any]:
    eight = args.word("fp8_recipe")
    if args.switch("fp16"):
        return {"precision": "fp16", "gradient_dtype": "fp16"}
    if not args.switch("bf16"):
        return {"precision": "fp32", "gradient_dtype": "fp32"}
    short = args.switch("grad_reduce_in_bf16")
    found: dict[str, Any] = {"precision": "bf16", "gradient_dtype": "bf16" if short else "fp32"}
    if args.word("fp8_format") is not None:
        found["precision"] = "mxfp8" if eight == "mxfp8" else "fp8"
        if eight == "delayed":
            found["software_stack"] = "nemo-2024"
    return found
