"""Reading Megatron-LM's arguments, from a script, a list or a YAML file, back to choices."""

from __future__ import annotations

from math import prod
from typing import Any, get_args

from ...inputs import InputError
from ...models.training import Module, Training
from ...models.transformer import Transformer
from ..bundle import Bundle, Given, whole
from ..documents import Document
from ..documents.script import spoken
from .layout import layers_of, modules_of
from .recompute import recomputed_modules

UNPRICED = {
    "use_megatron_fsdp": "Megatron FSDP is not priced; --use-distributed-optimizer is",
    "use_torch_fsdp2": "FSDP2 inside Megatron-LM is not priced; --use-distributed-optimizer is",
    "use_custom_fsdp": "Megatron FSDP is not priced; --use-distributed-optimizer is",
    "fp4_format": "4-bit products are not priced under Megatron-LM",
    "cpu_offloading": "offload of activations is not priced",
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


class Arguments:
    """All arguments of a bundle: flags of scripts, and the leaves of a YAML file."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        file = bundle.of("megatron")
        self.leaves: dict[str, Given] = {}
        if file is not None and file.kind != "script":
            self._flatten(file, file.values, "")

    def _flatten(self, file: Document, table: dict[str, Any], path: str) -> None:
        for key, value in table.items():
            inner = f"{path}.{key}" if path else key
            if isinstance(value, dict):
                self._flatten(file, value, inner)
            else:
                self.leaves[key.replace("-", "_")] = Given([str(value)], file.where(inner))

    def given(self, name: str) -> Given | None:
        """The words behind an argument and their place."""
        found = self.bundle.argument(name) or self.leaves.get(name)
        return None if found and found.value and found.value[0] in ("None", "null") else found

    def values(self, name: str) -> list[str]:
        """The words of an argument that takes some; none where it is not there or comes from outside."""
        found = self.given(name)
        if found is not None and not found.value:
            raise self.wrong(name, "needs a value: argparse stops there")
        return [] if found is None else spoken(found.value)

    def number(self, name: str, default: int | None = None) -> int | None:
        """A whole number."""
        words, found = self.values(name), self.given(name)
        if found is None or not words:
            return default
        number = whole(words[0], name, found.where)
        if number < 1:
            raise InputError(name, number, found.where, "must be at least 1", legal=["1"])
        return number

    def count(self, name: str, default: int = 1) -> int:
        """A whole number that has a default."""
        return self.number(name, default) or default

    def switch(self, name: str) -> bool:
        """Whether a switch is set: as a flag, which takes no value, or as true in a YAML file."""
        if self.bundle.argument(name) is None and name in self.leaves:
            return self._truth(name)
        found = self.given(name)
        if found is not None and (words := spoken(found.value)):
            raise self.wrong(name, f"is a switch and takes no value: argparse stops at {words[0][:40]!r}")
        return found is not None

    def _truth(self, name: str) -> bool:
        found = self.given(name)
        if found is not None and found.value[0] not in ("True", "False"):
            raise self.wrong(name, "must be true or false", ("true", "false"))
        return found is not None and found.value[0] == "True"

    def asked(self, name: str) -> bool:
        """Whether an argument is there, with any value that does not switch it off."""
        found = self.given(name)
        return found is not None and found.value[:1] != ["False"]

    def word(self, name: str) -> str | None:
        """The first word."""
        return next(iter(self.values(name)), None)

    def wrong(self, name: str, reason: str, legal: tuple[str, ...] = ()) -> InputError:
        """The error of an argument."""
        found = self.given(name)
        value = " ".join(found.value[:3]) if found else "nothing"
        origin = found.where if found else "arguments"
        return InputError(f"--{name.replace('_', '-')}", value or "set", origin, reason, legal=legal)


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
    layers, chunks = _layers(args, model, stages)
    found: dict[str, Any] = {
        "backend": "megatron",
        "data_parallel": ranks,
        "tensor_parallel": tensor,
        "pipeline_parallel": stages,
        "context_parallel": context,
        **_exchange(args, context),
        "expert_parallel": args.count("expert_model_parallel_size"),
        "expert_tensor_parallel": args.count("expert_tensor_parallel_size", tensor if routed else 1),
        "virtual_pipeline": chunks,
        "zero_stage": int(sharded),
        "shard_group_size": ranks * context if sharded else 1,
        "reshard_after_forward": False,
        **_overlaps(args, sharded, split),
        "sequence_parallel": split,
        "micro_batch_size": micro,
        "rank_order": "tp-cp-pp-dp" if args.switch("use_tp_pp_dp_mapping") and stages > 1 else "tp-cp-dp-pp",
        "stages": _stages(args, layers, chunks),
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

    Modules that partial recomputation runs again: `core_attn` where none are named.
    """
    args = Arguments(bundle)
    partly = args.word("recompute_granularity") == "selective" or args.switch("recompute_activations")
    said, priced = args.values("recompute_modules") or ["core_attn"], recomputed_modules(model, training)
    if not partly or set(said) == set(priced):
        return {}
    known = get_args(Module)
    if strange := [word for word in said if word not in known]:
        raise args.wrong("recompute_modules", f"{strange[0]} is not priced", known)
    if training.recompute_modules:
        name = "recompute_modules" if args.given("recompute_modules") else "recompute_granularity"
        reason = f"runs {','.join(said)} again, the request {','.join(priced)}"
        raise args.wrong(name, reason, (f"training.recompute_modules={','.join(said)}",))
    return {"training.recompute_modules": said}


def _layers(args: Arguments, model: Transformer, stages: int) -> tuple[list[int], int]:
    """(layers of each stage, chunks of a stage)."""
    spelt = args.word("pipeline_model_parallel_layout")
    if spelt is not None:
        return _spelt(args, spelt, stages, model.mtp_layers)
    first, last = (args.number(f"decoder_{end}_pipeline_num_layers") for end in ("first", "last"))
    ends, middle = (first or 0) + (last or 0), stages - (first is not None) - (last is not None)
    layers = model.layers - model.mtp_layers
    each, left = divmod(layers - ends, middle) if middle else (0, layers - ends)
    if left or each < 0:
        reason = f"{layers} layers make no {stages} stages: state a layout"
        raise args.wrong("pipeline_model_parallel_size", reason)
    sizes = [*[first] * (first is not None), *[each] * middle, *[last] * (last is not None)]
    chunks = args.number("num_virtual_stages_per_pipeline_rank")
    per_chunk = args.number("num_layers_per_virtual_pipeline_stage")
    if chunks is None and per_chunk is not None:
        chunks = each // per_chunk
    held = [size or 0 for size in sizes]
    return [*held[:-1], held[-1] + model.mtp_layers], chunks or 1


def _spelt(args: Arguments, spelt: str, stages: int, trained: int) -> tuple[list[int], int]:
    try:
        sizes, modules = layers_of(spelt), modules_of(spelt)
    except ValueError as error:
        raise args.wrong("pipeline_model_parallel_layout", str(error)) from None
    if modules != trained:
        raise args.wrong(
            "pipeline_model_parallel_layout", f"has {modules} modules (m), --mtp-num-layers {trained}"
        )
    chunks, left = divmod(len(sizes), stages)
    if left or not chunks:
        raise args.wrong("pipeline_model_parallel_layout", f"its chunks are no multiple of {stages} stages")
    return [sum(sizes[stage::stages]) for stage in range(stages)], chunks


def _stages(args: Arguments, layers: list[int], chunks: int) -> list[dict[str, int]]:
    """Layers of each stage with those recomputed and offloaded."""
    granularity = args.word("recompute_granularity")
    if args.switch("recompute_activations"):
        granularity = "selective"
    if granularity not in (None, "full", "selective"):
        raise args.wrong("recompute_granularity", "is no granularity", ("full", "selective"))
    number = args.count("recompute_num_layers") * chunks
    uniform = args.word("recompute_method") == "uniform"
    if granularity == "full" and args.word("recompute_method") not in ("uniform", "block"):
        raise args.wrong("recompute_method", "full recomputation needs a method", ("uniform", "block"))
    offloaded = _offload(args) == "cpu"
    return [
        {
            "layers": held,
            "recompute_full_layers": (held if uniform else min(number, held)) if granularity == "full" else 0,
            "recompute_selective_layers": held if granularity == "selective" else 0,
            "offloaded_layers": held if offloaded else 0,
        }
        for held in layers
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
