"""Files that belong together: which client each is for, and what their launchers say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, NamedTuple

from ..inputs import InputError
from .documents import Document

Client = Literal["deepspeed", "transformers", "accelerate", "fsdp", "megatron", "torchtitan", "launcher"]

_KEYS: dict[Client, set[str]] = {
    "transformers": {
        "per_device_train_batch_size", "output_dir", "gradient_checkpointing", "num_train_epochs", "fsdp",
        "max_steps", "learning_rate", "deepspeed", "model_name_or_path", "bf16", "fp16",
        "gradient_accumulation_steps",
    },
    "deepspeed": {
        "zero_optimization", "train_batch_size", "train_micro_batch_size_per_gpu", "bf16", "fp16",
        "optimizer", "gradient_accumulation_steps", "activation_checkpointing", "tensor_parallel",
    },
    "accelerate": {
        "compute_environment", "distributed_type", "fsdp_config", "deepspeed_config", "parallelism_config",
        "num_machines", "num_processes", "mixed_precision",
    },
    "megatron": {
        "tensor_model_parallel_size", "pipeline_model_parallel_size", "num_layers", "micro_batch_size",
        "hidden_size", "use_distributed_optimizer", "model_parallel", "language_model",
        "recompute_granularity", "num_attention_heads", "virtual_pipeline_model_parallel_size",
    },
    "torchtitan": {"parallelism", "training", "activation_checkpoint", "job"},
    "fsdp": {"WORLD_SIZE", "AXES", "RESHARD_AFTER_FORWARD"},
}  # fmt: skip
"""Top-level keys by which the files of a client are known."""

_BY_KIND: dict[str, tuple[Client, ...]] = {
    "json": ("transformers", "deepspeed", "megatron", "accelerate"),
    "yaml": ("accelerate", "transformers", "megatron", "deepspeed"),
    "toml": ("torchtitan",),
    "module": ("fsdp",),
    "script": ("megatron", "torchtitan", "transformers"),
    "hostfile": (),
}


def client_of(document: Document) -> Client:
    """The client a file is for: the one most of whose keys stand in it; a bare launcher otherwise."""
    keys = set(document.values)
    if document.kind == "script":
        keys = {key.partition(".")[0] for key in document.values["arguments"]}
        keys -= {"num_machines", "num_processes", "deepspeed"}
        if any("." in key for key in document.values["arguments"]) and "training" not in keys:
            keys |= {"training"} if "parallelism" in keys else set()
    found = {name: len(keys & _KEYS[name]) for name in _BY_KIND[document.kind]}
    best = max(found, key=lambda name: found[name], default=None)
    return best if best is not None and found[best] else "launcher"


def _leaves(document: Document) -> set[str]:
    """All words among the values of the top two tables."""
    tables = [document.values, *(v for v in document.values.values() if isinstance(v, dict))]
    return {value for table in tables for value in table.values() if isinstance(value, str)}


class Given(NamedTuple):
    """A value with the file and line it stands at."""

    value: Any
    where: str


class Bundle:
    """Files by client, and the arguments of all scripts among them; a later one wins."""

    def __init__(self, documents: Iterable[Document]) -> None:
        self.documents = tuple(documents)
        self.clients = {document.name: client_of(document) for document in self.documents}

    def of(self, client: Client) -> Document | None:
        """The first file of `client`; scripts, and files with values to be filled in, come last."""
        found = [document for document in self.documents if self.clients[document.name] == client]
        return min(found, key=lambda each: (each.kind == "script", "auto" in _leaves(each)), default=None)

    def argument(self, *names: str) -> Given | None:
        """The values of the first of the flags `names` that a script gives; the last script wins."""
        for name in names:
            for document in reversed(self._scripts()):
                values = document.values["arguments"].get(name)
                if values is not None:
                    return Given(values, document.where(f"arguments.{name}"))
        return None

    def assumed(self) -> dict[str, str]:
        """What a folder of ours states of choices that its client's file cannot hold."""
        found: dict[str, str] = {}
        for document in self._scripts():
            found |= document.values["assumes"]
        return found

    def variable(self, name: str) -> Given | None:
        """What a script sets an environment variable to; the last script wins."""
        for document in reversed(self._scripts()):
            value = document.values["environment"].get(name)
            if value is not None:
                return Given(value, document.where(f"environment.{name}"))
        return None

    def number(self, *names: str) -> int | None:
        """The whole number a flag is given; None where it is not there or comes from outside the script."""
        given = self.argument(*names)
        if given is None or not given.value or given.value[0].startswith("$"):
            return None
        return whole(given.value[0], names[0], given.where)

    def world(self) -> int | None:
        """Ranks that the launcher starts; None where it does not say."""
        total = self.number("num_processes")
        if total is not None:
            return total
        cards = self.number("nproc_per_node", "num_gpus")
        nodes = self.number("nnodes", "num_nodes")
        hosts = next((each.get("hosts") for each in self.documents if each.kind == "hostfile"), None)
        if cards is None:
            return sum(hosts.values()) if hosts else None
        return cards * (nodes or (len(hosts) if hosts else 1))

    def _scripts(self) -> list[Document]:
        return [document for document in self.documents if document.kind == "script"]


def whole(value: object, field: str, where: str) -> int:
    """`value` as a whole number; `InputError` for anything else, switches included.

    >>> whole("8", "nnodes", "launch.sh:3")
    8
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) < 20 and value.lstrip("+-").isdecimal():
        return int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    raise InputError(field, "nothing" if value is None else value, where, "must be a whole number")
