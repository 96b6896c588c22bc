"""Reading torchtitan's options, from its TOML or from arguments, back to choices."""

from __future__ import annotations

from typing import Any

from ...inputs import InputError
from ..bundle import Bundle, Given, whole
from ..documents import Document
from .pipeline import pipeline_fields

KINDS = {"none": "none", "full": "full", "selective": "selective"}
EXCHANGES = {"allgather": "all_gather", "alltoall": "ring"}
"""Kinds by the words of `context_parallel_rotate_method`, an option of releases before 0.3."""
UNPRICED = {
    "parallelism.expert_parallel_degree": "FSDP plans do not move tokens between experts; --to megatron does",
}

KEYS = {
    "tensor_parallel": "parallelism.tensor_parallel_degree",
    "pipeline_parallel": "parallelism.pipeline_parallel_degree",
    "shard_group_size": "parallelism.data_parallel_shard_degree",
    "data_parallel": "parallelism.data_parallel_replicate_degree",
    "micro_batch_size": "training.local_batch_size",
    "gradient_accumulation_steps": "training.global_batch_size",
    "offload_optimizer": "training.enable_cpu_offload",
    "precision": "training.mixed_precision_param",
}
"""Fields of a strategy by the option that states them."""


class Options:
    """The options by ``section.name``, of a file or of arguments."""

    def __init__(self, bundle: Bundle, file: Document) -> None:
        self.bundle, self.file = bundle, file

    def given(self, path: str) -> Given | None:
        """An option and its place; the command line wins."""
        said = self.bundle.argument(path)
        if said is not None:
            return Given(said.value[0] if said.value else True, said.where)
        off = self.bundle.argument(path.replace(".", ".no_", 1))
        if off is not None:
            return Given(False, off.where)
        if self.file.kind == "script" or self.file.get(path) is None:
            return None
        return Given(self.file.get(path), self.file.where(path))

    def number(self, path: str, default: int) -> int:
        """A whole number."""
        found = self.given(path)
        return default if found is None else whole(found.value, path, found.where)

    def switch(self, path: str) -> bool:
        """Whether an option is on."""
        found = self.given(path)
        return found is not None and str(found.value).lower() == "true"

    def word(self, path: str, default: str) -> str:
        """A word."""
        found = self.given(path)
        return default if found is None else str(found.value)

    def wrong(self, path: str, reason: str, legal: tuple[str, ...] = ()) -> InputError:
        """The error of an option."""
        found = self.given(path)
        value, where = (found.value, found.where) if found else ("nothing", self.file.name)
        return InputError(path, value, where, reason, legal=legal)


def fields(bundle: Bundle, file: Document, cards: int, layers: int) -> dict[str, Any]:
    """Choices by their name in `Strategy`; degrees of -1 take the cards that are left."""
    options = Options(bundle, file)
    for path, reason in UNPRICED.items():
        if options.number(path, 1) != 1:
            raise options.wrong(path, reason, ("1",))
    tensor = options.number("parallelism.tensor_parallel_degree", 1)
    replicas = options.number("parallelism.data_parallel_replicate_degree", 1)
    group = options.number("parallelism.data_parallel_shard_degree", -1)
    stages = options.number("parallelism.pipeline_parallel_degree", 1)
    context = options.number("parallelism.context_parallel_degree", 1)
    degrees = {
        "tensor_parallel_degree": tensor,
        "data_parallel_replicate_degree": replicas,
        "pipeline_parallel_degree": stages,
        "context_parallel_degree": context,
    }
    for path, value in degrees.items():
        if value < 1:
            raise options.wrong(f"parallelism.{path}", "must be at least 1", ("1",))
    if group == -1:
        group = (bundle.world() or cards) // (tensor * replicas * stages * context)
    if group < 1:
        raise options.wrong("parallelism.data_parallel_shard_degree", "must be at least 1, or -1", ("-1",))
    word = options.word("parallelism.fsdp_reshard_after_forward", "default")
    reshard = word == "always" or (word == "default" and stages == 1)
    place = "cpu" if options.switch("training.enable_cpu_offload") else "none"
    compiles = options.switch("compile.enable")
    micro, ranks = options.number("training.local_batch_size", 8), group * replicas
    found: dict[str, Any] = {
        "backend": "fsdp",
        "software_stack": "fsdp-compile-2024" if compiles else "fsdp-eager-2023",
        "loss_kernel": "compiled" if compiles and _compiles_loss(options) else "eager",
        "data_parallel": ranks,
        "context_parallel": context,
        "context_parallel_kind": _exchange(options) if context > 1 else "none",
        "tensor_parallel": tensor,
        "sequence_parallel": tensor > 1,
        "zero_stage": 3 if reshard else 2,
        "shard_group_size": group * context,
        "reshard_after_forward": reshard,
        "micro_batch_size": micro,
        "precision": _precision(options),
        "gradient_dtype": "fp32",
        "offload_optimizer": place,
        "offload_params": place,
        "recompute": _recompute(options),
    }
    total = options.number("training.global_batch_size", -1)
    if stages > 1:
        found |= pipeline_fields(options, stages, layers, micro, found["recompute"])
        if total not in (-1, micro * ranks):
            reason = f"is priced with a pipeline as local_batch_size x ranks, {micro * ranks}"
            raise options.wrong("training.global_batch_size", reason, (str(micro * ranks),))
    elif total > 0:
        steps, left = divmod(total, micro * ranks)
        if left or not steps:
            reason = f"is no multiple of {micro} x {ranks} ranks"
            raise options.wrong("training.global_batch_size", reason)
        found["gradient_accumulation_steps"] = steps
    return found


def _exchange(options: Options) -> str:
    path = "parallelism.context_parallel_rotate_method"
    word = options.word(path, "allgather")
    if word not in EXCHANGES:
        raise options.wrong(path, "is no way to exchange a sequence", tuple(EXCHANGES))
    return EXCHANGES[word]


def _compiles_loss(options: Options) -> bool:
    """`compile.components`, which is model and loss where nothing is said."""
    said = options.bundle.argument("compile.components")
    value = ",".join(said.value).split(",") if said is not None else options.file.get("compile.components")
    return "loss" in (value if isinstance(value, list) else ["model", "loss"])


def _precision(options: Options) -> str:
    word = options.word("training.mixed_precision_param", "bfloat16")
    if word not in ("bfloat16", "float32"):
        raise options.wrong("training.mixed_precision_param", "is no type", ("bfloat16", "float32"))
    return "bf16" if word == "bfloat16" else "fp32"


def _recompute(options: Options) -> str:
    """The word at the end of the arguments of 0.3, or the mode of 0.2."""
    for document in options.bundle.documents:
        for word in document.values.get("programs", []) + _tail(document):
            kind, colon, name = word.partition(":")
            if kind == "activation-checkpoint" and colon:
                return _kind(options, name)
    return _kind(options, options.word("activation_checkpoint.mode", "selective"))


def _tail(document: Document) -> list[str]:
    """Words that follow the value of a flag."""
    arguments = document.values.get("arguments", {}) if document.kind == "script" else {}
    return [word for values in arguments.values() for word in values]


def _kind(options: Options, name: str) -> str:
    if name not in KINDS:
        raise options.wrong("activation_checkpoint.mode", f"{name} is not priced", tuple(KINDS))
    return KINDS[name]
